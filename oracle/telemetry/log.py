"""Logging with a closed vocabulary: an event or field that is not listed here cannot be logged.

Telemetry is public (ARCHITECTURE.md, "What may be seen"): so there is no field for a label, a feature, a depth, a
medium count or a set's size, and no free text but the texts of Perpetua's own errors.
"""

import os
import sys
from typing import Final, Literal, TextIO

import structlog

from oracle.errors import PerpetuaError

__all__ = ["EVENTS", "FIELDS", "PublicLog", "public_text"]

EVENTS: Final = frozenset(
    {
        "answers.spent",
        "answers.undelivered",
        "bus.client",
        "bus.connected",
        "bus.noted",
        "bus.refused",
        "bus.unavailable",
        "asking.listening",
        "daemon.starting",
        "daemon.recovered",
        "daemon.serving",
        "daemon.draining",
        "daemon.paused",
        "daemon.resumed",
        "daemon.stopped",
        "daemon.failed",
        "group.stranger",
        "marks.unkept",
        "message.failed",
        "model.failed",
        "otlp.client",
        "otlp.exporting",
        "phase.started",
        "queries.rejected",
        "rest.ended",
        "rest.started",
        "shard.assigned",
        "shard.failed",
        "shard.fenced",
        "shard.followed",
        "shard.revoked",
        "snapshot.written",
        "snapshot.failed",
        "source.ended",
        "source.passed",
        "truth.counting",
        "truth.rejected",
        "truth.released",
        "web.listening",
        "web.server",
    }
)
"""Every event there is."""

FIELDS: Final = frozenset(
    {
        "count",
        "covers",
        "delta",
        "epsilon",
        "error",
        "half_width",
        "host",
        "kind",
        "model",
        "nominal",
        "paid",
        "partition",
        "period",
        "phase",
        "port",
        "position",
        "reason",
        "rearms",
        "rest_left",
        "rested",
        "right",
        "round",
        "rounds",
        "seconds",
        "signal",
        "version",
        "wrong",
    }
)
"""Every field there is, beside the event, the time and the level."""

_WHOLE_SECONDS: Final = "%Y-%m-%dT%H:%M:%SZ"
"""How a line's time is written: two lines tell how long what lay between them took no finer than that."""


class PublicLog:
    """Writes log lines to one stream.

    Args:
        model: The model's name, on every line; "" where the line is of many.
        partition: The partition's number, on every line; None where there is only one stream.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        layout: Literal["json", "text"] = "text",
        model: str = "",
        partition: int | None = None,
    ) -> None:
        stream = stream or sys.stderr
        last = (
            structlog.processors.JSONRenderer(sort_keys=True)
            if layout == "json"
            else structlog.dev.ConsoleRenderer(colors=stream.isatty() and "NO_COLOR" not in os.environ)
        )
        self._logger = structlog.wrap_logger(
            structlog.WriteLogger(stream),
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt=_WHOLE_SECONDS, utc=True),
                last,
            ],
        )
        self._stream, self._layout, self._model = stream, layout, model
        self._always: dict[str, float | str] = {"model": model} if model else {}
        if partition is not None:
            self._always["partition"] = partition

    def of_model(self, name: str) -> "PublicLog":
        """Return the log of one model."""
        return PublicLog(self._stream, self._layout, name)

    def of(self, partition: int) -> "PublicLog":
        """Return the log of one partition."""
        return PublicLog(self._stream, self._layout, self._model, partition)

    def info(self, event: str, **fields: float | str) -> None:
        """Log something that is as it should be.

        Raises:
            KeyError: The event or a field is not in the closed vocabulary.
        """
        self._logger.info(event, **self._checked(event, fields))

    def warning(self, event: str, **fields: float | str) -> None:
        """Log something that an operator should know."""
        self._logger.warning(event, **self._checked(event, fields))

    def error(self, event: str, **fields: float | str) -> None:
        """Log why the daemon stops."""
        self._logger.error(event, **self._checked(event, fields))

    def _checked(self, event: str, fields: dict[str, float | str]) -> dict[str, float | str]:
        if event not in EVENTS or not fields.keys() <= FIELDS:
            raise KeyError(f"log event {event!r} or one of its fields is not in the closed vocabulary")
        return {**self._always, **fields}


def public_text(error: Exception) -> str:
    """Return what may be told of an error: of Perpetua's own its text, of a foreign one, private maybe, its class."""
    return str(error) if isinstance(error, PerpetuaError) else f"internal error: {type(error).__name__}"
