"""Checks of what the proofs for questions about a table assume (see `oracle.audit.structure`), on whole runs.

Runs go from messages to replies and a ledger, over snapshots and restarts (`oracle.audit.table_runs`), by the plan that
stands in the state.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracle.accounting.ledger import AnswerPaid, LedgerEvent
from oracle.audit.randomness import Draws, Randomness
from oracle.audit.simulator import Simulator, Told
from oracle.audit.table_laws import judge
from oracle.audit.table_runs import Run, eager, play
from oracle.audit.unique_noise import spread_bits
from oracle.errors import DataError
from oracle.mechanisms.thresholds.paid import PaidQuestions
from oracle.planning.plan import Plan
from oracle.planning.statistics.model import TablePlan
from oracle.predictors.statistics import start

__all__ = ["judged", "ledger_tells", "one_draw_each", "paid_once"]

Seen = tuple[bool, str]

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
    part, name = bets.most()
    says = f"no bet on {bets.outcomes} outcomes gained much" if part < 1.0 else f"bets gained on {name}"
    return part < 1.0, f"{says} (in nats, {100.0 * max(part, 0.0):.0f} % of what would refute)"


@contextmanager
def _used() -> Iterator[list[NDArray[np.uint64]]]:
    """Record all bits that make noise, where they are used: uint64[n, 2] each time."""
    words: list[NDArray[np.uint64]] = []
    offsets: set[bytes] = set()
    ask, offset, sample = PaidQuestions.ask, PaidQuestions.offset, start.__dict__["sample"]

    def asked(self: PaidQuestions, counts: Any, lows: Any, drawn: Any, **rest: Any) -> Any:  # noqa: ANN401 -- as of `ask`
        words.append(drawn.reshape(-1, 2).copy())
        return ask(self, counts, lows, drawn, **rest)

    def shifted(self: PaidQuestions, drawn: Any) -> int:  # noqa: ANN401 -- as of `offset`
        if self.threshold_slope is not None and drawn.tobytes() not in offsets:  # after a restart it is the same
            offsets.add(drawn.tobytes())
            words.append(drawn.reshape(-1, 2).copy())
        return offset(self, drawn)

    def sampled(law: Any, scale: float, drawn: Any) -> Any:  # noqa: ANN401 -- as of `sample`
        words.append(drawn.reshape(-1, 2).copy())
        return sample(law, scale, drawn)

    PaidQuestions.ask, PaidQuestions.offset = asked, shifted  # type: ignore[method-assign, assignment]  # for as long as this lasts
    start.__dict__["sample"] = sampled
    try:
        yield words
    finally:
        PaidQuestions.ask, PaidQuestions.offset = ask, offset  # type: ignore[method-assign]
        start.__dict__["sample"] = sample


def one_draw_each(plan: Plan, randomness: Randomness) -> Seen:
    """Every use of noise has draws of its own, of 128 bits: of each side, cell and question, also one that comes again.

    Messages are sent one by one, so that none is looked at again behind a paid one of its batch, and earlier answers
    are forgotten in between, as they are where many other questions came.
    """
    if not isinstance(plan, TablePlan):
        return False, "the plan is not one of a table"
    with _used() as words:
        for number in range(_FEW):
            play(eager(plan), randomness, number, _MESSAGES // 2, alone=True)
    return spread_bits(words)
