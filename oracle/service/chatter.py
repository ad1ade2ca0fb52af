"""What libraries log by themselves: free text, which may hold what was sent, and so is never printed."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from oracle.service.log import PublicLog

__all__ = ["ClientChatter", "hear_client"]

_LOGGERS: Final = ("aiokafka", "mqtt", "asyncio")
"""The clients' own, and where they leave failed futures behind."""

_QUIET_SECONDS: Final = 10.0


def hear_client(handler: logging.Handler, loggers: Sequence[str] = _LOGGERS) -> None:
    """Give all that a library logs to this handler, and to nobody else; `logging.NullHandler` silences it.

    Args:
        handler: Gets the lines.
        loggers: The library's; by default the clients'.
    """
    for name in loggers:
        logger = logging.getLogger(name)
        logger.propagate = False
        logger.handlers = [handler]


class ClientChatter(logging.Handler):
    """Turns a library's own log lines, which are free text, into events of the closed vocabulary.

    Args:
        log: Where these go; of each of the library's loggers at most one in ten seconds.
        event: What they are called there.
        clock: Seconds, monotone.
    """

    def __init__(self, log: PublicLog, event: str = "bus.client", clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self._log = log
        self._event = event
        self._clock = clock
        self._said: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Say that there was something, of which part of the library and of which weight; not what."""
        now = self._clock()
        if now - self._said.get(record.name, -_QUIET_SECONDS) >= _QUIET_SECONDS:
            self._said[record.name] = now
            self._log.warning(self._event, kind=record.name, reason=_reason(record))


def _reason(record: logging.LogRecord) -> str:
    """Return a line's weight, and the kinds of the errors that it tells of; never a text."""
    given = record.args if isinstance(record.args, tuple) else ()
    errors = [*given, *(record.exc_info or ())]
    kinds = [type(error).__name__ for error in errors if isinstance(error, BaseException)]
    return ": ".join([record.levelname.lower(), *dict.fromkeys(kinds)])
