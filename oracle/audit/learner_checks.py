"""Checks of what the proofs for predictors without armed sides take for granted (see `oracle.audit.structure`)."""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from connectors.base import Delivery
from oracle.audit.randomness import Randomness
from oracle.audit.unique_draws import recorded, spread_bits
from oracle.errors import DataError
from oracle.mechanisms.choice.edges import cut_candidates, side_candidates
from oracle.mechanisms.choice.exponential import Candidates
from oracle.planning.bisection.model import BisectionPlan
from oracle.planning.classical.model import ClassicalPlan
from oracle.planning.plan import Plan
from oracle.predictors.base import Answers, Predictor, StateArrays
from oracle.predictors.kinds import new_trainer, restore_predictor
from oracle.runtime.shard import Shard
from oracle.state.format import Snapshot

__all__ = ["LEARNER_CHECKS"]

Floats = NDArray[np.float64]
Seen = tuple[bool, str]

_QUERIES: Final = 40
_EDGES: Final = 256
"""Edges of the small grid on which all losses are looked at."""

_SETS: Final = 24
_ROUNDED: Final = 1e-12
_TRAINED: Final = 40
"""Predictors whose draws are looked at together: some need but few."""


def _trained(plan: Plan, secret: bytes, left_out: int | None = None) -> Predictor:
    """Train with rows from 0 to 1, of which one may be labelled 0 and so count for nothing in a box or a mean."""
    trainer = new_trainer(plan, secret)
    rows = np.linspace(1.0, 0.05, plan.declared)[::-1]  # ends with 1.0, also if it is the only one
    labels = rows > 0.04  # noqa: PLR2004 -- all of them
    if left_out is not None:
        labels[left_out] = False
    trainer.add(rows[:, None], labels)
    return trainer.finish()


def _queries(count: int, step: float) -> Floats:
    """Return different queries from 0 to 1."""
    spread: Floats = (np.arange(1.0, count + 1.0) * step) % 1.0
    return spread[:, None]


def _ask(predictor: Predictor, queries: Floats) -> Answers:
    return predictor.answer(queries, np.ones(len(queries), dtype=np.bool_))


def _equal(left: Answers, right: Answers) -> bool:
    values = [np.zeros(0) if one.values is None else one.values for one in (left, right)]
    return (
        np.array_equal(left.labels, right.labels)
        and np.array_equal(left.tag, right.tag)
        and np.array_equal(values[0], values[1], equal_nan=True)
    )


def _different(left: StateArrays, right: StateArrays) -> list[str]:
    return [name for name in left if not np.array_equal(left[name], right[name])]


def restored(plan: Plan, dice: Randomness) -> Seen:
    """A restored state answers on as the one that was saved: else a crash is a second release."""
    last = plan.phases[0].rounds - 1
    for number, cut in enumerate((0, 3, min(last, _QUERIES))):
        predictor = _trained(plan, dice.secret(number))
        _ask(predictor, _queries(cut, 0.618))
        state = predictor.export()
        runs = [_ask(one, _queries(_QUERIES, 0.377)) for one in (predictor, *(_again(plan, state) for _ in range(2)))]
        if not all(_equal(runs[0], run) for run in runs[1:]):
            return False, f"a state restored at round {cut} answers otherwise than before"
    return True, "three states restored twice: every answer and tag again"


def _again(plan: Plan, state: StateArrays) -> Predictor:
    return restore_predictor(plan, {name: array.copy() for name, array in state.items()})


def nothing_left(plan: Plan, dice: Randomness) -> Seen:
    """A query leaves nothing: two states that answered different queries differ in nothing."""
    states = []
    for step in (0.618, 0.377):
        predictor = _trained(plan, dice.secret(0))
        _ask(predictor, _queries(_QUERIES, step))
        states.append(predictor.export())
    different = _different(*states)
    return not different, f"{_QUERIES} queries left {', '.join(different) or 'nothing but the number of rounds'}"


def loss_spread(plan: Plan, dice: Randomness) -> Seen:
    """One row changes all losses by amounts within the plan's spread of each other: else the choice tells more."""
    if not isinstance(plan, ClassicalPlan):
        return False, "the plan has no losses"
    most, rank = 0, 3
    for number in range(_SETS):
        places = np.sort(dice.words(number, 12)[:, 0] % np.uint64(_EDGES - 1))
        labels = dice.words(number, 12)[:, 1] % np.uint64(2) == 0
        for row in range(len(places)):
            kept = np.delete(places, row)
            if plan.concept == "box":
                pair = [side_candidates(records, rank, _EDGES, _EDGES) for records in (places, kept)]
            else:
                pair = [
                    cut_candidates(places, labels, 0, _EDGES),
                    cut_candidates(kept, np.delete(labels, row), 0, _EDGES),
                ]
            change = _by_edge(pair[0]) - _by_edge(pair[1])
            most = max(most, int(change.max() - change.min()), int(np.abs(change).max()))
    return most <= plan.spread, f"one row changes losses by amounts within {most} of each other"


def _by_edge(places: Candidates) -> NDArray[np.int64]:
    losses = np.zeros(_EDGES, dtype=np.int64)
    for start, width, loss in zip(places.starts, places.widths, places.losses, strict=True):
        losses[int(start) : int(start) + int(width)] = loss
    return losses


def mean_moves(plan: Plan, dice: Randomness) -> Seen:
    """One row moves the mean by 1/n at most: else every bit tells more than it is charged."""
    whole = _database(plan, dice)
    rows = {*range(0, plan.declared, max(plan.declared // 16, 1)), plan.declared - 1}
    most = max(abs(whole - _database(plan, dice, row)) for row in rows)
    says = f"one row of {plan.declared} moves it by {most:.4g} at most"
    if not _refused(plan, dice.secret(0)):
        return False, f"{says}; a row of length 1.5 was taken, and would move it further"
    return most <= (1.0 + _ROUNDED) / plan.declared, says


def _refused(plan: Plan, secret: bytes) -> bool:
    """Return whether a trainer refuses a row that is longer than 1."""
    try:
        new_trainer(plan, secret).add(np.full((1, 1), 1.5), np.ones(1, dtype=np.bool_))
    except DataError:
        return True
    return False


def _database(plan: Plan, dice: Randomness, left_out: int | None = None) -> float:
    return float(_trained(plan, dice.secret(0), left_out).export()["database"][0])


def bits_end(plan: Plan, dice: Randomness) -> Seen:
    """Behind the learning rounds the rows' mean is erased, and no bit is given any more."""
    if not isinstance(plan, BisectionPlan):
        return False, "the plan has no bits"
    predictor = _trained(plan, dice.secret(0))
    early = predictor.export()["key"].tobytes()
    _ask(predictor, np.ones((plan.phases[0].rounds + _QUERIES, 1)))
    state = predictor.export()
    bits = int(state["bits"][0]) if "bits" in state else 0
    good = "database" not in state and bits <= plan.phases[0].rounds and state["key"].tobytes() != early
    return good, f"{bits} bits in {plan.phases[0].rounds} learning rounds, and none later"


def own_draws(plan: Plan, dice: Randomness) -> Seen:
    """Every choice and every bit has a draw of its own, of 128 bits: a draw that serves twice tells of both at once."""
    drawn = []
    for number in range(_TRAINED):
        with recorded() as words:
            _ask(_trained(plan, dice.secret(number)), _queries(_QUERIES, 0.618))
        drawn += words
    return spread_bits(drawn)


def key_let_go(plan: Plan, dice: Randomness) -> Seen:
    """The key that choices and bits come from is not the genesis key, and no array holds that one."""
    secret = dice.secret(0)
    held = b"".join(array.tobytes() for array in _trained(plan, secret).export().values())
    return secret not in held, "the genesis key is in no state" if secret not in held else "the genesis key is kept"


def message_is_round(plan: Plan, dice: Randomness) -> Seen:
    """Two messages are two rounds, whatever they say."""
    first = Snapshot.first(plan.digest, _trained(plan, dice.secret(0)).export())
    messages = [Delivery(place, b'{"id":"one","x":[0.25]}', "application/json") for place in range(1, 6)]
    rounds = [Shard(plan, first).process(messages[:count]).rounds for count in (1, 2, 5)]
    return rounds == [1, 2, 5], f"1, 2 and 5 messages with one id took {rounds[0]}, {rounds[1]} and {rounds[2]} rounds"


_ALL: Final[dict[str, Callable[[Plan, Randomness], Seen]]] = {
    "a restored state answers on as before": restored,
    "the genesis key is let go": key_let_go,
    "a draw serves once only": own_draws,
    "each message is a round": message_is_round,
}

LEARNER_CHECKS: Final[dict[str, dict[str, Callable[[Plan, Randomness], Seen]]]] = {
    "classical": {
        "a query leaves nothing behind": nothing_left,
        "one row moves losses within the plan's spread": loss_spread,
        **_ALL,
    },
    "bisection": {
        "one row moves the mean by 1/n": mean_moves,
        "bits end with the learning rounds": bits_end,
        **_ALL,
    },
}
"""By predictor, and what must hold."""
