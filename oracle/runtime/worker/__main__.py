"""The engine's side: `python -m oracle.runtime.worker WIRE MEMORY`, two open files' numbers; the daemon calls it."""

import sys

from oracle.runtime.memory import close_memory
from oracle.runtime.worker.server import work

if __name__ == "__main__":
    close_memory()  # the daemon's is, but it ends at an exec
    work(int(sys.argv[1]), int(sys.argv[2]))
