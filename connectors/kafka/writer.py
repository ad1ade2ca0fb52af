"""Who commits for all partitions of a process: one transactional producer, after each was taken over by its own id.

A broker fences by transactional ids, and a client that does not tell it the group's generation (KIP-447) can be fenced
by nothing else. So each partition keeps an id of its own, and what is committed under that names the *writer*, by the
id under which it goes on: in the mark, and in the offset's metadata.

Formal guarantees:
    * *Once a sink is open, nobody else commits for its partition, and the position that it read is the last that
      anybody did.* Whoever may commit is the newest holder of the partition's id, or the writer that the newest claim
      names: (1) Opening starts a producer of the partition's id, so that no earlier holder commits, and no claim is
      written but ours. (2) The writer that is named is fenced; the claims are read again, behind whatever was open by
      then, until they name nobody who is not fenced. (3) A claim of the same position that names nobody tells them so.
      (4) The first commit is made under the partition's id, and names our writer. (3) and (4) fail where somebody came
      to (1) meanwhile. Those whom an older claim named were fenced by the openings in between, or gave the partition
      back, by a claim that names nobody, as their last commit for it.
    * *A name is told to others only after its producer was started, which is done once.* Else a fencing could come
      before the start, and fence nobody.
    * *Within the process, a partition's newest `Lease` alone commits*, and whoever takes it waits for what an older
      one has under way. So a claim that names the running writer needs no fencing, which would stop all partitions.

What one transaction of the writer ends with is all partitions' fate. So a writer commits nothing more once one failed:
each partition takes its own id again, finds out whether its commit stands, makes it under that id if not, and then goes
on with the next writer. A broken topic stays with its own partition: that one's commit fails again, alone.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Final

from aiokafka import TopicPartition

from connectors.kafka.client import admin, writer_id
from connectors.kafka.fencing import fence
from connectors.kafka.internals import connections
from connectors.kafka.joint import Entry, JointProducer
from connectors.kafka.lease import Lease
from connectors.kafka.marks import Claim
from connectors.kafka.offset_metadata import OffsetMetadata
from connectors.kafka.settings import KafkaSettings
from connectors.kafka.transactions import Part
from oracle.errors import FencedError

__all__ = ["Writer"]

_RELEASE_SECONDS: Final = 5.0
"""Most time to wait for a partition to be given back: whoever opens it next can do without."""

_OWN_SECONDS: Final = 5.0
"""Most time to wait until the last transaction of a writer of our own has ended. A partition of it that has no leader
may keep it from that, and need not keep others waiting: we commit it no more, and where we had asked for that before,
all its marks are in the log, and are waited for by whoever reads them."""

_FIRST_SECONDS: Final = 60.0
_LONGEST_SECONDS: Final = 3600.0
"""How long a partition commits alone that has spoilt others' commits; each time twice as long."""


class Writer:
    """Commits for the partitions of one process and one consumer group, whatever their topics.

    Args:
        settings: Those of the cluster and the group count, and the times.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._leases: dict[TopicPartition, Lease] = {}
        self._joint: JointProducer | None = None
        self._ended: list[JointProducer] = []
        self._own: set[str] = set()
        self._starting = asyncio.Lock()
        self._fencing = asyncio.Lock()
        self._fenced: set[str] = set()
        self._alone: dict[TopicPartition, tuple[float, float]] = {}

    async def take(self, query: TopicPartition) -> Lease:
        """Return a partition's new lease; what an older one of this process has under way has ended by then."""
        lease = self._leases[query] = Lease(query)
        if self._joint is not None:
            await self._joint.without(query)
        return lease

    async def running(self) -> JointProducer:
        """Return the producer, started; a new one where the one before has failed.

        Raises:
            RefusedError: The brokers do not let us.
            BusError: The brokers do not answer.
        """
        async with self._starting:
            if self._joint is None or not self._joint.alive:
                self._ended = [one for one in (*self._ended, self._joint) if one is not None and not one.closed]
                self._joint = await JointProducer.started(self._settings, self._is_current)
                self._own.add(self._joint.name)
            return self._joint

    def _is_current(self, lease: Lease) -> bool:
        return self._leases.get(lease.query) is lease

    async def fence(self, name: str) -> bool:
        """See `Fence`: the running writer is none to be fenced, as whoever took the partition's lease has ended it.

        Raises:
            RefusedError: The brokers do not let us.
            BusError: The brokers do not answer.
        """
        if name in self._fenced or (self._joint is not None and self._joint.alive and self._joint.name == name):
            return False
        async with self._fencing:
            if name not in self._fenced:
                own = name in self._own
                async with admin(self._settings, f"group {self._settings.group}") as client:
                    with contextlib.suppress(TimeoutError) if own else contextlib.nullcontext():
                        identifier, seconds = writer_id(self._settings, name), _OWN_SECONDS if own else None
                        await fence(connections(client), identifier, self._settings, seconds)
                self._fenced.add(name)
        return True

    async def commit(self, lease: Lease, part: Part, seconds: float) -> None:
        """Commit a partition's part, together with others that wait.

        Raises:
            FencedError: The lease is not the partition's newest.
            SpoiltError: It is not known whether it was committed; the lease's producer commits nothing more.
        """
        self.check(lease)
        if lease.producer is None:
            raise FencedError(f"topic {lease.query.topic}, partition {lease.query.partition}: nobody commits for it")
        await lease.producer.done(Entry(lease, lambda: part, seconds))

    def check(self, lease: Lease) -> None:
        """Refuse a lease that is not its partition's newest.

        Raises:
            FencedError: It is not.
        """
        if not self._is_current(lease):
            raise FencedError(f"topic {lease.query.topic}, partition {lease.query.partition}: opened anew meanwhile")

    async def release(self, lease: Lease, part: Callable[[Claim], Part]) -> None:
        """Give a partition back, so that whoever opens it next need not fence us; it may be left undone.

        Args:
            lease: It commits nothing more.
            part: Makes what commits a claim.
        """
        producer, lease.ending = lease.producer, True
        if producer is None or not producer.alive or not self._is_current(lease):
            return

        def last() -> Part:
            text = OffsetMetadata.unpack(lease.last.text)._replace(writer=None).pack()
            return part(Claim(lease.last.position, text))

        entry = Entry(lease, last, self._settings.transaction_seconds, release=True)
        producer.add(entry)
        await asyncio.wait({entry.ended}, timeout=_RELEASE_SECONDS)

    def is_trusted(self, query: TopicPartition) -> bool:
        """Return whether a partition may commit together with others."""
        return time.monotonic() >= self._alone.get(query, (0.0, 0.0))[0]

    def doubt(self, query: TopicPartition) -> None:
        """Have a partition commit alone for a while: its topics have spoilt others' commits."""
        before = self._alone.get(query)
        seconds = _FIRST_SECONDS if before is None else min(2 * before[1], _LONGEST_SECONDS)
        self._alone[query] = (time.monotonic() + seconds, seconds)

    async def close(self) -> None:
        """Let go of the brokers, behind what waits still; the sinks were closed before."""
        joints, self._joint = (*self._ended, self._joint), None
        await asyncio.gather(*(joint.close() for joint in joints if joint is not None))
