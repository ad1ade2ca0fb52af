"""`perpetua serve`, broken on purpose."""

from oracle.audit.crashes.daemons import serve
from tests.audit.planted.mutants import planted

__all__ = ["serve_drawn_again"]


def serve_drawn_again(configuration: str) -> None:
    """Serve with noise of the process's own."""
    with planted("noise drawn again after a restart"):
        serve(configuration)
