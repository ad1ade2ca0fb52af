"""Checks of what the privacy proofs assume and no short game would show, on the real code.

Where each could fail, and what a failure would mean, stands in its docstring.
"""

import time
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from connectors.base import Deliveries, Delivery
from oracle.audit.around.commands import commanded
from oracle.audit.around.exchanges import exchanged
from oracle.audit.around.forks import forked
from oracle.audit.around.shards import booked, parted, persons_kept
from oracle.audit.around.states import kept
from oracle.audit.due.plan import audit_plan
from oracle.audit.findings import Check, Seen
from oracle.audit.games.learners import LEARNERS
from oracle.audit.games.plans import TARGETS, Target, small_plan
from oracle.audit.laws.choices import chosen
from oracle.audit.laws.noise import settled
from oracle.audit.laws.prices import priced
from oracle.audit.live.checks import lawful
from oracle.audit.randomness import Randomness
from oracle.audit.recording.other_data import follows_from_outputs
from oracle.audit.recording.sensitivity import sensitivity
from oracle.audit.runs.checks import beside_plain
from oracle.audit.runs.trials import ask, stream, trained
from oracle.audit.structure.distributions import ladder_draws, ladder_laws, ladder_plainly, ladder_proved
from oracle.audit.structure.ensembles import one_draw, plainly, proved
from oracle.audit.structure.tables import judged, ledger_tells, paid_once, replayed
from oracle.audit.structure.told import tells_public, two_questions
from oracle.errors import StateError
from oracle.planning.plan import BoxPlan, Plan
from oracle.predictors.base import Answers
from oracle.predictors.kinds import restore_predictor
from oracle.runtime.shard import Outcome, Shard
from oracle.state.format import Snapshot

__all__ = ["CHECKS", "run_check", "structure_names"]

_EPSILON, _DELTA = 4.0, 0.01
_ROWS: Final = 48
"""Rounds that most checks examine one by one."""

Floats = NDArray[np.float64]


def restored(plan: Plan, randomness: Randomness) -> Seen:
    """A restored state gives every round the noise it would have had: else a crash is a second release."""
    cuts = (0, 3, min(plan.phases[0].rounds - 1, _ROWS))
    queries = stream(plan, cuts[-1] + _ROWS)
    for number, cut in enumerate(cuts):
        predictor = trained(plan, randomness.secret(number))
        ask(predictor, queries[:cut])
        state = predictor.export()
        again = [restore_predictor(plan, {name: array.copy() for name, array in state.items()}) for _ in range(2)]
        expected, *answers = [ask(run, queries[cut:]) for run in (predictor, *again)]
        if not all(_equal(expected, one) for one in answers):
            return False, f"a state restored at round {cut} answers otherwise than before"
    return True, f"{len(cuts)} states restored twice: every answer and tag again"


def _equal(left: Answers, right: Answers) -> bool:
    values = [np.zeros(0) if one.values is None else one.values for one in (left, right)]
    return (
        np.array_equal(left.labels, right.labels)
        and np.array_equal(left.tag, right.tag)
        and np.array_equal(values[0], values[1], equal_nan=True)
    )


def key_let_go(plan: Plan, randomness: Randomness) -> Seen:
    """The key that choices and bits come from is not the genesis key, and no array holds that one."""
    secret = randomness.secret(0)
    held = b"".join(array.tobytes() for array in trained(plan, secret).export().values())
    return secret not in held, "the genesis key is in no state" if secret not in held else "the genesis key is kept"


def no_deduplication(plan: Plan, randomness: Randomness) -> Seen:
    """Two messages are two rounds, whatever they say: else whoever guesses an id is given a hidden answer."""
    predictor = trained(plan, randomness.secret(0))
    first = Snapshot.first(plan.digest, predictor.export())
    bodies = [b'{"id":"one",%b}' % said for said in two_questions(plan)]  # one id, two bodies
    messages = Deliveries.of(Delivery(position, bodies[position % 2]) for position in range(1, 10))
    runs = [_outcome(Shard(plan, first), messages.part(0, count)) for count in (1, 2, 9)]
    rounds = [run.rounds for run in runs]
    replied = {body.partition(b'"round":')[2] for body in runs[-1].commit.replies.bodies}
    good = rounds == [1, 2, 9] and len(replied) == len(runs[-1].commit.replies)
    return good, f"1, 2 and 9 messages with one id took {rounds[0]}, {rounds[1]} and {rounds[2]} rounds"


def accounted(plan: Plan, _randomness: Randomness) -> Seen:
    """A second accountant finds no figure of a planner's plan that privacy rests on to be short."""
    found = [one for one in audit_plan(plan) if not one.promise]
    wrong = next((f"{one.target}: {one.name}: {one.says}" for one in found if not one.passed), None)
    return wrong is None, wrong or f"{len(found)} figures of a plan of its planner's are those due"


def _outcome(shard: Shard, messages: Deliveries) -> Outcome:
    return shard.process(shard.decode(messages))


_PLAIN: Final = "answers are those of a plain re-implementation"
_CHOSEN: Final = "private choices have the law that is due"
_SETTLED: Final = "noise behind a restart has the law that is due"
_MOVES: Final = "one record moves inputs as declared"
_FOLLOWS: Final = "all else follows from what mechanisms say"
_PRICED: Final = "what is released is priced as its noise has it"
_TOLD: Final = "what a daemon tells is public"
_LAWFUL: Final = "thresholds and noise are the plan's, exactly"

_COMMANDS: Final = "commands show nothing of the rows"
"""Of one target of each predictor: it plans a model of its own."""

_AROUND: Final[dict[str, Callable[[Plan, Randomness], Seen]]] = {
    "forks have noise of their own, and are paid for": forked,
    "no other log is answered behind a snapshot": exchanged,
    "sizes of states are public, and no key of before is kept": kept,
    "shards share no row": parted,
    "of a person as few rows are used as is said": persons_kept,
    "what is told of epsilon and delta adds up": booked,
    _COMMANDS: commanded,
}
"""Of what is around predictors: states, forks, restarts, shards and ledgers."""

CHECKS: Final[dict[str, Callable[[BoxPlan, Randomness], Seen]]] = {
    _PLAIN: beside_plain,
    _LAWFUL: lawful,
    _SETTLED: settled,
    _CHOSEN: chosen,
    _MOVES: sensitivity,
    _FOLLOWS: follows_from_outputs,
    _TOLD: tells_public,
    _PRICED: priced,
    "one message, one round": no_deduplication,
    **_AROUND,
}
"""Of predictors with armed sides, by what must hold."""

_NOMINAL: Final = (_PLAIN, _LAWFUL, _SETTLED, _CHOSEN, *_AROUND)
"""Those of profile `paper`, too."""

_ALL: Final[dict[str, Callable[[Plan, Randomness], Seen]]] = {
    _LAWFUL: lawful,
    _MOVES: sensitivity,
    _FOLLOWS: follows_from_outputs,
    "what a plan claims is due": accounted,
    "a restored state answers on as before": restored,
    "the genesis key is let go": key_let_go,
    "each message is a round": no_deduplication,
    **_AROUND,
}

_TABLE: Final[dict[str, Callable[[Plan, Randomness], Seen]]] = {
    _PLAIN: replayed,
    "answers follow from the ledger": ledger_tells,
    "what is released has the plan's noise": judged,
    "paid answers are counted up to K": paid_once,
    **_ALL,
    _TOLD: tells_public,
}

_ENSEMBLE: Final[dict[str, Callable[[Plan, Randomness], Seen]]] = {
    _PLAIN: plainly,
    _CHOSEN: chosen,
    "its figures are the proof's": proved,
    **_ALL,
    _TOLD: tells_public,
    _PRICED: priced,
    "a draw serves once only": one_draw,
}

_DISTRIBUTION: Final[dict[str, Callable[[Plan, Randomness], Seen]]] = {
    _PLAIN: ladder_plainly,
    "comparisons have the plan's noise": ladder_laws,
    "its figures are the proof's": ladder_proved,
    **_ALL,
    "a draw serves once only": ladder_draws,
}

_LEARNER_CHECKS: Final[dict[str, dict[str, Callable[[Plan, Randomness], Seen]]]] = {
    "classical": {
        _PLAIN: beside_plain,
        _PRICED: priced,
        _CHOSEN: chosen,
        **_ALL,
        _TOLD: tells_public,
    },
    "bisection": {
        _PLAIN: beside_plain,
        **_ALL,
        _TOLD: tells_public,
    },
    "statistics": _TABLE,
    "sparse-vector": _TABLE,
    "ensemble": _ENSEMBLE,
    "distribution": _DISTRIBUTION,
}
"""By predictor, and what must hold."""


def structure_names() -> list[tuple[str, str]]:
    """Return (target, check) of all: every check of every predictor whose claims are proved, some of others'."""
    armed = [(one.name, one.predictor, [*(CHECKS if one.profile == "tight" else _NOMINAL)]) for one in TARGETS]
    learners = {one.name: (one.name, one.predictor, [*_LEARNER_CHECKS[one.predictor]]) for one in LEARNERS}
    every = [*armed, *learners.values()]
    first = {predictor: target for target, predictor, _ in reversed(every)}
    found = [(target, predictor, name) for target, predictor, names in every for name in names]
    return [(target, name) for target, predictor, name in found if name != _COMMANDS or first[predictor] == target]


def run_check(target: str, name: str, seed: bytes) -> Check:
    """Run one check.

    Args:
        target: Name of the predictor.
        name: Of the check.
        seed: Of the audit's randomness.
    """
    started = time.process_time()
    randomness = Randomness(seed, f"{target}|{name}")
    learner = next((one for one in LEARNERS if one.name == target), None)
    try:
        if learner is not None:
            passed, says = _LEARNER_CHECKS[learner.predictor][name](learner.plan(_EPSILON), randomness)
        else:
            passed, says = CHECKS[name](small_plan(_target(target), _EPSILON, _DELTA), randomness)
    except StateError as exc:
        passed, says = False, f"a state of its own is refused: {exc}"
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
