"""`python -m tests.golden`: make what is not there yet in `tests/golden`, in the folder of the newest format version.

What is there is never made again: it is what a Perpetua of then wrote. A new format version gets a new folder.
"""

import sys

from oracle.state.header import VERSION
from tests.golden.make import make_golden, plans, version_folder


def main() -> None:
    """Make what is missing, and say what was made."""
    for name, plan in plans().items():
        folder = version_folder(VERSION) / name
        if any((version_folder(version) / name).exists() for version in range(2, VERSION + 1)):
            sys.stdout.write(f"there  {name}\n")
        else:
            make_golden(folder, plan)
            sys.stdout.write(f"made   {folder}\n")


if __name__ == "__main__":
    main()
