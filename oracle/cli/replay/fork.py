"""`perpetua fork`: answer another log from a snapshot, as a second run that is paid for."""

import os
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from connectors.base import Commit, Deliveries, Replies, Sink, Source
from connectors.local.jsonl import JsonlSink
from connectors.local.parquet_sink import ParquetSink
from connectors.retry import Backoff, retry
from oracle.accounting.ledger import DataUse, ReplayForked, encode
from oracle.cli.data_ledger import enter
from oracle.cli.progress import Progress
from oracle.cli.sources import MESSAGES, opened
from oracle.codec.guarded import Codec
from oracle.codec.kinds import codec_of
from oracle.errors import BusError, InputError, PlanExhaustedError, RefusedError, SourceError, StateError, StorageError
from oracle.mechanisms.keys import FORK_BYTES
from oracle.planning.plan import Plan
from oracle.predictors.base import phase_started
from oracle.runtime.fork import ForkCost, fork_cost, fork_event, fork_snapshot
from oracle.runtime.marks import Passed
from oracle.runtime.shard import Shard
from oracle.state.forks import forks_path, read_forks, record_fork
from oracle.state.format import Snapshot

__all__ = ["Outputs", "Published", "check_outputs", "counted", "publish", "stated_cost"]

_PATIENCE: Final = 600.0
_LINES = (".jsonl",)
_ARROW = (".parquet", ".arrow")


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay has published, and what it has cost.

    Attributes:
        messages: Messages answered, the rejected ones too.
        rejected: Messages that were rejected as a whole.
        complete: False where the plan's last phase ended before the log did.
        fork: The run's public name, as the ledgers have it.
        number: Forks recorded for the origin, with this one.
        extra_epsilon: What every record that the snapshot may hold has paid for it.
        extra_delta: The same, of delta.
    """

    messages: int
    rounds: int
    rejected: int
    first_round: int
    complete: bool
    fork: str
    number: int
    extra_epsilon: float
    extra_delta: float


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where a replay writes.

    Attributes:
        origin: The state folder or genesis file; the fork is recorded beside it.
        answers: Where the answers go, as a sink writes them: readable by the owner only.
    """

    origin: Path
    answers: Path
    ledger: Path | None
    data_ledger: Path | None = None


def counted(number: int, what: str) -> str:
    """Return a number of things in words.

    Example:
        >>> counted(1, "fork"), counted(2000, "fork")
        ('1 fork', '2,000 forks')
    """
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def stated_cost(plan: Plan, snapshot: Snapshot, origin: Path) -> str:
    """Return in words what a fork would cost.

    Raises:
        RefusedError: The plan's epsilon is nominal.
        StateError: The forks recorded so far cannot be understood.
    """
    cost, forks = fork_cost(plan, snapshot), len(read_forks(origin))
    return (
        f"every record that the snapshot of round {snapshot.round:,} (phase {snapshot.phase}) holds pays another "
        f"epsilon = {cost.epsilon:g} and delta = {cost.delta:.3g} for this run, after the first one's and those of "
        f"{counted(forks, 'fork')} recorded in {forks_path(origin).name}: epsilon = "
        f"{plan.epsilon + (forks + 1) * cost.epsilon:g} by these "
        "(forks of a genesis file, of its state folder and of copies add up, each recorded beside its own origin); "
        f"{_of_queries(plan, snapshot, cost)}"
    )


def _of_queries(plan: Plan, snapshot: Snapshot, cost: ForkCost) -> str:
    """Return the end of `stated_cost`."""
    if plan.paid_limit is not None:
        return f"questions pay nothing, and the rows pay for {plan.paid_limit - snapshot.paid:,} answers more at most"
    rises = f"the sum of delta rises by up to {cost.delta_sum:.3g} for these records"
    return f"{rises}; the log's queries pay as the plan says"


def check_outputs(outputs: Outputs, log: Path, *, lines_only: bool = False) -> None:
    """Refuse what cannot be written, before anything is paid; `lines_only` says that no answer will be Arrow.

    Raises:
        RefusedError: A path does not go with the log, or exists, or lies in the state folder.
        StorageError: A folder is missing or cannot be written.
    """
    either = log.suffix == ".toml" and not lines_only
    kinds = _ARROW if log.suffix in _ARROW else (*_LINES, *_ARROW) if either else _LINES
    if outputs.answers.suffix not in kinds:
        raise InputError("--out", str(outputs.answers), f"must end in {' or '.join(kinds)} for a log like this")
    commit = outputs.answers.with_name(outputs.answers.name + ".commit")
    paths = {"--out": (outputs.answers, commit), "--ledger": (outputs.ledger,) if outputs.ledger else ()}
    whole = [path.resolve() for group in paths.values() for path in group] + [forks_path(outputs.origin)]
    if len(set(whole)) < len(whole):
        raise InputError("--ledger", str(outputs.ledger), "each file must have a path of its own")
    for option, group in paths.items():
        for path in group:
            _check_new(option, path, outputs.origin)


def _check_new(option: str, path: Path, origin: Path) -> None:
    if path.exists():
        raise InputError(option, str(path), "exists already, and nothing is ever overwritten")
    folders = path.resolve().parents
    if origin.resolve() in folders or any(any(folder.glob("snapshot-*.perp")) for folder in folders):
        raise InputError(option, str(path), "lies in a state folder, which stays as it is")
    if not path.absolute().parent.is_dir() or not os.access(path.absolute().parent, os.W_OK | os.X_OK):
        raise StorageError(f"{option} = '{path}': its folder is missing or cannot be written")


async def publish(  # noqa: PLR0913, PLR0917 -- its parts
    plan: Plan,
    snapshot: Snapshot,
    source: Source,
    outputs: Outputs,
    size: int | None,
    passed: Passed = Passed(),  # noqa: B008 -- it is never changed
    codec: Callable[[Plan], Codec] = codec_of,
    announce: Callable[[bytes], Awaitable[None]] | None = None,
) -> Published:
    """Answer a log from its beginning, in an order that a crash can cut anywhere.

    1. find out that there is something to answer; 2. record the fork beside the origin, durably; 3. open the outputs
    and put the fork's event into the run's own ledger; 4. answer, one commit after another. A run that is broken off
    is not taken up again: its noise is fresh, and so would be that of another try. `size` is the log's, in bytes;
    `codec` makes what reads its messages; `announce` makes the fork's event known elsewhere too.

    Raises:
        PlanExhaustedError: The plan has no round left; nothing was recorded.
        RefusedError: The log is empty, or the plan's epsilon is nominal; nothing was recorded.
        StorageError: Something could not be written; what was committed stands.
        SourceError: The log cannot be read; what was committed stands.
        BusError: The bus or the registry stayed away; what was committed stands.
    """
    if snapshot.round >= plan.rounds:
        raise PlanExhaustedError(f"round {snapshot.round}: the plan's last phase has ended; make a new plan and state")
    cost = fork_cost(plan, snapshot)
    async with opened(source):
        waiting = await source.fetch(MESSAGES, 1.0)  # 1.
        if not waiting:
            raise RefusedError("the log holds no message, so there is nothing to answer")
        salt = secrets.token_bytes(FORK_BYTES)
        shard = Shard(plan, fork_snapshot(snapshot, salt), codec=codec)
        shard.learn(passed)
        if outputs.data_ledger is not None and isinstance(plan.data, DataUse):
            use = msgspec.structs.replace(plan.data, use=salt.hex())
            first = phase_started(plan, 1)
            enter(outputs.data_ledger, msgspec.structs.replace(first, data=use, epsilon=cost.epsilon, delta=cost.delta))
        event = record_fork(outputs.origin, partial(fork_event, plan, snapshot, salt))  # 2.
        sink = _sink(outputs)
        try:
            await _begin(sink, shard, event)  # 3.
            if announce is not None:
                await announce(encode(event))
            with Progress("replaying", size, "bytes") as progress:
                return await _answer(shard, source, sink, waiting, event, progress)  # 4.
        finally:
            await sink.close()


def _sink(outputs: Outputs) -> Sink:
    kind = ParquetSink if outputs.answers.suffix in _ARROW else JsonlSink
    return kind(outputs.answers, ledger_path=outputs.ledger)


async def _begin(sink: Sink, shard: Shard, event: ReplayForked) -> None:
    if await sink.open() is not None:
        raise StateError("--out: another replay has written there meanwhile")
    await sink.commit(Commit(Replies(), [encode(event)], shard.position, shard.mark.pack()))


async def _fetched(source: Source) -> Deliveries:
    """Fetch, with patience for a bus or registry that is away: a run that was paid for is not taken up again."""
    return await retry(lambda: source.fetch(MESSAGES, 1.0), BusError, seconds=_PATIENCE, backoff=Backoff(0.5))


async def _answer(  # noqa: PLR0913, PLR0917 -- its parts
    shard: Shard, source: Source, sink: Sink, waiting: Deliveries, event: ReplayForked, progress: Progress
) -> Published:
    messages = rejected = 0
    complete = True
    while waiting:
        try:
            outcome = shard.process(shard.decode_leading(waiting))
        except PlanExhaustedError:
            complete = False
            break
        await sink.commit(outcome.commit)
        shard.settle()
        messages += len(outcome.commit.replies)
        rejected += len(outcome.rejections)
        progress.at(shard.position)
        waiting = waiting.part(len(outcome.commit.replies)) or await _fetched(source)
    if complete and not source.exhausted:
        raise SourceError("LOG: cannot be read to its end; what was answered stands")
    return Published(
        messages=messages,
        rounds=shard.facts().round - event.round,
        rejected=rejected,
        first_round=event.round,
        complete=complete,
        fork=event.fork,
        number=event.number,
        extra_epsilon=event.epsilon,
        extra_delta=event.delta,
    )
