"""Every private part of aiokafka that we use.

Its version is pinned; `tests/connectors/kafka/test_internals.py` fails where a later one differs in any of them.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from types import FunctionType, MethodType
from typing import Any, Final, TypeAlias, TypeVar

from aiokafka import AIOKafkaClient, AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.conn import AIOKafkaConnection, OAuthAuthenticator, create_conn
from aiokafka.consumer.fetcher import Fetcher, PartitionRecords
from aiokafka.consumer.subscription_state import Assignment, TopicPartitionState
from aiokafka.errors import ConcurrentTransactions, KafkaError, SaslAuthenticationFailed
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.producer.sender import AddPartitionsToTxnHandler, Sender
from aiokafka.producer.transaction_manager import TransactionManager, TransactionState
from aiokafka.protocol.group import SyncGroupRequest

from connectors.kafka.record_batches import FetchedBatches

__all__ = [
    "BatchConsumer",
    "Client",
    "EarlyTransactions",
    "IncrementalConsumer",
    "Quiet",
    "TopicPartitionState",
    "always",
    "begins_soon",
    "close",
    "connect",
    "connections",
    "ended_by",
    "fill",
    "is_replaced",
    "membership_of",
    "producer_of",
    "proves_anew",
    "sends_for_ever",
]

Quiet: TypeAlias = Callable[[], Awaitable[object]]
"""Waits until more is to be asked for."""

Client: TypeAlias = AIOKafkaConsumer | AIOKafkaProducer | AIOKafkaAdminClient

_Client = TypeVar("_Client", bound=Client)

_FENCED_INSTANCE_ID: Final = 82

_FIRST_PAUSE: Final = 0.001
_LONGEST_PAUSE: Final = 0.02
"""Seconds; the client's own, each time."""

_LONG_POLL_MS: Final = 200
_SHORT_POLL_MS: Final = 20
"""How long brokers wait for a first record, where all of several partitions are asked for, and where some are not.

What is handed over meanwhile is asked for again only behind the answer.
"""

_ASKED: Final = 0.0002
_SLOWEST: Final = 0.1
"""Seconds between an answer and the next request, for each partition but one that was named, and at most.

To read a request's names takes time for each of them.
"""

_REST: Final = 0.2
"""Seconds for which a partition is left out that is refused, or has no leader: such an answer comes at once."""


def _rebound(function: Callable[..., Any], **names: object) -> Any:  # noqa: ANN401 -- a method of the same type
    """Return a function of the client's with other globals of these names, so that the client itself stays as it is."""
    made = FunctionType(function.__code__, {**function.__globals__, **names}, function.__name__, function.__defaults__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


class _PartitionRecords(PartitionRecords):
    """One answer to a fetch, without what was aborted: items are handed over as they were read."""

    def _consumer_record(self, part: object, record: object) -> object:  # noqa: ARG002 -- the client's
        return record


class _Fetcher(Fetcher):
    _proc_fetch_request = _rebound(
        Fetcher._proc_fetch_request,  # noqa: SLF001
        MemoryRecords=FetchedBatches,
        PartitionRecords=_PartitionRecords,
    )


class BatchConsumer(AIOKafkaConsumer):
    """A consumer that hands over `RecordBatch`es, not records: an object for each takes longer than all else."""

    start = _rebound(AIOKafkaConsumer.start, Fetcher=_Fetcher)


class _Awake:
    """An assignment without the partitions that are left out for a while."""

    def __init__(self, assignment: Assignment, parts: Collection[TopicPartition]) -> None:
        self.tps = parts
        self.state_value = assignment.state_value


async def always() -> None:
    """Wait for nothing."""


def _size(result: Any) -> int:  # noqa: ANN401 -- the client's
    """Return how many bytes an answer has for one partition; 0 for an error."""
    records = getattr(result, "_partition_records", None)
    return 0 if records is None else int(records._records.size_in_bytes())  # noqa: SLF001


class _SharedFetcher(_Fetcher):
    """Fetches for many callers, each of which reads one partition at its own pace, and wakes those only that have some.

    The client's own asks for nothing as long as one caller leaves something; here only its partition is left out.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 -- the client's
        self.arrived: dict[TopicPartition, Callable[[], None]] = {}
        self.quiet: Quiet = always
        self._rests: dict[TopicPartition, float] = {}
        self._behind: set[TopicPartition] = set()  # until they are asked for again: one that nobody reads stays
        super().__init__(*args, **kwargs)
        self._prefetch_backoff = 0.0
        self._alone_ms = self._fetch_max_wait_ms

    def _get_actions_per_node(self, assignment: Assignment) -> Any:  # noqa: ANN401 -- the client's
        now = self._loop.time()
        self._rests = {part: until for part, until in self._rests.items() if until > now}
        awake = assignment.tps - self._rests.keys()
        self._rests |= {part: now + _REST for part in awake if self._select_read_replica(part) in {None, -1}}
        several = _SHORT_POLL_MS if self._records else _LONG_POLL_MS
        self._fetch_max_wait_ms = several if len(awake) > 1 else self._alone_ms
        return super()._get_actions_per_node(_Awake(assignment, awake))

    async def _proc_fetch_request(self, assignment: Assignment, node_id: int, request: Any) -> bool:  # noqa: ANN401
        named = {TopicPartition(topic, number): how for topic, parts in request.topics for number, *how in parts}
        asked = {part: offset for part, (offset, _) in named.items()}
        states = {part: assignment.state_value(part) for part in asked}
        for state in states.values():
            state.timestamp = None  # it is set for those that are answered for without an error
        await super()._proc_fetch_request(assignment, node_id, request)
        until = self._loop.time() + _REST
        brought = {part: _size(self._records[part]) for part in asked if part in self._records}
        self._behind -= named.keys()
        self._behind |= {part for part, size in brought.items() if 2 * size > named[part][1]}
        is_backlog = self._behind or 2 * sum(brought.values()) > request._max_bytes  # noqa: SLF001
        for part in brought:
            self.arrived[part]()
        for part, state in states.items():
            same = state is assignment.state_value(part) and state.has_valid_position
            if same and state.position == asked[part] and state.timestamp is None:
                self._rests[part] = until
        await asyncio.sleep(min(_ASKED * (len(asked) - 1), _SLOWEST))
        if brought and not is_backlog:
            await self.quiet()
        return False  # nobody waits for whatever comes

    def leave(self, part: TopicPartition) -> None:
        """Forget what was fetched of a partition."""
        self._records.pop(part, None)
        self._rests.pop(part, None)
        self._behind.discard(part)
        self.arrived.pop(part, None)


class IncrementalConsumer(BatchConsumer):
    """A `BatchConsumer` whose partitions come and go one by one, without a word to the others.

    `assign` would end all requests that are under way, and forget positions and what was fetched.
    """

    _fetcher: _SharedFetcher
    start = _rebound(AIOKafkaConsumer.start, Fetcher=_SharedFetcher)

    def __init__(self, quiet: Quiet, **settings: Any) -> None:  # noqa: ANN401 -- the client's
        super().__init__(**settings)
        self._quiet = quiet
        self._subscription.assign_from_user([])

    @property
    def fetching(self) -> bool:
        """Whether it was started, and nothing unforeseen has ended its work."""
        return not self._fetcher.error_future.done()

    async def follow(self, topics: Iterable[str]) -> bool:
        """Keep the metadata of these topics only, and return whether a broker gave them."""
        self._client.set_topics(topics)
        return await self._client.force_metadata_update()

    def incremental_assign(self, part: TopicPartition, offset: int, arrived: Callable[[], None]) -> TopicPartitionState:
        """Fetch a partition from an offset on, anew if it was fetched already, and return where it is.

        `arrived` is called when there is something to be had by `getmany`, or an error.
        """
        assignment = self._subscription.subscription.assignment
        assignment._topic_partitions |= {part}  # noqa: SLF001
        state = assignment._tp_state[part] = TopicPartitionState(assignment)  # noqa: SLF001
        self._fetcher.leave(part)
        self._fetcher.arrived[part] = arrived
        self._fetcher.quiet = self._quiet
        self.seek(part, offset)
        return state

    def incremental_unassign(self, part: TopicPartition) -> None:
        """Fetch a partition no longer; an answer that is under way finds no position of it."""
        assignment = self._subscription.subscription.assignment
        assignment._topic_partitions -= {part}  # noqa: SLF001
        assignment._tp_state[part] = TopicPartitionState(assignment)  # noqa: SLF001
        self._fetcher.leave(part)


def connections(client: Client) -> AIOKafkaClient:
    """Return what sends requests for a consumer, a producer or an admin client."""
    return client.client if isinstance(client, AIOKafkaProducer) else client._client  # noqa: SLF001


class _OAuthAuthenticator(OAuthAuthenticator):
    """Hears a refusal: the client's own takes the reasons for one for a success (RFC 7628, section 3.2.3)."""

    _heard = False

    async def step(self, payload: bytes | None) -> tuple[bytes | str, bool] | None:
        if not payload:
            return await super().step(payload)
        if self._heard:
            raise SaslAuthenticationFailed
        self._heard = True
        return b"\1", True


class _Connection(AIOKafkaConnection):
    def authenticator_oauth(self) -> OAuthAuthenticator:
        return _OAuthAuthenticator(sasl_oauth_token_provider=self._sasl_oauth_token_provider)


connect = _rebound(create_conn, AIOKafkaConnection=_Connection)
"""Makes one connection, as the client does."""


def proves_anew(client: _Client, options: Callable[[], Mapping[str, Any]]) -> _Client:
    """Return a client, not yet started, that makes each connection with what `options` returns then.

    By itself it makes all of them with what it was given when it was made: passwords, certificates.
    """

    async def connect_anew(host: str, port: int, **how: Any) -> object:  # noqa: ANN401 -- the client's options
        return await connect(host, port, **how | dict(options()))

    below = connections(client)
    below.bootstrap = MethodType(_rebound(AIOKafkaClient.bootstrap, create_conn=connect_anew), below)  # type: ignore[method-assign]
    below._get_conn = MethodType(_rebound(AIOKafkaClient._get_conn, create_conn=connect_anew), below)  # type: ignore[method-assign]  # noqa: SLF001
    return client


def producer_of(producer: AIOKafkaProducer) -> tuple[int, int]:
    """Return the id and the epoch of a transactional producer that was started."""
    manager = producer._txn_manager  # noqa: SLF001
    return manager.producer_id, manager.producer_epoch


def ended_by(producer: AIOKafkaProducer) -> BaseException | None:
    """Return what a transactional producer can do nothing more for; None where it goes on.

    Asked for something once more, it says only that the transaction is over.
    """
    manager = producer._txn_manager  # noqa: SLF001
    return manager.wait_for_transaction_end().exception() if manager.is_fatal_error() else None


def sends_for_ever(producer: AIOKafkaProducer) -> AIOKafkaProducer:
    """Return a producer, not yet started, that gives up no record because of the time: it may have been written."""
    producer._message_accumulator._batch_ttl = math.inf  # noqa: SLF001
    return producer


def fill(
    batch: BatchBuilder,
    records: Iterable[tuple[bytes | None, bytes]],
    timestamp: int,
    headers: list[tuple[str, bytes]],
) -> int:
    """Append records with the same headers until there are no more or the batch is full; return how many went in.

    It does what the batch's own `append` does for each of them, which takes twice as long.
    """
    if batch.closed():
        return 0
    append, first = batch._builder.append, batch.record_count()  # noqa: SLF001
    number = first
    for key, value in records:
        if append(number, timestamp, key, value, headers) is None:
            batch.close()
            break
        number += 1
    batch._relative_offset = number  # noqa: SLF001
    return number - first


class _Pauses:
    """How long to wait before a transaction is begun again that could not be: each time twice as long."""

    def __init__(self) -> None:
        self._next = _FIRST_PAUSE

    def after(self, *, refused: bool) -> float:
        """Return the pause behind an answer; whatever is no refusal makes the next one short again."""
        pause = self._next
        self._next = min(2 * pause, _LONGEST_PAUSE) if refused else _FIRST_PAUSE
        return pause


class _AddPartitions(AddPartitionsToTxnHandler):
    """Begins a transaction; while the markers of the one before it are being written, it is asked again soon."""

    def __init__(self, pauses: _Pauses, sender: Sender, partitions: Collection[TopicPartition]) -> None:
        super().__init__(sender, partitions)
        self._pauses = pauses

    def handle_response(self, resp: Any) -> float | None:  # noqa: ANN401 -- of any of the protocol's versions
        usual = super().handle_response(resp)
        refused = any(code == ConcurrentTransactions.errno for _, found in resp.errors for _, code in found)
        pause = self._pauses.after(refused=refused)
        return pause if refused else usual


def begins_soon(producer: AIOKafkaProducer) -> AIOKafkaProducer:
    """Return a transactional producer, not yet started, that waits no longer than it must between two transactions.

    Brokers end a transaction a few milliseconds after they say so, and refuse to begin the next one until then. The
    client sleeps 20 ms each time, which is longer than all the rest of a transaction takes.
    """
    sender = producer._sender  # noqa: SLF001
    handler = partial(_AddPartitions, _Pauses())
    add = _rebound(Sender._do_add_partitions_to_txn, AddPartitionsToTxnHandler=handler)  # noqa: SLF001
    sender._do_add_partitions_to_txn = MethodType(add, sender)  # noqa: SLF001
    return producer


class EarlyTransactions:
    """Begins a producer's transactions before there is anything to commit: the brokers take it in meanwhile.

    A transaction that holds no record yet keeps nobody's reading back.

    Args:
        producer: A transactional one, started.

    Attributes:
        is_open: Whether a transaction was begun early, and nobody has asked for it yet.
        begun: When the last one was (seconds of `time.monotonic`).
        named: Topics that it names.
    """

    def __init__(self, producer: AIOKafkaProducer) -> None:
        self.is_open = False
        self.begun = -math.inf
        self.named: frozenset[str] = frozenset()
        self._producer = producer
        self._manager = producer._txn_manager  # noqa: SLF001
        self._begin = producer.begin_transaction
        self._group = ""
        producer.begin_transaction = self._begin_or_take_up  # type: ignore[method-assign]
        self._manager.consumer_group_to_add = self._group_to_add  # type: ignore[method-assign]

    @property
    def awaited(self) -> frozenset[str]:
        """Topics of what the brokers are still to be told of, of the one that is open: they must be there."""
        return frozenset(topic for topic, _ in self._manager.partitions_to_add()) if self.is_open else frozenset()

    def begin(self, parts: Collection[TopicPartition], group: str) -> None:
        """Begin one that will probably write to `parts`, and commit offsets of `group`; nothing where one cannot."""
        if self._manager.state is not TransactionState.READY:
            return
        self._manager.begin_transaction()
        self.is_open, self.begun, self._group = True, time.monotonic(), group
        self.named = frozenset(topic for topic, _ in parts)
        for part in parts:
            self._manager.maybe_add_partition_to_txn(part)
        self._manager.notify_task_waiter()

    async def end(self) -> None:
        """End the one that is open.

        Raises:
            KafkaError: It has failed.
        """
        self._take_up()
        await self._producer.abort_transaction()

    async def _begin_or_take_up(self) -> None:
        if self.is_open:
            self._take_up()
        else:
            await self._begin()

    def _take_up(self) -> None:
        self.is_open = False
        if not self._manager.is_in_transaction():
            self._manager.wait_for_transaction_end().result()

    def _group_to_add(self) -> str | None:
        manager = self._manager
        if self.is_open and manager.is_in_transaction() and manager._txn_consumer_group is None:  # noqa: SLF001
            return self._group
        return TransactionManager.consumer_group_to_add(manager)


def membership_of(consumer: AIOKafkaConsumer) -> tuple[str, int]:
    """Return the member's id and the group's generation, as the coordinator gave them."""
    coordinator = consumer._coordinator  # noqa: SLF001
    return coordinator.member_id, coordinator.generation


async def is_replaced(consumer: AIOKafkaConsumer, instance: str, membership: tuple[str, int]) -> bool:
    """Return whether another process has joined under our own `group.instance.id` (KIP-345).

    The client's heartbeats do not name the instance, so all that they hear is that the member is gone.

    `membership` is its `membership_of` when it was given its partitions.

    Returns:
        False too where the member is as it was, was forgotten after a silence, or the coordinator does not answer.
    """
    member, generation = membership
    if membership_of(consumer)[0] == member:
        return False
    coordinator = consumer._coordinator  # noqa: SLF001
    try:
        said = await coordinator._send_req(  # noqa: SLF001
            SyncGroupRequest(coordinator.group_id, generation, member, instance, [])
        )
    except KafkaError:
        return False
    return bool(said.error_code == _FENCED_INSTANCE_ID)


async def close(client: Client) -> None:
    """Close it, and what it is made of: during an outage its own way ends with the first of its parts that fails.

    A consumer's fetcher awaits tasks that it has cancelled itself, and so ends its `stop` with their `CancelledError`.
    """
    below, fetcher = connections(client), getattr(client, "_fetcher", None)
    with contextlib.suppress(Exception, asyncio.CancelledError):
        await (client.close() if isinstance(client, AIOKafkaAdminClient) else client.stop())
    if fetcher is not None:
        for task in (fetcher._fetch_task, *fetcher._pending_tasks):  # noqa: SLF001
            task.cancel()
    with contextlib.suppress(Exception):
        await below.close()
    if isinstance(client, AIOKafkaProducer):
        _look_at_end(client)


def _look_at_end(producer: AIOKafkaProducer) -> None:
    """Take note of how the last transaction ended, so that asyncio does not complain that nobody did."""
    waiter = getattr(producer._txn_manager, "_transaction_waiter", None)  # noqa: SLF001
    if waiter is not None and waiter.done() and not waiter.cancelled():
        waiter.exception()
