"""`python -m oracle.cli` is the command `perpetua`."""

from oracle.cli.main import main

main()
