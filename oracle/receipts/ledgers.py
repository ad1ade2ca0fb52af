"""Checks receipts against ledgers, read from a file or as a bus delivered them.

What a ledger cannot show: no event names its plan, so a ledger is known by the rounds, epsilon and deltas of its
phases only; and forks are on the ledger topic of a model on Kafka only. Elsewhere they are recorded beside the state
folder or genesis file that they start from, which whoever checks a receipt does not see.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from oracle.accounting.ledger import (
    AnswerPaid,
    LedgerEvent,
    MarginalsReleased,
    MessageSkipped,
    ModelRetired,
    PhaseEnded,
    PhaseStarted,
    PlanEnded,
    ReplayForked,
    ScoreReleased,
    ShardStarted,
    ShardStopped,
    SharesReleased,
    SideRearmed,
    StartChecked,
    decode,
)
from oracle.errors import InputError, StorageError
from oracle.planning.distribution.model import DistributionPlan
from oracle.planning.ensemble.model import EnsemblePlan
from oracle.planning.kinds import decode_plan
from oracle.planning.plan import Plan
from oracle.planning.questions import QuestionPlan
from oracle.planning.statistics.model import StatisticsPlan, TablePlan
from oracle.predictors.base import phase_started
from oracle.receipts.receipts import Statement, armed_sides

__all__ = ["UNSEEN", "against_ledger", "read_ledger", "shows_rounds"]

_Standing = ShardStarted | ShardStopped | ModelRetired
_RunEvent = (
    PhaseStarted
    | PhaseEnded
    | SideRearmed
    | PlanEnded
    | ReplayForked
    | MarginalsReleased
    | SharesReleased
    | AnswerPaid
    | MessageSkipped
    | _Standing
)

UNSEEN: Final = (
    "forks (only the ledger of a model on Kafka shows them)",
    "which plan it is but for the phases (no event names the plan)",
)
"""What `against_ledger` cannot check, in words; nor the rounds, unless `shows_rounds`."""


def read_ledger(path: Path, shard: str | None = None) -> list[LedgerEvent]:
    """Return the events of a ledger, as a file has them or as they came from a bus.

    A line is an event, or, of a Kafka topic, a key (query topic/partition/...), a tab and an event; where there are
    keys, `shard` is "TOPIC/PARTITION".

    Raises:
        StorageError: It cannot be read.
        InputError: A line is no event that this Perpetua knows, or the shard is not named and there are several.
    """
    try:
        lines = [line for line in path.read_bytes().splitlines() if line]
    except OSError as exc:
        raise StorageError(f"{path}: {exc.strerror}") from exc
    keyed = [(b"/".join(key.split(b"/")[:2]).decode(errors="replace"), event) for key, event in map(_keyed, lines)]
    shards = sorted({name for name, _ in keyed})
    if shard is not None and shards and shard not in shards:
        raise InputError(
            "ledger shard", shard, f"must be one of {', '.join(name or 'lines without one' for name in shards)}"
        )
    if shard is None and len(shards) > 1:
        raise InputError("ledger", str(path), f"has events of {', '.join(shards)}: name one shard")
    try:
        return [decode(event) for name, event in keyed if shard in {None, name}]
    except msgspec.MsgspecError as exc:
        raise InputError("ledger", str(path), "must be a Perpetua ledger") from exc


def _keyed(line: bytes) -> tuple[bytes, bytes]:
    key, _, event = line.rpartition(b"\t")
    return key, event


def against_ledger(statement: Statement, events: Sequence[LedgerEvent]) -> list[str]:
    """Return where a statement and the ledger of one shard disagree, in words.

    What the ledger says of later rounds does not matter, as long as it is what the plan has. Nor does what it says
    twice: MQTT delivers at least once. See the module for what is not found.

    Raises:
        PlanError: The statement's plan cannot be read.
    """
    plan = decode_plan(statement.plan.encode())
    told = list(dict.fromkeys(events))
    return [
        *_contradictions(told),
        *_misnumbered(plan, told),
        *_foreign(plan, told),
        *_phases(statement, told),
        *_rearms(statement, told),
        *_paid(plan, statement, told),
        *_forks(statement, told),
    ]


def shows_rounds(statement: Statement, events: Sequence[LedgerEvent]) -> bool:
    """Return whether a ledger that agrees with a statement also confirms its number of rounds.

    A phase that ends and a shard that starts or stops say it; between these, rounds are no events.
    """
    return any(isinstance(event, PhaseEnded | _Standing) and event.round == statement.round for event in events)


def _contradictions(told: list[LedgerEvent]) -> Iterator[str]:
    """Yield events that can happen only once and have several versions."""
    kinds = ((PhaseStarted, "beginning"), (PhaseEnded, "end"))
    for kind, name in kinds:
        times = Counter(event.phase for event in told if isinstance(event, kind))
        for phase, ways in sorted(times.items()):
            if ways > 1:
                yield f"phase {phase}: the ledger contradicts itself: {ways} different events for the phase's {name}"
    for once, name in (
        (PlanEnded, "plan's end"),
        (MarginalsReleased, "marginals"),
        (SharesReleased, "shares of the classes"),
    ):
        if sum(isinstance(event, once) for event in told) > 1:
            yield f"the ledger contradicts itself: several different events for the {name}"


def _misnumbered(plan: Plan, told: list[LedgerEvent]) -> Iterator[str]:
    """Yield what is wrong with the numbers of paid answers; in one profile a question may pay for several."""
    several = isinstance(plan, DistributionPlan) and plan.nominal
    paid = sorted((event for event in told if isinstance(event, AnswerPaid)), key=lambda event: event.paid)
    if [event.paid for event in paid] != list(range(1, len(paid) + 1)):
        yield "the ledger contradicts itself: its paid answers are not numbered 1, 2, 3 and so on, once each"
    elif any(earlier.round + (not several) > later.round for earlier, later in pairwise(paid)):
        yield "the ledger contradicts itself: a paid answer is of no later round than the one before it"


def _foreign(plan: Plan, told: list[LedgerEvent]) -> Iterator[str]:
    """Yield, of each kind of event, the first one that a run of the plan cannot have."""
    named: set[type[LedgerEvent]] = set()
    for event in told:
        if isinstance(event, ScoreReleased | StartChecked):  # of a trial, or of a try at this run
            continue
        if type(event) not in named and not _possible(plan, event):
            named.add(type(event))
            yield f"the ledger is of another plan: the receipt's allows no {_name(event)} like that of {_place(event)}"


def _name(event: LedgerEvent) -> str:
    return str(event.__struct_config__.tag)


def _place(event: _RunEvent) -> str:
    if isinstance(event, PlanEnded | MessageSkipped | MarginalsReleased | SharesReleased | AnswerPaid):
        return f"round {event.round}"
    return f"phase {event.phase}, round {event.round}"


def _possible(plan: Plan, event: _RunEvent) -> bool:  # noqa: PLR0911 -- one for each kind
    """Return whether a run of the plan can have the event."""
    if isinstance(event, PlanEnded):
        return event.round == plan.rounds
    if isinstance(event, MessageSkipped):
        return 0 <= event.round <= plan.rounds and event.position > 0
    if isinstance(event, MarginalsReleased | AnswerPaid):
        return isinstance(plan, QuestionPlan) and _of_questions(plan, event)
    if isinstance(event, SharesReleased):
        return isinstance(plan, EnsemblePlan) and _of_ensemble(plan, event)
    if not 1 <= event.phase <= len(plan.phases):
        return False
    first, rounds = plan.first_round(event.phase), plan.phases[event.phase - 1].rounds
    if isinstance(event, PhaseStarted):
        return event == phase_started(plan, event.phase)
    if isinstance(event, PhaseEnded):
        return event.round == first + rounds and 0 <= event.rearms <= rounds * armed_sides(plan)
    if isinstance(event, _Standing):
        return first <= event.round <= first + rounds and _stands(plan, event, event.round - first)
    sides = armed_sides(plan)
    return first <= event.round < first + rounds and (isinstance(event, ReplayForked) or 0 <= event.side < sides)


def _of_ensemble(plan: EnsemblePlan, event: SharesReleased) -> bool:
    return plan.share_slope is not msgspec.UNSET and event.round == 0 and len(event.counts) == len(plan.classes)


def _of_questions(plan: QuestionPlan, event: MarginalsReleased | AnswerPaid) -> bool:
    if isinstance(event, AnswerPaid):
        if (event.above is msgspec.UNSET) == isinstance(plan, TablePlan):
            return False
        return 0 <= event.round < plan.rounds and 1 <= event.paid <= plan.paid
    if not isinstance(plan, StatisticsPlan) or plan.start_slope is msgspec.UNSET:
        return False
    shape = plan.layout.shape
    sizes = [math.prod(shape[attribute] for attribute in about) for about in plan.start]
    return event.round == 0 and list(map(len, event.counts)) == sizes


def _stands(plan: Plan, event: _Standing, phase_round: int) -> bool:
    """Return whether an event's guarantee is the plan's at that round of its phase, and so what it was paid."""
    if (event.paid is msgspec.UNSET) != (plan.paid_limit is None):
        return False
    start = phase_started(plan, event.phase)
    return (event.epsilon, event.delta, event.delta_spent, event.delta_limit, event.nominal, event.covers) == (
        start.epsilon,
        start.delta,
        plan.delta_spent(event.phase, phase_round),
        plan.delta,
        start.nominal,
        start.covers,
    )


def _phases(statement: Statement, told: list[LedgerEvent]) -> Iterator[str]:
    """Yield phases of the statement that the ledger lacks or has otherwise."""
    started: dict[int, list[PhaseStarted]] = {}
    ended: dict[int, list[PhaseEnded]] = {}
    for event in told:
        if isinstance(event, PhaseStarted):
            started.setdefault(event.phase, []).append(event)
        elif isinstance(event, PhaseEnded):
            ended.setdefault(event.phase, []).append(event)
    for line in statement.phases:
        wanted = (line.first_round, line.rounds, line.epsilon, line.delta)
        if line.phase not in started and (line.answered or line.phase > 1):
            yield f"phase {line.phase}: missing from the ledger"
        for start in started.get(line.phase, []):
            if (start.round, start.rounds, start.epsilon, start.delta) != wanted:
                yield f"phase {line.phase}: the ledger has other rounds, epsilon or delta"
        ends = {end.round for end in ended.get(line.phase, [])}
        if line.answered == line.rounds and ends != {line.first_round + line.rounds}:
            yield f"phase {line.phase}: the ledger has no end of it, or one at another round"


def _rearms(statement: Statement, told: list[LedgerEvent]) -> Iterator[str]:
    """Yield counts of re-arms, of the statement or of the ledger itself, that its events contradict.

    An event's round is the one before whose query the side was armed, so after `round` rounds the sides were armed
    afresh before rounds below `round`. No round arms a side twice: equal events are one.
    """
    rearms = [event for event in told if isinstance(event, SideRearmed)]
    rounds = sorted(event.round for event in rearms)
    of_phase = Counter(event.phase for event in rearms)
    before = bisect_left(rounds, statement.round)
    if before != statement.rearms:
        yield f"the ledger has {before} re-arms before round {statement.round}, the receipt {statement.rearms}"
    for event in told:
        if isinstance(event, PhaseEnded) and event.round <= statement.round and event.rearms != of_phase[event.phase]:
            yield (
                f"phase {event.phase}: the ledger contradicts itself: it has {of_phase[event.phase]} re-arms, and "
                f"counts {event.rearms} at the phase's end"
            )
        elif isinstance(event, _Standing) and event.round <= statement.round:
            yield from _miscounted(event, "re-arms", rounds, event.rearms)


def _miscounted(event: _Standing, what: str, rounds: Sequence[int], counted: object) -> Iterator[str]:
    """Yield what an event counts otherwise than the ledger has it before its round."""
    before = bisect_left(rounds, event.round)
    if counted != before:
        yield (
            f"the ledger contradicts itself: it has {before} {what} before round {event.round}, and counts "
            f"{counted} in its {_name(event)}"
        )


def _paid(plan: Plan, statement: Statement, told: list[LedgerEvent]) -> Iterator[str]:
    """Yield numbers of paid answers, of the statement or of the ledger itself, that its events contradict.

    And marginals that are missing: they are released with the first round, before anything is paid for.
    """
    if plan.paid_limit is None:
        return
    rounds = sorted(event.round for event in told if isinstance(event, AnswerPaid))
    before = bisect_left(rounds, statement.round)
    if before != statement.paid:
        yield f"the ledger has {before} paid answers before round {statement.round}, the receipt {statement.paid}"
    for event in told:
        if isinstance(event, _Standing) and event.round <= statement.round:
            yield from _miscounted(event, "paid answers", rounds, event.paid)
    released = any(isinstance(event, MarginalsReleased) for event in told)
    if statement.round and _has_start(plan) and not released:
        yield "the ledger lacks the marginals that the plan's hypothesis starts from"


def _has_start(plan: Plan) -> bool:
    """Return whether a run of the plan releases marginals first."""
    return isinstance(plan, StatisticsPlan) and plan.start_slope is not msgspec.UNSET


def _forks(statement: Statement, told: list[LedgerEvent]) -> Iterator[str]:
    """Yield where the ledger shows more forks than the statement.

    A fork does not say when it was made, only from which round. Forks from later rounds came after the statement;
    others may have, but the statement's epsilon is no longer all that its records paid, so they are told too.
    """
    shown = {event.fork for event in told if isinstance(event, ReplayForked) and event.round <= statement.round}
    if len(shown) > statement.forks:
        yield (
            f"the ledger shows other logs answered from rounds up to {statement.round} (forks): {len(shown)}, the "
            f"receipt {statement.forks}: it leaves some out, or they are newer than it, or they started from a genesis "
            "file or a copy that was not named when it was signed (`audit sign --genesis`)"
        )
