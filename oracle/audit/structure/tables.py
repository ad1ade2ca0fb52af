"""Checks of what the proofs for questions about a table assume, on whole runs.

Runs go from messages to replies and a ledger, over snapshots and restarts (`runs/tables.py`), by the plan that
stands in the state.
"""

from typing import Final

import msgspec
import numpy as np

from oracle.accounting.ledger import AnswerPaid, LedgerEvent, MarginalsReleased
from oracle.audit.findings import Seen
from oracle.audit.laws.tables import judge
from oracle.audit.randomness import Draws, Randomness
from oracle.audit.references.simulator import Simulator, Told
from oracle.audit.references.tables import plain_replay
from oracle.audit.runs.tables import Run, eager, play
from oracle.audit.runs.unique_noise import spread_bits
from oracle.errors import DataError
from oracle.planning.plan import Plan
from oracle.planning.statistics.model import TablePlan

__all__ = ["judged", "ledger_tells", "paid_once", "replayed"]


_MESSAGES: Final = 120
_FEW: Final = 6
_RUNS, _PAID = 48, 960
"""Runs in which all laws are looked at, and more of plans that pay for little: for so many answers at most."""


def _runs(plan: Plan, randomness: Randomness, count: int) -> list[Run]:
    """Play runs, every second one of a plan that pays for more."""
    if not isinstance(plan, TablePlan):
        return []
    plans = (eager(plan), plan)
    return [play(plans[number % 2], randomness, number, _MESSAGES) for number in range(count)]


def ledger_tells(plan: Plan, randomness: Randomness) -> Seen:
    """Every reply follows from the messages and the ledger: else it tells something that nobody has paid for."""
    paid = replies = 0
    for run in _runs(plan, randomness, _FEW):
        told = Told(run.ledger)
        if Simulator(run.plan, told).answer(run.deliveries) != run.replies:
            return False, "a reply is not what a simulator says who sees messages and the ledger only"
        paid, replies = paid + len(told.paid), replies + len(run.replies)
    return paid > 0, f"{replies} replies follow byte for byte from messages and {paid} paid answers"


def replayed(plan: Plan, randomness: Randomness) -> Seen:
    """Every reply and the ledger are what a plain re-implementation says, over snapshots and restarts.

    Else counts, thresholds, noise or addresses are others, or a draw serves twice.
    """
    paid, drawn = 0, list[tuple[int, int]]()
    for number, run in enumerate(_runs(plan, randomness, _FEW)):
        replies, events, words = plain_replay(run.plan, run.cells, run.deliveries, randomness.secret(number))
        said = [msgspec.json.decode(line, type=LedgerEvent) for line in run.ledger]
        if [event for event in said if isinstance(event, AnswerPaid | MarginalsReleased)] != events:
            return False, f"run {number}: what is released of the rows is not what a plain re-implementation says"
        if replies != run.replies:
            return False, f"run {number}: a reply is not what a plain re-implementation says"
        paid += len(events)
        drawn += words
    fine, spread = spread_bits([np.array(drawn, dtype=np.uint64)])
    return fine and paid > 0, f"{paid} releases and all replies are what a plain re-implementation says; {spread}"


def paid_once(plan: Plan, randomness: Randomness) -> Seen:
    """Paid answers are numbered 1 to K at most, also if the state is restored in between: else K is no limit."""
    most = 0
    for run in _runs(plan, randomness, _FEW):
        events = [msgspec.json.decode(line, type=LedgerEvent) for line in run.ledger]
        paid = [event.paid for event in events if isinstance(event, AnswerPaid)]
        if paid != list(range(1, len(paid) + 1)) or len(paid) > run.plan.paid:
            return False, f"with restarts the paid answers of {run.plan.paid} are numbered {paid}"
        most = max(most, len(paid))
    return most > 0, f"with restarts up to {most} of {run.plan.paid} answers were paid, each counted once"


def judged(plan: Plan, randomness: Randomness) -> Seen:
    """What the ledger says has the noise and the thresholds of the plan: else its claim is of something else."""
    count = _RUNS + _PAID // (plan.paid if isinstance(plan, TablePlan) else 1)
    try:
        bets = judge(_runs(plan, randomness, count), Draws(randomness, count))
    except DataError as exc:
        return False, str(exc)
    return bets.verdict()
