"""The engine's side: `python -m oracle.service.apart WIRE MEMORY`, two open files' numbers; the daemon calls it."""

import sys

from oracle.service.apart.worker import work

if __name__ == "__main__":
    work(int(sys.argv[1]), int(sys.argv[2]))
