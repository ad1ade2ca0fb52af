"""What libraries log by themselves: free text, which may hold what was sent, and so is never printed."""

import logging
import re
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from oracle.telemetry.log import PublicLog

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["LibraryLog", "hear_client"]

_LOGGERS: Final = ("aiokafka", "kafka", "mqtt", "asyncio")
"""The clients' own, our connectors', and where they leave failed futures behind."""

_QUIET_SECONDS: Final = 10.0
_PLACE: Final = re.compile(r"%[-#0-9. +]*[a-zA-Z]")
"""Where a line's text has a value."""

_LEFT_OUT: Final = "..."


def hear_client(handler: logging.Handler | None = None, loggers: Sequence[str] = _LOGGERS) -> None:
    """Give all that a library logs to this handler, and to nobody else; None silences it."""
    for name in loggers:
        logger = logging.getLogger(name)
        logger.propagate = False
        logger.handlers = [handler or logging.NullHandler()]


class LibraryLog(logging.Handler):
    """Turns a library's own log lines, which are free text, into events of the closed vocabulary.

    Args:
        log: Where these go; of each of the library's loggers at most one in ten seconds.
    """

    def __init__(self, log: PublicLog, event: str = "bus.client", clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self._log = log
        self._event = event
        self._clock = clock
        self._said: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Say which part of the library had something to say, and what of it is public."""
        now = self._clock()
        if now - self._said.get(record.name, -_QUIET_SECONDS) >= _QUIET_SECONDS:
            self._said[record.name] = now
            self._log.warning(self._event, kind=record.name, reason=_public(record))


def _public(record: logging.LogRecord) -> str:
    """Return what is said without what it is said of: the text as it stands in the library's code, names of errors.

    A text that is no constant of the code may have been put together from anything; then only its weight is told.
    """
    given = record.args if isinstance(record.args, tuple) else ()
    shown = [_error_name(value) or _LEFT_OUT for value in given]
    error = _error_name(record.exc_info[1]) if record.exc_info else None
    text = record.levelname.lower()
    if isinstance(record.msg, str) and _is_constant(record):
        text = _PLACE.sub(lambda _: shown.pop(0) if shown else _LEFT_OUT, record.msg)
    names = [name for name in (*shown, error) if name not in {None, _LEFT_OUT}]
    return " ".join([text, *(f"({name})" for name in names)])


def _error_name(value: object) -> str | None:
    kind = value if isinstance(value, type) else type(value)
    return kind.__name__.removesuffix("Error") if issubclass(kind, BaseException) else None


def _is_constant(record: logging.LogRecord) -> bool:
    """Return whether a line's text stands as it is in the code that logs it, which called us."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 -- the only way to who is calling
    while frame is not None:
        code = frame.f_code
        if code.co_filename == record.pathname and frame.f_lineno == record.lineno:
            return record.msg in code.co_consts
        frame = frame.f_back
    return False
