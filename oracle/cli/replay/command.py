"""`perpetua replay`: prove recorded answers without cost, or answer another log from a snapshot, at a stated cost."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from oracle.cli.replay.answers import answered_rows
from oracle.cli.replay.fork import Outputs, Published, check_outputs, counted, publish, stated_cost
from oracle.cli.replay.query_log import ROWS, check_log, open_log
from oracle.cli.replay.verify import Verdict, last_commit_of, verify
from oracle.errors import InputError, LogDivergedError, PlanExhaustedError, RefusedError, StateError, WrongKeyError
from oracle.hosting.file_kinds import MessageSettings
from oracle.planning.kinds import decode_plan
from oracle.planning.plan import Plan
from oracle.runtime.marks import Passed
from oracle.runtime.shard import Shard
from oracle.state.folder import newest_bytes, read_plan
from oracle.state.format import Snapshot, decode
from oracle.state.genesis import read_genesis
from oracle.state.keys import read_key_file
from oracle.state.shards import refuse_sharded

if TYPE_CHECKING:
    from oracle.cli.replay.kafka import KafkaLog

__all__ = ["run"]


def run(  # noqa: PLR0913, PLR0917 -- the command's options
    log: Annotated[
        Path,
        typer.Argument(
            metavar="LOG", help="A query log: .jsonl, .parquet or .arrow; or the .toml configuration of a Kafka source."
        ),
    ],
    origin: Annotated[Path, typer.Option("--from", help="A genesis file, or a state folder (its newest snapshot).")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Write the answers to this new file: .jsonl, .parquet or .arrow.")
    ] = None,
    accept_cost: Annotated[
        bool,
        typer.Option("--accept-cost", help="Spend the epsilon that another run costs; without this, only state it."),
    ] = False,
    ledger: Annotated[Path | None, typer.Option("--ledger", help="Write the run's public events to this file.")] = None,
    check: Annotated[bool, typer.Option("--verify", help="Compare with --answers, and publish nothing.")] = False,
    answers: Annotated[
        Path | None, typer.Option("--answers", help="With --verify: the answers that were given, as a sink wrote them.")
    ] = None,
    commit: Annotated[
        Path | None, typer.Option("--commit", help="With --verify: the commit record; by default beside --answers.")
    ] = None,
    key: Annotated[Path | None, typer.Option("--key", help="Key file of a state folder; by default DIR/key.")] = None,
    rows_per_message: Annotated[
        int | None,
        typer.Option(
            help=f"Rows of a Parquet or Arrow log that are one message; by default {ROWS}, or with --verify as it was "
            "served, which the answers tell.",
            show_default=False,
        ),
    ] = None,
    partition: Annotated[int, typer.Option(help="Partition of a Kafka topic.")] = 0,
    offsets: Annotated[
        str | None,
        typer.Option(
            metavar="FIRST:LAST",
            help="Offsets of a Kafka topic, LAST excluded; all by default, and with --verify.",
        ),
    ] = None,
    skip: Annotated[
        list[int] | None, typer.Option(help="Pass over the message that ends at this position; may be repeated.")
    ] = None,
    data_ledger: Annotated[
        Path | None,
        typer.Option(
            "--data-ledger", help="Ledger of the model's data set (NAME.budget.jsonl), if the model names one."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Answer a log from a snapshot with fresh noise, at a stated cost; or, with --verify, prove recorded answers.

    A verification costs no epsilon. It exits with 1 if an answer differs,
    with 2 if the snapshot is at the last answer already, so that there is
    nothing to compare, with 3 if LOG is not the log that was answered.

    Without --verify, LOG is taken for another log, and answered from its
    beginning. The state stays, and what was spent is recorded beside it.
    """
    publishing = out is not None or ledger is not None or accept_cost
    on_kafka = log.suffix == ".toml"
    _check_options(verifying=check, answers=answers, publishing=publishing, on_kafka=on_kafka)
    if check and skip:
        raise InputError("--skip", skip[0], "a verification follows the commit, which names the messages passed over")
    plan, snapshot, master_key = _origin(origin, key)
    topic: KafkaLog | None = None
    if on_kafka:
        from oracle.cli.replay.kafka import open_kafka_log

        topic = open_kafka_log(log, plan, partition, master_key)
        if check:
            verdict = _verify_kafka(topic, Shard(plan, snapshot), log, offsets)
            _show_verdict(verdict, "", as_json=as_json)
            return
    size = log.stat().st_size if log.suffix == ".jsonl" and log.is_file() else None
    if check and answers is not None:
        committed = last_commit_of(answers, commit)
        served = answered_rows(answers)
        doubt = _doubt(rows_per_message, served)
        source = open_log(log, plan, rows_per_message or served or ROWS)
        try:
            verdict = asyncio.run(verify(Shard(plan, snapshot), source, answers, committed, log, size))
        except LogDivergedError as exc:
            msg = f"{exc}{doubt}"
            raise LogDivergedError(msg) from exc
        _show_verdict(verdict, doubt, as_json=as_json)
        return
    if not accept_cost:
        msg = f"--accept-cost is not set: {stated_cost(plan, snapshot, origin)}. Add --accept-cost to spend it"
        raise RefusedError(msg)
    if out is None:
        raise InputError("--out", None, "must name the file that the answers go to")
    if plan.data is not msgspec.UNSET and data_ledger is None:
        bound = f"must name the ledger of data set {plan.data.name}: its rows pay for this run too"
        raise InputError("--data-ledger", None, bound)
    outputs = Outputs(origin, out, ledger, data_ledger)
    check_outputs(outputs, log)
    rows = rows_per_message or ROWS
    passed = Passed(skipped=tuple(sorted(skip or ())))
    if topic is not None:
        done = asyncio.run(publish(plan, snapshot, topic.source(offsets), outputs, None, passed, topic.announce))
    else:
        check_log(plan, log, rows, MessageSettings("LOG", "--rows-per-message"))
        done = asyncio.run(publish(plan, snapshot, open_log(log, plan, rows), outputs, size, passed))
    _show_published(done, out, as_json=as_json)


def _verify_kafka(topic: "KafkaLog", shard: Shard, log: Path, offsets: str | None) -> Verdict:
    if offsets is not None:
        raise InputError("--offsets", offsets, "a verification goes from the snapshot to the last commit")
    committed = topic.committed()
    source = topic.whole(committed.position)
    with topic.answers() as answers:
        return asyncio.run(verify(shard, source, answers, committed, log, None))


def _check_options(*, verifying: bool, answers: Path | None, publishing: bool, on_kafka: bool) -> None:
    if on_kafka and answers is not None:
        raise InputError("--answers", str(answers), "the answers to a Kafka topic are on its answer topic")
    if verifying and answers is None and not on_kafka:
        raise InputError("--answers", None, "--verify must know which answers to compare with")
    if verifying and publishing:
        raise InputError(
            "--verify", verifying, "publishes nothing, so --out, --ledger and --accept-cost cannot be used with it"
        )
    if not verifying and answers is not None:
        raise InputError("--verify", verifying, "must be added to compare with --answers; to answer a log, name --out")


def _doubt(given: int | None, served: int | None) -> str:
    """Return what else than another answer may make a difference."""
    if given is None or served is None or given == served:
        return ""
    return f"; --rows-per-message = {given:,}, but the first answered message has {served:,} rows: leave it out"


def _show_verdict(verdict: Verdict, doubt: str, *, as_json: bool) -> None:
    if as_json:
        typer.echo(msgspec.json.encode(verdict))
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
        typer.echo(msgspec.json.encode(done))
    else:
        typer.echo(
            f"{out}: {counted(done.messages, 'message')} ({done.rejected:,} rejected), "
            f"{counted(done.rounds, 'round')} from round "
            f"{done.first_round:,}; extra epsilon: {done.extra_epsilon:g}, extra delta: {done.extra_delta:.3g}, "
            f"for every record that the snapshot holds (fork number {done.number} of it)"
        )
    if not done.complete:
        msg = f"round {done.first_round + done.rounds}: the plan's last phase has ended before the log did"
        raise PlanExhaustedError(msg)


def _origin(origin: Path, key: Path | None) -> tuple[Plan, Snapshot, bytes]:
    """Return the plan, the snapshot, and the master key that opened it."""
    if origin.is_dir():
        refuse_sharded(origin)
        if any(origin.glob("*.genesis")):
            first = origin / "shard-0000.genesis"
            msg = f"{origin}: a folder of genesis files; name one of them, {first} for partition 0"
            raise StateError(msg)
        data, plan_data = newest_bytes(origin), read_plan(origin)
        if data is None or plan_data is None:
            msg = f"{origin}: holds no state; make one with `perpetua init`"
            raise StateError(msg)
        plan = decode_plan(plan_data)
        path = key or origin / "key"
        master_key = read_key_file(path)
        try:
            return plan, decode(data, master_key, plan.digest), master_key
        except WrongKeyError as exc:
            msg = f"{exc}, {path}"
            raise WrongKeyError(msg) from exc
    genesis = read_genesis(origin)
    plan = decode_plan(genesis.plan)
    return plan, decode(genesis.snapshot, genesis.master_key, plan.digest), genesis.master_key
