"""What `perpetua verify` and `perpetua fork` do, and say of it."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import typer

from oracle.cli.output import print_json
from oracle.cli.replay.answers import answered_rows
from oracle.cli.replay.fork import Outputs, Published, check_outputs, counted, publish, stated_cost
from oracle.cli.replay.query_log import ROWS, check_log, open_log
from oracle.cli.replay.verify import Verdict, last_commit_of, verify
from oracle.cli.sources import doubt_of
from oracle.cli.states import newest_snapshot, state_plan
from oracle.errors import InputError, LogDivergedError, PlanExhaustedError, RefusedError, StateError
from oracle.hosting.file_kinds import MessageSettings
from oracle.planning.kinds import decode_plan
from oracle.planning.plan import Plan
from oracle.runtime.marks import Passed
from oracle.runtime.shard import Shard
from oracle.state.format import Snapshot, decode
from oracle.state.genesis import read_genesis
from oracle.state.shards import refuse_sharded

if TYPE_CHECKING:
    from oracle.cli.replay.kafka import KafkaLog

__all__ = ["Recorded", "fork_log", "verify_log"]


class Recorded(NamedTuple):
    """A log, and the snapshot that it is answered from.

    Attributes:
        log: A query log, or the configuration of a Kafka source.
        origin: A genesis file or a state folder.
        key: The key file of a state folder; None for the one in it.
        rows_per_message: Rows of a Parquet or Arrow log that are one message; None for the default.
        model: Which of the configuration's models; None where it has one only.
    """

    log: Path
    origin: Path
    key: Path | None
    partition: int
    rows_per_message: int | None
    model: str | None = None


def verify_log(recorded: Recorded, answers: Path | None, commit: Path | None, *, as_json: bool) -> None:
    """Compare recorded answers (None on Kafka) with those that re-execution gives, and print the verdict.

    Raises:
        InputError: No answers are named, or some for a Kafka topic.
        typer.Exit: With 1, if an answer differs.
    """
    log = recorded.log
    on_kafka = log.suffix == ".toml"
    if on_kafka and answers is not None:
        raise InputError("--answers", str(answers), "the answers to a Kafka topic are on its answer topic")
    if not on_kafka and answers is None:
        raise InputError("--answers", None, "a verification must know which answers to compare with")
    plan, snapshot, master_key = _origin(recorded.origin, recorded.key)
    if answers is None:
        topic = _topic(recorded, plan, master_key)
        verdict, doubt = _verify_kafka(topic, Shard(plan, snapshot, codec=topic.codec()), log)
        _show_verdict(verdict, doubt, as_json=as_json)
        return
    committed = last_commit_of(answers, commit)
    served = answered_rows(answers)
    doubt = _doubt(recorded.rows_per_message, served)
    source = open_log(log, plan, recorded.rows_per_message or served or ROWS)
    try:
        verdict = asyncio.run(verify(Shard(plan, snapshot), source, answers, committed, log, _size(log)))
    except LogDivergedError as exc:
        raise LogDivergedError(f"{exc}{doubt}") from exc
    _show_verdict(verdict, doubt, as_json=as_json)


def fork_log(  # noqa: PLR0913 -- the command's options
    recorded: Recorded,
    out: Path | None,
    ledgers: tuple[Path | None, Path | None],
    offsets: str | None,
    skip: list[int] | None,
    *,
    accept_cost: bool,
    as_json: bool,
) -> None:
    """Answer a log with fresh noise, and print what it cost; `ledgers` are the run's own and the data set's.

    Raises:
        RefusedError: The cost was not accepted, or an option is missing.
        PlanExhaustedError: The plan ended before the log.
    """
    log, (ledger, data_ledger) = recorded.log, ledgers
    plan, snapshot, master_key = _origin(recorded.origin, recorded.key)
    topic = _topic(recorded, plan, master_key) if log.suffix == ".toml" else None
    if not accept_cost:
        raise RefusedError(
            f"--accept-cost is not set: {stated_cost(plan, snapshot, recorded.origin)}. Add --accept-cost to spend it"
        )
    if out is None:
        raise InputError("--out", None, "must name the file that the answers go to")
    if plan.data is not msgspec.UNSET and data_ledger is None:
        bound = f"must name the ledger of data set {plan.data.name}: its rows pay for this run too"
        raise InputError("--data-ledger", None, bound)
    outputs = Outputs(recorded.origin, out, ledger, data_ledger)
    check_outputs(outputs, log, lines_only=topic is not None and topic.schemas is not None)
    rows = recorded.rows_per_message or ROWS
    passed = Passed(skipped=tuple(sorted(skip or ())))
    if topic is not None:
        codec, source = topic.codec_to_json(), topic.source(offsets)
        done = asyncio.run(publish(plan, snapshot, source, outputs, None, passed, codec, topic.announce))
    else:
        check_log(plan, log, rows, MessageSettings("LOG", "--rows-per-message"))
        done = asyncio.run(publish(plan, snapshot, open_log(log, plan, rows), outputs, _size(log), passed))
    _show_published(done, out, as_json=as_json)


def _topic(recorded: Recorded, plan: Plan, master_key: bytes) -> "KafkaLog":
    from oracle.cli.replay.kafka import open_kafka_log

    return open_kafka_log(recorded.log, plan, recorded.partition, master_key, recorded.model)


def _size(log: Path) -> int | None:
    return log.stat().st_size if log.suffix == ".jsonl" and log.is_file() else None


def _verify_kafka(topic: "KafkaLog", shard: Shard, log: Path) -> tuple[Verdict, str]:
    """Return the verdict, and what else than other answers may make a difference."""
    committed = topic.committed()
    source = topic.whole(committed.position)
    try:
        with topic.answers() as answers:
            verdict = asyncio.run(verify(shard, source, answers, committed, log, None))
    except LogDivergedError as exc:
        raise LogDivergedError(f"{exc}{doubt_of(source)}") from exc
    return verdict, doubt_of(source)


def _doubt(given: int | None, served: int | None) -> str:
    """Return what else than another answer may make a difference."""
    if given is None or served is None or given == served:
        return ""
    return f"; --rows-per-message = {given:,}, but the first answered message has {served:,} rows: leave it out"


def _show_verdict(verdict: Verdict, doubt: str, *, as_json: bool) -> None:
    if as_json:
        print_json(verdict)
    elif verdict.identical:
        typer.echo(
            f"identical: {counted(verdict.messages, 'message')}, {counted(verdict.rounds, 'round')} from round "
            f"{verdict.first_round:,}; extra epsilon: 0"
        )
    else:
        number = verdict.first_difference
        typer.echo(
            f"DIFFERENT: the answer to message {number} (from 0) is missing, or not the one re-execution gives{doubt}"
        )
    if not verdict.identical:
        raise typer.Exit(1)


def _show_published(done: Published, out: Path, *, as_json: bool) -> None:
    if as_json:
        print_json(done)
    else:
        typer.echo(
            f"{out}: {counted(done.messages, 'message')} ({done.rejected:,} rejected), "
            f"{counted(done.rounds, 'round')} from round "
            f"{done.first_round:,}; extra epsilon: {done.extra_epsilon:g}, extra delta: {done.extra_delta:.3g}, "
            f"for every record that the snapshot holds (fork number {done.number} of it)"
        )
    if not done.complete:
        raise PlanExhaustedError(
            f"round {done.first_round + done.rounds}: the plan's last phase has ended before the log did"
        )


def _origin(origin: Path, key: Path | None) -> tuple[Plan, Snapshot, bytes]:
    if not origin.is_dir():
        genesis = read_genesis(origin)
        plan = decode_plan(genesis.plan)
        return plan, decode(genesis.snapshot, genesis.master_key, plan.digest), genesis.master_key
    refuse_sharded(origin)
    if any(origin.glob("*.genesis")):
        first = origin / "shard-0000.genesis"
        raise StateError(f"{origin}: a folder of genesis files; name one of them, {first} for partition 0")
    plan = state_plan(origin)
    return plan, *newest_snapshot(origin, key or origin / "key", plan)
