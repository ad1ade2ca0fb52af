"""`perpetua serve`, broken on purpose: run as a script with a planted bug's name and the configuration."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])

from oracle.cli.main import main  # noqa: E402 -- the project's root must be on the path before
from tests.audit.mutants import planted  # noqa: E402 -- as above

if __name__ == "__main__":
    bug, sys.argv = sys.argv[1], ["perpetua", "serve", sys.argv[2]]
    with planted(bug):
        main()
