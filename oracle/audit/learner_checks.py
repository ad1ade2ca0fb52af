"""Checks of what the proofs for predictors without armed sides assume (see `oracle.audit.structure`)."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from oracle.audit.randomness import Randomness
from oracle.audit.trials import ask, stream, trained
from oracle.audit.unique_noise import recorded, spread_bits
from oracle.errors import DataError
from oracle.mechanisms.choice.edges import cut_candidates, side_candidates
from oracle.mechanisms.choice.exponential import Candidates
from oracle.planning.bisection.model import BisectionPlan
from oracle.planning.classical.model import ClassicalPlan
from oracle.planning.plan import Plan
from oracle.predictors.kinds import new_trainer

__all__ = ["bits_end", "key_let_go", "loss_spread", "mean_moves", "nothing_left", "separate_noise"]

Seen = tuple[bool, str]

_QUERIES: Final = 40
_EDGES: Final = 256
"""Edges of the small grid on which all losses are compared."""

_SETS: Final = 24
_ROUNDED: Final = 1e-12
_TRAINED: Final = 40
"""Predictors whose draws are checked together, as some need only a few."""


def nothing_left(plan: Plan, randomness: Randomness) -> Seen:
    """A query leaves nothing: two states that answered different queries differ in nothing."""
    states = []
    for sign in (1.0, -1.0):
        predictor = trained(plan, randomness.secret(0))
        ask(predictor, sign * stream(plan, _QUERIES))
        states.append(predictor.export())
    different = [name for name in states[0] if not np.array_equal(states[0][name], states[1][name])]
    return not different, f"{_QUERIES} queries left {', '.join(different) or 'nothing but the number of rounds'}"


def loss_spread(plan: Plan, randomness: Randomness) -> Seen:
    """One row changes all losses by amounts within the plan's spread of each other: else the choice tells more."""
    if not isinstance(plan, ClassicalPlan):
        return False, "the plan has no losses"
    most, rank = 0, 3
    for number in range(_SETS):
        positions = np.sort(randomness.words(number, 12)[:, 0] % np.uint64(_EDGES - 1))
        labels = randomness.words(number, 12)[:, 1] % np.uint64(2) == 0
        for row in range(len(positions)):
            kept = np.delete(positions, row)
            if plan.concept == "box":
                pair = [side_candidates(records, rank, _EDGES, _EDGES) for records in (positions, kept)]
            else:
                pair = [
                    cut_candidates(positions, labels, 0, _EDGES),
                    cut_candidates(kept, np.delete(labels, row), 0, _EDGES),
                ]
            change = _by_edge(pair[0]) - _by_edge(pair[1])
            most = max(most, int(change.max() - change.min()), int(np.abs(change).max()))
    return most <= plan.spread, f"one row changes losses by amounts within {most} of each other"


def _by_edge(candidates: Candidates) -> NDArray[np.int64]:
    losses = np.zeros(_EDGES, dtype=np.int64)
    for start, width, loss in zip(candidates.starts, candidates.widths, candidates.losses, strict=True):
        losses[int(start) : int(start) + int(width)] = loss
    return losses


def mean_moves(plan: Plan, randomness: Randomness) -> Seen:
    """One row moves the mean by 1/n at most: else every bit tells more than it is charged."""
    whole = _database(plan, randomness)
    rows = {*range(0, plan.declared, max(plan.declared // 16, 1)), plan.declared - 1}
    most = max(abs(whole - _database(plan, randomness, row)) for row in rows)
    says = f"one row of {plan.declared} moves it by {most:.4g} at most"
    if not _refused(plan, randomness.secret(0)):
        return False, f"{says}; a row of length 1.5 was taken, and would move it further"
    return most <= (1.0 + _ROUNDED) / plan.declared, says


def _refused(plan: Plan, secret: bytes) -> bool:
    """Return whether a trainer refuses a row that is longer than 1."""
    try:
        new_trainer(plan, secret).add(np.full((1, 1), 1.5), np.ones(1, dtype=np.bool_))
    except DataError:
        return True
    return False


def _database(plan: Plan, randomness: Randomness, left_out: int | None = None) -> float:
    return float(trained(plan, randomness.secret(0), left_out).export()["database"][0])


def bits_end(plan: Plan, randomness: Randomness) -> Seen:
    """After the learning rounds the rows' mean is erased and no more bits are given."""
    if not isinstance(plan, BisectionPlan):
        return False, "the plan has no bits"
    predictor = trained(plan, randomness.secret(0))
    early = predictor.export()["key"].tobytes()
    ask(predictor, np.ones((plan.phases[0].rounds + _QUERIES, 1)))
    state = predictor.export()
    bits = int(state["bits"][0]) if "bits" in state else 0
    good = "database" not in state and bits <= plan.phases[0].rounds and state["key"].tobytes() != early
    return good, f"{bits} bits in {plan.phases[0].rounds} learning rounds, and none later"


def separate_noise(plan: Plan, randomness: Randomness) -> Seen:
    """Every choice and every bit has a draw of its own, of 128 bits: a draw that serves twice tells of both at once."""
    drawn = []
    for number in range(_TRAINED):
        with recorded() as words:
            ask(trained(plan, randomness.secret(number)), stream(plan, _QUERIES))
        drawn += words
    return spread_bits(drawn)


def key_let_go(plan: Plan, randomness: Randomness) -> Seen:
    """The key that choices and bits come from is not the genesis key, and no array holds that one."""
    secret = randomness.secret(0)
    held = b"".join(array.tobytes() for array in trained(plan, secret).export().values())
    return secret not in held, "the genesis key is in no state" if secret not in held else "the genesis key is kept"
