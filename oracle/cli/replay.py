"""`perpetua replay --verify`: re-execute a recorded log and prove that the answers are the ones that were given."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from connectors.base import Delivery, Reply, Source
from connectors.local.jsonl import JsonlSource
from connectors.local.parquet import ParquetSource
from oracle.cli.answers import AnswerFile, open_answers
from oracle.cli.progress import Progress
from oracle.errors import PlanExhaustedError, RefusedError, SourceError, StateError
from oracle.planning.plan import Plan
from oracle.service.shard import Shard
from oracle.state.folder import newest_bytes, read_plan
from oracle.state.format import Snapshot, decode
from oracle.state.genesis import read_genesis
from oracle.state.keys import read_key_file

__all__ = ["Verdict", "run"]

_MESSAGES = 16_384


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a verification found.

    Attributes:
        identical: True if every recorded answer is the one that re-execution gives, byte for byte.
        messages: Messages re-executed.
        rounds: Rounds re-executed.
        first_round: Round of the snapshot.
        first_difference: Number of the first answer that differs (from 0), or None.
        extra_epsilon: Always 0: the noise is the recorded run's own, so nothing new is released.
    """

    identical: bool
    messages: int
    rounds: int
    first_round: int
    first_difference: int | None
    extra_epsilon: float = 0.0


def run(  # noqa: PLR0913, PLR0917 -- the command's options
    log: Annotated[Path, typer.Argument(metavar="LOG", help="The recorded query log: .jsonl, .parquet or .arrow.")],
    origin: Annotated[Path, typer.Option("--from", help="A genesis file, or a state folder (its newest snapshot).")],
    answers: Annotated[Path, typer.Option("--answers", help="The answers that were given: .jsonl, .parquet, .arrow.")],
    verify: Annotated[bool, typer.Option("--verify", help="Compare, and publish nothing.")] = False,
    key: Annotated[Path | None, typer.Option("--key", help="Key file of a state folder; by default DIR/key.")] = None,
    rows_per_message: Annotated[int, typer.Option(help="As it was served (Parquet and Arrow logs).")] = 65_536,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Re-execute a log and prove the answers byte-identical. Costs no epsilon; exits 1 if they differ."""
    if not verify:
        msg = "--verify = False: only the recorded log can be replayed, and only to verify it; add --verify"
        raise RefusedError(msg)
    plan, snapshot = _origin(origin, key)
    source: Source
    if log.suffix in {".parquet", ".arrow"}:
        source = ParquetSource(log, rows_per_message=rows_per_message)
    else:
        source = JsonlSource(log, body_limit=plan.limits.body_bytes)
    size = log.stat().st_size if log.suffix == ".jsonl" and log.is_file() else None
    verdict = asyncio.run(_verify(Shard(plan, snapshot), source, answers, size))
    if as_json:
        typer.echo(msgspec.json.encode(verdict))
    elif verdict.identical:
        typer.echo(
            f"identical: {verdict.messages:,} answers, {verdict.rounds:,} rounds from round {verdict.first_round:,}; "
            "extra epsilon: 0"
        )
    else:
        number = verdict.first_difference
        typer.echo(f"DIFFERENT: answer number {number} (from 0) is missing, or not the one re-execution gives")
    if not verdict.identical:
        raise typer.Exit(1)


def _origin(origin: Path, key: Path | None) -> tuple[Plan, Snapshot]:
    if origin.is_dir():
        data, plan_data = newest_bytes(origin), read_plan(origin)
        if data is None or plan_data is None:
            msg = f"{origin}: holds no state; make one with `perpetua init`"
            raise StateError(msg)
        plan = Plan.decode(plan_data)
        return plan, decode(data, read_key_file(key or origin / "key"), plan.digest)
    genesis = read_genesis(origin)
    plan = Plan.decode(genesis.plan)
    return plan, decode(genesis.snapshot, genesis.master_key, plan.digest)


async def _verify(shard: Shard, source: Source, answers: Path, size: int | None) -> Verdict:
    first_round, messages = shard.facts().round, 0
    if shard.position and answers.suffix != ".jsonl":
        msg = f"--from: a verification of {answers.suffix} answers starts at a genesis file, not at a later snapshot"
        raise RefusedError(msg)
    skipped = await _messages_before(source, shard.position)
    difference: int | None = None
    await source.open(shard.position or None)
    try:
        with contextlib.closing(open_answers(answers)) as recorded, Progress("replaying", size, "bytes") as progress:
            recorded.skip(skipped)
            async for replies in _replies(shard, source):
                difference = _first_difference(recorded, replies)
                messages += len(replies)
                progress.at(shard.position)
                if difference is not None:
                    difference += skipped + messages - len(replies)
                    break
            if difference is None and not recorded.ended():
                difference = skipped + messages
    finally:
        await source.close()
    rounds = shard.facts().round - first_round
    return Verdict(
        identical=difference is None,
        messages=messages,
        rounds=rounds,
        first_round=first_round,
        first_difference=difference,
    )


async def _replies(shard: Shard, source: Source) -> AsyncIterator[list[Reply]]:
    waiting: Sequence[Delivery] = []
    while waiting := waiting or await source.fetch(_MESSAGES, 1.0):
        try:
            replies = list(shard.process(waiting).commit.replies)
        except PlanExhaustedError:
            return  # what is behind the plan's last round was not answered then either
        yield replies
        waiting = waiting[len(replies) :]


def _first_difference(recorded: AnswerFile, replies: list[Reply]) -> int | None:
    for number, reply in enumerate(replies):
        if not recorded.matches(reply):
            return number
    return None


async def _messages_before(source: Source, position: int) -> int:
    """Count the log's messages before a position: as many answers were given before it."""
    if position == 0:
        return 0
    await source.open(None)
    count = 0
    while deliveries := await source.fetch(_MESSAGES, 1.0):
        before = sum(delivery.position <= position for delivery in deliveries)
        count += before
        if before < len(deliveries):
            break
    if not deliveries and not source.exhausted:
        msg = "log: cannot be read to its end"
        raise SourceError(msg)
    return count
