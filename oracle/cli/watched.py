"""The web server beside what `perpetua serve` does."""

import contextlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from oracle.service.board import Board
from oracle.service.config_web import WebTable
from oracle.service.log import PublicLog

__all__ = ["watched"]


def watched(
    table: WebTable | None, board: Board, folder_of: Callable[[int], Path], log: PublicLog
) -> AbstractAsyncContextManager[None]:
    """Return the context in which the board can be looked at, as `[web]` says; without `[web]`, by nobody.

    Raises:
        InputError: On entering: the port is taken, or the token file cannot be used.
    """
    if table is None:
        return contextlib.nullcontext()
    from oracle.service.web.server import serving

    return serving(table, board, folder_of, log)
