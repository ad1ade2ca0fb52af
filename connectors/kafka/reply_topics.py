"""Reply topics that cannot be written to: each costs those who asked for it their answers, and nobody else.

A topic that is missing, forbidden, without a leader or with too few copies is seen before a transaction is begun: it is
looked for a few seconds longer, once, and then passed over until it is good. (Once a transaction holds a partition that
takes no marker of its end, nobody can end it.) What only shows when it is written to (no message so large, none without
a key) spoils a transaction, and is tried again after a pause that grows.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from aiokafka import AIOKafkaClient

from connectors.kafka.metadata import MAX_BYTES, WRITE, TopicLook, configs, look
from connectors.kafka.settings import KafkaSettings

__all__ = ["ReplyTopics"]

_GOOD_SECONDS: Final = 1.0
"""For so long a topic is believed to be there still."""

_APPEAR_SECONDS: Final = 3.0
"""Seconds that a topic may take to appear: brokers do not learn of a new one all at once."""

_IN_SYNC: Final = "min.insync.replicas"
_LEAST_BYTES: Final = 1024

_PAUSE: Final = 0.1
_FIRST_SECONDS: Final = 60.0
_LONGEST_SECONDS: Final = 3600.0


@dataclass(slots=True)
class _Suspension:
    """Of a topic that spoilt a transaction: until when, and for how long."""

    until: float
    seconds: float


def _lacks(found: TopicLook, number: int, set_to: Mapping[str, int]) -> str | None:
    """Return why the topic of query partition `number` cannot be written to, None if it can as far as can be seen."""
    if not found.there or (not found.leaders and found.operations):
        return "it does not exist"
    if not found.allows(WRITE):
        return "the brokers deny Write"
    partition = number % len(found.leaders)
    if found.leaders.get(partition, -1) < 0:
        return f"partition {partition} has no leader"
    if found.in_sync[partition] < set_to.get(_IN_SYNC, 1):
        in_sync = found.in_sync[partition]
        return f"partition {partition}: {in_sync} replicas in sync, but {_IN_SYNC} = {set_to[_IN_SYNC]}"
    if set_to.get(MAX_BYTES, _LEAST_BYTES) < _LEAST_BYTES:
        return f"{MAX_BYTES} = {set_to[MAX_BYTES]}: must be at least {_LEAST_BYTES}"
    return None


class ReplyTopics:
    """What is known of the reply topics of a partition.

    Args:
        settings: The allow-list, and which of it is unfit.
        tell: Called with why, once for each topic that is found to take nothing.

    Attributes:
        partitions: How many each topic has that was found good.
        batch_bytes: Most bytes of a batch for each of them, where its topic says.
    """

    def __init__(self, settings: KafkaSettings, partition: int, tell: Callable[[str], None]) -> None:
        self._settings = settings
        self._partition = partition
        self._tell = tell
        self.partitions: dict[str, int] = {}
        self.batch_bytes: dict[str, int] = {}
        self._looked: dict[str, float] = {}
        self._reasons: dict[str, str] = {}
        self._suspended: dict[str, _Suspension] = {}

    @property
    def doubted(self) -> bool:
        """Whether some have spoilt a transaction and none since is known to have been committed with them."""
        return bool(self._suspended)

    async def unavailable(self, client: AIOKafkaClient, topics: Collection[str]) -> frozenset[str]:
        """Return which of some reply topics take nothing now.

        Raises:
            KafkaError: The brokers do not say.
        """
        now = time.monotonic()
        out = {name for name in topics if name in self._settings.unfit}
        out |= {name for name, one in self._suspended.items() if name in topics and now < one.until}
        for name in sorted(out & self._settings.unfit.keys()):
            self._note(name, self._settings.unfit[name])
        asked = [name for name in topics if name not in out and now - self._looked.get(name, -1e9) >= _GOOD_SECONDS]
        return frozenset(out | await self._missing(client, asked))

    async def _missing(self, client: AIOKafkaClient, topics: Collection[str]) -> set[str]:
        """Look, and again for a while where a topic is newly missing; return those that are."""
        end = time.monotonic() + _APPEAR_SECONDS
        while True:
            missing = await self._look(client, topics)
            if not missing.keys() - self._reasons.keys() or time.monotonic() > end:
                break
            await asyncio.sleep(_PAUSE)
        for name, reason in missing.items():
            self._note(name, reason)
        for name in topics:
            if name not in missing and name not in self._suspended:
                self._reasons.pop(name, None)  # it is back
        return set(missing)

    async def _look(self, client: AIOKafkaClient, topics: Collection[str]) -> dict[str, str]:
        if not topics:
            return {}
        missing = {}
        texts = await configs(client, sorted(topics), (MAX_BYTES, _IN_SYNC))
        set_to = {name: {key: int(value) for key, value in found.items()} for name, found in texts.items()}
        for name, found in (await look(client, sorted(topics))).items():
            reason = _lacks(found, self._partition, set_to.get(name, {}))
            if reason is None:
                self.partitions[name] = len(found.leaders)
                self._looked[name] = time.monotonic()
                if MAX_BYTES in set_to.get(name, {}):
                    self.batch_bytes[name] = set_to[name][MAX_BYTES]
            else:
                missing[name] = reason
        return missing

    async def suspend(self, client: AIOKafkaClient, topics: Collection[str], failed: Mapping[str, str]) -> bool:
        """Find out which of the reply topics written to spoilt a transaction, and pass them over for a while.

        `failed` says how those failed that are known to have, where our own topics have not. Return whether any did.
        """
        self._looked.clear()
        found = {**failed, **await self._look(client, topics)}
        for name, reason in found.items():
            before = self._suspended.get(name)
            seconds = _FIRST_SECONDS if before is None else min(2 * before.seconds, _LONGEST_SECONDS)
            if name in failed:
                self._suspended[name] = _Suspension(time.monotonic() + seconds, seconds)
            self._note(name, reason)
        return bool(found)

    def resume(self, topics: Collection[str]) -> None:
        """Take note that a transaction with these topics was committed."""
        for name in self._suspended.keys() & set(topics):
            del self._suspended[name]
            self._reasons.pop(name, None)

    def _note(self, name: str, reason: str) -> None:
        if self._reasons.get(name) != reason:
            self._reasons[name] = reason
            self._tell(f"topic {name}: {reason}; answers for it are dropped until it can be written to")
