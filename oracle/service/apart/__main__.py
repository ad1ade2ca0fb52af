"""The engine's side: `python -m oracle.service.apart WIRE MEMORY`, two open files' numbers; the daemon calls it."""

import sys

from oracle.service.apart.worker import work
from oracle.service.memory import close_memory

if __name__ == "__main__":
    close_memory()  # the daemon's is, but it ends at an exec
    work(int(sys.argv[1]), int(sys.argv[2]))
