"""`perpetua serve`, broken on purpose."""

import contextlib
import os
import signal
from pathlib import Path

from oracle.audit.crashes.folders import serve
from tests.audit.planted.mutants import planted

__all__ = ["serve_and_say_well", "serve_drawn_again", "serve_never", "serve_once_killed"]


def serve_drawn_again(configuration: str) -> None:
    """Serve with noise of the process's own."""
    with planted("noise drawn again after a restart"):
        serve(configuration)


def serve_never(_configuration: str) -> None:
    """Be killed, as where memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


def serve_and_say_well(configuration: str) -> None:
    """Serve, and say that all is well whatever it ends with."""
    with contextlib.suppress(SystemExit):
        serve(configuration)


def serve_once_killed(configuration: str) -> None:
    """Be killed by somebody else the first time that a folder is served, and end without a fault the second time."""
    turn = Path(configuration).with_name("turns")
    turns = len(turn.read_bytes()) if turn.exists() else 0
    turn.write_bytes(b"." * (turns + 1))
    if turns == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    if turns != 1:
        serve(configuration)
