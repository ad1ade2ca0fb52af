"""Metrics for Prometheus, all of them made from the telemetry records when somebody asks, and timings as they come.

There are no `process_*` and `python_*` metrics. Memory and CPU time follow the sizes of private sets, the collector's
rounds follow the objects of single messages, and telemetry is public.
"""

from collections.abc import Callable
from enum import StrEnum

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, choose_encoder
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST
from prometheus_client.utils import floatToGoString

from oracle.telemetry.families import Moment, Tally, families
from oracle.telemetry.records import Timing, Work
from oracle.telemetry.registry import Registry

__all__ = ["Format", "Metrics", "encode", "format_for"]


_number: Callable[[float], str] = floatToGoString


class Format(StrEnum):
    """How metrics are written; the value is the content type."""

    TEXT = CONTENT_TYPE_PLAIN_0_0_4
    OPENMETRICS = CONTENT_TYPE_LATEST


class Metrics:
    """The metrics of one process.

    Args:
        board: Where the records are.
        unready: The shards that are not ready now, and None if the whole process is not.
        now: Seconds since 1970.
    """

    def __init__(
        self, board: Registry, *, unready: Callable[[], frozenset[int | None]], now: Callable[[], float]
    ) -> None:
        self._board = board
        self._unready = unready
        self._now = now
        self._tallies: dict[tuple[Work, int], Tally] = {}
        board.listen(self._observe)

    def look(self) -> Moment:
        """Return what there is to be told now; `encode` makes the metrics of it, in whatever thread."""
        return Moment(self._board.telemetry, self._unready(), self._now(), dict(self._tallies))

    def _observe(self, timing: Timing) -> None:
        key = (timing.work, timing.shard)
        self._tallies[key] = self._tallies.get(key, Tally.none(timing.work)).plus(timing)


def format_for(accept: str) -> Format:
    """Return the format that an Accept header asks for; plain text if it asks for none that is known."""
    try:
        _, content_type = choose_encoder(accept)
    except (TypeError, ValueError):  # it asks for a version that is none
        return Format.TEXT
    return Format.OPENMETRICS if content_type.startswith("application/openmetrics-text") else Format.TEXT


def encode(moment: Moment, wanted: Format) -> bytes:
    """Return the metrics as `prometheus_client` writes them, byte for byte, in a tenth of its time."""
    lines: list[str] = []
    for family in families(moment):
        name = f"{family.name}_total" if family.kind == "counter" and wanted is Format.TEXT else family.name
        lines.append(f"# HELP {name} {family.meaning}\n# TYPE {name} {family.kind}\n")
        lines += [f"{labelled} {_number(value)}\n" for labelled, value in family.samples]
    if wanted is Format.OPENMETRICS:
        lines.append("# EOF\n")
    return "".join(lines).encode()
