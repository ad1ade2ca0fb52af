"""A receipt against the log that it stands for: the queries are answered again, and nothing is published.

Whoever does that holds the genesis file. It tells whether the log is the one that was answered and nothing of any
answer: of another log, under the run's own key, an answer would be a free one. The running tag is over the queries'
features and tombstones in the order of their rounds: ids and rejected messages are no part of it.
"""

import asyncio
import hashlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from connectors.base import Source
from oracle.cli.progress import Progress
from oracle.cli.replay.query_log import ROWS, check_log, has_rows, open_log
from oracle.cli.sources import deliveries, doubt_of, opened
from oracle.codec.guarded import Codec
from oracle.codec.kinds import codec_of
from oracle.errors import ForeignPlanError, InputError
from oracle.hosting.file_kinds import MessageSettings
from oracle.planning.kinds import decode_plan
from oracle.planning.plan import Plan
from oracle.receipts.receipts import Statement, tag_commitment
from oracle.runtime.marks import Passed
from oracle.runtime.shard import Shard
from oracle.state.format import decode
from oracle.state.genesis import read_genesis

__all__ = ["QueryLog", "against_log"]


@dataclass(frozen=True, slots=True)
class QueryLog:
    """A log, and how it is read.

    Attributes:
        path: A .jsonl, .parquet or .arrow file, or the .toml configuration of a Kafka source.
        rows_per_message: Rows of a Parquet or Arrow log that were one message; None where nobody said.
        partition: Of a Kafka topic.
    """

    path: Path
    rows_per_message: int | None = None
    partition: int = 0

    def read(self, plan: Plan) -> tuple[Source, Callable[[Plan], Codec]]:
        """Return the log's source, not yet open, and what makes the codec that reads it.

        Raises:
            RefusedError: It is not a log that the plan's model answers.
            SourceError: It cannot be read.
            BusError: The brokers do not answer.
        """
        if self.path.suffix == ".toml":
            from oracle.cli.replay.kafka import open_kafka_log

            log = open_kafka_log(self.path, plan, self.partition)
            return log.present(), log.codec_to_json()
        rows = self.rows_per_message or ROWS
        check_log(plan, self.path, rows, MessageSettings("--log", "--rows-per-message"))
        return open_log(self.path, plan, rows), codec_of


def against_log(statement: Statement, log: QueryLog, genesis_file: Path, skipped: Sequence[int] = ()) -> list[str]:
    """Answer a log again up to a statement's round, and compare running tags and re-arms.

    What does not hold is returned, in words.

    Args:
        statement: Whose plan can be read.
        log: The log.
        genesis_file: Of the run.
        skipped: Positions of messages that took no round because an operator passed them over.

    Raises:
        ForeignPlanError: The genesis file is of another plan.
        StateError: The genesis file cannot be read.
        InputError: The log ends before the statement's round, or its messages are cut in other places.
        SourceError: The log cannot be read.
    """
    genesis = read_genesis(genesis_file)
    if genesis.plan != statement.plan.encode():
        mine = hashlib.sha256(genesis.plan).hexdigest()
        raise ForeignPlanError(
            f"--genesis {genesis_file}: it is of plan {mine}, the receipt of {statement.plan_digest}"
        )
    plan = decode_plan(genesis.plan)
    if not 0 <= statement.round <= plan.rounds:
        return [f"no log leads to round {statement.round:,}: the plan has {plan.rounds:,}"]
    source, codec = log.read(plan)
    shard = Shard(plan, decode(genesis.snapshot, genesis.master_key, plan.digest), codec=codec)
    shard.learn(Passed(skipped=tuple(sorted(skipped))))
    ended = asyncio.run(_answer_again(shard, source, statement.round))
    mark = shard.mark
    if mark.round < statement.round and ended:
        bound = f"must go on to round {statement.round:,}, up to which the receipt goes; it ends at {mark.round:,}"
        raise InputError("--log", str(log.path), bound)
    if mark.round < statement.round and has_rows(log.path):
        bound = f"must be as it was served: no message ends at round {statement.round:,}"
        raise InputError("--rows-per-message", log.rows_per_message or ROWS, bound)
    if tag_commitment(plan.digest, mark.round, mark.tag) != statement.tag_commitment:
        problem = (
            f"up to round {statement.round:,} the log is not the one that was answered (or the genesis file is that of "
            f"another run of the plan){doubt_of(source)}"
        )
        return [problem]
    facts = shard.facts()
    counts: list[tuple[str, int, object]] = [("re-arms", facts.rearms, statement.rearms)]
    if plan.paid_limit is not None:
        counts.append(("paid answers", facts.paid, statement.paid))
    return [
        f"the log leads to {mine} {name} up to round {statement.round:,}, the receipt says {stated}"
        for name, mine, stated in counts
        if mine != stated
    ]


async def _answer_again(shard: Shard, source: Source, rounds: int) -> bool:
    """Answer a log's messages again as long as they take at most so many rounds; return whether the log ended first."""
    async with opened(source):
        with Progress("replaying", rounds, "rounds") as progress:
            async for fetched in deliveries(source, "--log"):
                batch = shard.decode(fetched)
                fitting = bisect_right(batch.ends, rounds - shard.facts().round)
                if fitting:
                    shard.repeat(batch if fitting == len(fetched) else shard.decode(fetched.part(0, fitting)))
                    progress.at(shard.facts().round)
                if fitting < len(fetched) or shard.facts().round == rounds:
                    return False
    return True
