"""How the records move: rates, the last minutes, and how long a shard has stalled. Sampled once a second."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from oracle.telemetry.records import ProcessTelemetry, ShardTelemetry

__all__ = ["HISTORY_SECONDS", "Trends"]

HISTORY_SECONDS: Final = 5.0
"""What one entry of the history stands for."""

_ENTRIES: Final = 60
_RATE_SECONDS: Final = 10.0


@dataclass
class _Trail:
    """What was seen of one shard.

    Attributes:
        rounds: (seconds, rounds answered) of the last seconds in which it was restored.
        moved: When it last moved, or had nothing to move for.
        batches: How many batches it had committed then.
    """

    moved: float
    rounds: deque[tuple[float, int]] = field(default_factory=deque)
    batches: int = -1


class Trends:
    """Follows the records over time."""

    def __init__(self) -> None:
        self._trails: dict[int, _Trail] = {}
        self._marks: dict[int, int] = {}
        self._marked = -1.0
        self._ends = 0.0
        self._rates: deque[float] = deque(maxlen=_ENTRIES)
        self._lags: deque[int | None] = deque(maxlen=_ENTRIES)

    def observe(self, telemetry: ProcessTelemetry, seconds: float, now: float) -> None:
        """Take in a record, at so many seconds of a monotone clock, which are `now` since 1970."""
        shards = {record.shard: record for record in telemetry.shards}
        for gone in self._trails.keys() - shards.keys():
            del self._trails[gone]
        for number, record in shards.items():
            self._follow(self._trails.setdefault(number, _Trail(seconds)), record, seconds)
        if self._marked < 0 or seconds - self._marked >= HISTORY_SECONDS:
            self._mark(telemetry.shards, seconds, now)

    def _follow(self, trail: _Trail, record: ShardTelemetry, seconds: float) -> None:
        idle = record.begun == record.batches if record.lag is None else record.lag.records == 0
        if not record.answers or idle or record.batches != trail.batches:
            trail.moved, trail.batches = seconds, record.batches
        if not record.restored:
            trail.rounds.clear()
            return
        trail.rounds.append((seconds, record.round))
        while seconds - trail.rounds[0][0] > _RATE_SECONDS:
            trail.rounds.popleft()

    def _mark(self, shards: Sequence[ShardTelemetry], seconds: float, now: float) -> None:
        """Add an entry to the history; rounds that were answered before a shard was ours do not count."""
        answered = {record.shard: record.round for record in shards if record.restored}
        if self._marked >= 0:
            new = sum(done - self._marks[shard] for shard, done in answered.items() if shard in self._marks)
            self._rates.append(new / (seconds - self._marked))
            known = [record.lag.records for record in shards if record.lag is not None]
            self._lags.append(sum(known) if known else None)
        self._marks, self._marked, self._ends = answered, seconds, now

    def rate(self, shard: int) -> float:
        """Return a shard's queries a second, over the last ten seconds or as many as it has been restored for."""
        trail = self._trails.get(shard)
        if trail is None or len(trail.rounds) < 2:  # noqa: PLR2004 -- a rate needs two points
            return 0.0
        (begin, first), (end, last) = trail.rounds[0], trail.rounds[-1]
        return (last - first) / (end - begin)

    def stalled_for(self, shard: int, seconds: float) -> float:
        """Return for how long a shard that is serving has committed no batch, though there is something to read."""
        trail = self._trails.get(shard)
        return 0.0 if trail is None else seconds - trail.moved

    @property
    def ends(self) -> float:
        """When the history's last entry ends (seconds since 1970)."""
        return self._ends

    @property
    def rates(self) -> list[float]:
        """Queries a second of all shards in each entry's time, oldest first."""
        return list(self._rates)

    @property
    def lags(self) -> list[int | None]:
        """Messages that all shards were behind at each entry's end; None where no source could tell."""
        return list(self._lags)
