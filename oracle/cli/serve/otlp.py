"""What `perpetua serve` sends by OTLP, as `[otlp]` asks for it."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial

from oracle.config.daemon import Config
from oracle.errors import InputError
from oracle.telemetry.log import PublicLog
from oracle.telemetry.observers import Observers

__all__ = ["Export", "export_of", "try_export"]

Export = Callable[[Observers, PublicLog], AbstractAsyncContextManager[None]]
"""Sends what is told of models until its context is left."""

_INSTALL = "needs OpenTelemetry: pip install 'perpetua[otel]'"


def export_of(config: Config, topics: Mapping[str, str | None]) -> Export | None:
    """Return what the configuration asks for; None without `[otlp]`.

    Args:
        config: The process's.
        topics: Of each model, by name: where its queries come from; None where there is no topic.

    Raises:
        InputError: OpenTelemetry is not installed.
    """
    if config.otlp is None:
        return None
    try:
        from oracle.telemetry.otlp.sending import exporting
        from oracle.telemetry.otlp.spans import Channel
    except ImportError as exc:
        raise InputError("otlp", "...", _INSTALL) from exc
    channels = {name: Channel(config.source.kind, topic) for name, topic in topics.items()}
    return partial(exporting, config.otlp, channels)


def try_export(config: Config) -> None:
    """Try what `export_of` would do, with nothing to send.

    Raises:
        PerpetuaError: OpenTelemetry is not installed, a file cannot be used, or the collector does not answer.
    """
    if export_of(config, {}) is not None and config.otlp is not None:
        from oracle.telemetry.otlp.sending import try_sending

        try_sending(config.otlp)
