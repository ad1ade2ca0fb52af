"""`python -m tests.golden`: make what is not there yet in `tests/golden`, in the folder of its format version.

What is there is never made again: it is what a Perpetua of then wrote. A new format version gets a new folder.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from oracle.state.folder import peek_folder
from tests.golden.make import make_golden, plans, version_folder


def main() -> None:
    """Make what is missing, and say what was made."""
    for name, plan in plans().items():
        with tempfile.TemporaryDirectory() as scratch:
            made = Path(scratch) / name
            make_golden(made, plan)
            header = peek_folder(made / "state")
            assert header is not None, "it has a snapshot"
            folder = version_folder(header.version) / name
            there = folder.exists()
            if not there:
                shutil.copytree(made, folder)
        sys.stdout.write(f"{'there' if there else 'made '}  {folder}\n")


if __name__ == "__main__":
    main()
