"""What the answer topic and the ledger topic hold in the end, against one uninterrupted run."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from tests.storms.kafka.ground import PARTITIONS, Expected
from tests.support.kafka import Answer, KafkaModelUnderTest

_OF_A_PROCESS: Final = frozenset({"shard-started", "shard-stopped"})
"""Ledger events that tell of processes, not of queries: there may be any number of them."""


@dataclass
class Verdict:
    """Counts of answers, over all partitions.

    Attributes:
        answered: Queries that have an answer.
        lost: Queries without one.
        duplicated: Answers beyond a query's first.
        renoised: Answers whose bytes are not the uninterrupted run's.
        disordered: Answers that do not follow the one before, or are on another partition than their query.
        ledger: Ledger events of phases that are missing, twice, or not the uninterrupted run's.
        phases: Phases that ended.
    """

    answered: int = 0
    lost: int = 0
    duplicated: int = 0
    renoised: int = 0
    disordered: int = 0
    ledger: int = 0
    phases: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def broken(self) -> int:
        """How many promises were broken."""
        return self.lost + self.duplicated + self.renoised + self.disordered + self.ledger


def judge(model: KafkaModelUnderTest, runs: list[Expected]) -> Verdict:
    """Read what was committed and compare it with one run for each partition."""
    found: dict[int, list[Answer]] = defaultdict(list)
    for answer in model.read():
        found[answer.partition].append(answer)
    verdict = Verdict(phases=sum(run.phases for run in runs))
    for partition in range(PARTITIONS):
        _judge_partition(verdict, found[partition], runs[partition].bodies)
    verdict.ledger = _judge_ledger(model.read(f"{model.name}.ledger"), runs)
    return verdict


def _judge_partition(verdict: Verdict, answers: list[Answer], bodies: list[bytes]) -> None:
    """Compare by the message's own number, which its answer keeps as its key."""
    times: Counter[int] = Counter()
    for before, answer in enumerate(answers):
        number = int(answer.key or b"-1")
        verdict.disordered += before > 0 and number < int(answers[before - 1].key or b"-1")
        times[number] += 1
        if not 0 <= number < len(bodies):
            verdict.disordered += 1
        elif answer.value != bodies[number]:
            verdict.renoised += 1
            verdict.examples.append(f"partition {answer.partition}: {answer.value!r} instead of {bodies[number]!r}")
    verdict.answered += len(times)
    verdict.lost += sum(number not in times for number in range(len(bodies)))
    verdict.duplicated += sum(count - 1 for count in times.values())


def _judge_ledger(events: list[Answer], runs: list[Expected]) -> int:
    """Return how many events differ; each of the uninterrupted run's must be there once."""
    seen: Counter[tuple[int, bytes]] = Counter()
    for event in events:
        body: dict[str, Any] = msgspec.json.decode(event.value)
        if body["kind"] not in _OF_A_PROCESS:
            seen[int(dict(event.headers)["partition"]), event.value] += 1
    wanted = Counter((partition, event) for partition, run in enumerate(runs) for event in run.ledger)
    return (seen - wanted).total() + (wanted - seen).total()
