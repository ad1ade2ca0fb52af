"""Checks of what a privacy proof takes for granted and no short game would show: each looks at the real thing.

Where each could fail, and what a failure would mean, stands in its docstring.
"""

import time
from collections.abc import Callable
from typing import Final

import mpmath
import numpy as np
from numpy.typing import NDArray

from connectors.base import Delivery
from oracle.accounting.ledger import PhaseEnded
from oracle.audit.counting import counted, one_place
from oracle.audit.exactness import exact_between, exact_levels, exact_stopper
from oracle.audit.findings import Check
from oracle.audit.learner_checks import LEARNER_CHECKS
from oracle.audit.learners import LEARNERS
from oracle.audit.plans import TARGETS, Target, small_plan
from oracle.audit.randomness import Randomness
from oracle.audit.sensitivity import sensitivity
from oracle.audit.trials import asked, stream, trained
from oracle.audit.unique_draws import fresh_draws
from oracle.mechanisms.addresses import Addresses
from oracle.mechanisms.keys import PhaseKey
from oracle.planning.plan import BoxPlan
from oracle.predictors.base import StateArrays
from oracle.predictors.kinds import restore_predictor
from oracle.predictors.sides import SideBank
from oracle.runtime.shard import Shard
from oracle.state.format import Snapshot

__all__ = ["CHECKS", "run_check", "structure_names"]

_EPSILON, _DELTA = 4.0, 0.01
_ROWS: Final = 48
"""Rounds that most checks look at one by one."""

Floats = NDArray[np.float64]
Seen = tuple[bool, str]


def _same(left: StateArrays, right: StateArrays) -> bool:
    return left.keys() == right.keys() and all(np.array_equal(left[name], right[name]) for name in left)


def exact_noise(plan: BoxPlan, dice: Randomness) -> Seen:
    """What the sides answer with is the plan's: thresholds, scales, and noise that is the integer law's to 128 bits.

    Floating-point noise has gaps that give single records away. Every edge at which an answer changes is found by
    bisection, and compared with the law at high precision.
    """
    phase = plan.phases[0]
    addresses = Addresses(PhaseKey(dice.secret(0)), len(plan.features))
    bank = SideBank.begin(phase, addresses, [np.full(phase.start.points, np.inf)])
    worst = max(
        exact_between(bank.start, phase.start),
        exact_between(bank.rearmed, phase.rearmed),
        exact_stopper(bank.stopper, phase.stopper),
        exact_levels(bank.stopper, phase.stopper),
    )
    allowed = mpmath.ldexp(1, -128)
    seen = "all edges are within 2^-128" if worst <= allowed else f"an edge is off by {mpmath.nstr(worst, 3)}"
    return bool(worst <= allowed), seen


def one_draw(plan: BoxPlan, dice: Randomness) -> Seen:
    """A restored state gives every round the noise it would have had: else a crash is a second release."""
    count = plan.phases[0].rounds + _ROWS
    queries = stream(plan, count)
    for number, cut in enumerate((0, count // 3, plan.phases[0].rounds - 1, plan.phases[0].rounds + 1)):
        predictor = trained(plan, dice.secret(number))
        predictor.answer(queries[:cut], asked(cut))
        state = predictor.export()
        runs = [restore_predictor(plan, state), restore_predictor(plan, state), predictor]
        answers = [run.answer(queries[cut:], asked(count - cut)) for run in runs]
        for other in answers[1:]:
            if not np.array_equal(answers[0].labels, other.labels) or not np.array_equal(answers[0].tag, other.tag):
                return False, f"a state restored at round {cut} answers otherwise than before"
    return True, "four states restored twice: every answer and tag again"


def own_noise(plan: BoxPlan, dice: Randomness) -> Seen:
    """A round's noise depends on nothing that came before: where a query left no state, later answers are the same."""
    unmoved = 0
    for number in range(_ROWS):
        base = trained(plan, dice.secret(number // 8)).export()
        tail = stream(plan, _ROWS)
        states, answers = [], []
        for hidden in (-5.0 - number, -50.0 - number):
            predictor = restore_predictor(plan, base)
            predictor.answer(np.full((1, 1), hidden), asked(1))
            states.append(predictor.export())
            answers.append(predictor.answer(tail, asked(_ROWS)))
        if _same(*states):
            unmoved += 1
            if not np.array_equal(answers[0].labels, answers[1].labels):
                return False, "another query in one round changed the noise of later ones"
    return unmoved > 0, f"{unmoved} queries that left no state: no later answer changed"


def ratcheted(plan: BoxPlan, dice: Randomness) -> Seen:
    """Each phase has a key from which the one before cannot be had: else a state that leaks opens all past noise."""
    secret = dice.secret(0)
    predictor = trained(plan, secret)
    keys = [secret, predictor.export()["key"].tobytes()]
    count = plan.phases[0].rounds
    ended = predictor.answer(stream(plan, count), asked(count)).events
    state = predictor.export()
    keys.append(state["key"].tobytes())
    if not any(isinstance(event, PhaseEnded) for event in ended):
        return False, "no phase ended"
    held = b"".join(array.tobytes() for array in state.values())
    good = len(set(keys)) == len(keys) and not any(key in held for key in keys[:-1])
    return good, "each phase has its own key, and holds no older one" if good else "a phase's key outlives it"


def no_deduplication(plan: BoxPlan, dice: Randomness) -> Seen:
    """Two messages are two rounds, whatever they say: else whoever guesses an id is given a hidden answer."""
    predictor = trained(plan, dice.secret(0))
    first = Snapshot.first(plan.digest, predictor.export())
    messages = [
        Delivery(place, b'{"id":"one","x":[0.%d]}' % (25 + place % 2), "application/json") for place in range(1, 10)
    ]  # one id, two bodies
    runs = [Shard(plan, first).process(messages[:count]) for count in (1, 2, 9)]
    rounds = [run.rounds for run in runs]
    places = {reply.body.partition(b'"round":')[2] for reply in runs[-1].commit.replies}
    good = rounds == [1, 2, 9] and len(places) == len(runs[-1].commit.replies)
    return good, f"1, 2 and 9 messages with one id took {rounds[0]}, {rounds[1]} and {rounds[2]} rounds"


CHECKS: Final[dict[str, Callable[[BoxPlan, Randomness], Seen]]] = {
    "thresholds and noise are the plan's, exactly": exact_noise,
    "one draw for one round, also after a restart": one_draw,
    "a draw serves one round only": fresh_draws,
    "a round's noise is its own": own_noise,
    "a query stands in one place": one_place,
    "one record moves a depth by one": sensitivity,
    "a phase's key does not outlive it": ratcheted,
    "mediums are counted up to K": counted,
    "one message, one round": no_deduplication,
}
"""By what must hold."""


def structure_names() -> list[tuple[str, str]]:
    """Return (target, check) of all: every check of every predictor whose claims are proved."""
    armed = [(target.name, name) for target in TARGETS if target.profile == "tight" for name in CHECKS]
    return armed + [(learner.name, name) for learner in LEARNERS for name in LEARNER_CHECKS[learner.predictor]]


def run_check(target: str, name: str, seed: bytes) -> Check:
    """Run one check.

    Args:
        target: Name of the predictor.
        name: Of the check.
        seed: Of the auditor's dice.
    """
    started = time.process_time()
    dice = Randomness(seed, f"{target}|{name}")
    learner = next((one for one in LEARNERS if one.name == target), None)
    if learner is not None:
        passed, says = LEARNER_CHECKS[learner.predictor][name](learner.plan(_EPSILON), dice)
    else:
        passed, says = CHECKS[name](small_plan(_target(target), _EPSILON, _DELTA), dice)
    return Check(
        cell=f"structure|{target}|{name}",
        target=target,
        name=name,
        passed=passed,
        says=says,
        seconds=time.process_time() - started,
    )


def _target(name: str) -> Target:
    return next(target for target in TARGETS if target.name == name)
