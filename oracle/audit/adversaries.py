"""The library of adversaries. Each plays one game and returns a few features of its view.

All know every record but one, and so the depth of every query but for one point. What they look for: near a threshold
an answer tells most; far above the upper one mediums are rare, so many answers come before the Stopper halts; what was
medium sits in the side that is armed next, what was high in the next phase's.
"""

from collections.abc import Callable
from functools import cache
from typing import Final, NamedTuple

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from oracle.accounting.between_thresholds import log_answer_law
from oracle.audit.games import Game
from oracle.audit.plans import thresholds_of
from oracle.audit.policies import worst_depth
from oracle.mechanisms.grid import EDGES, number_at, positions_of
from oracle.planning.plan import BoxPlan, InstancePlan

__all__ = ["ADVERSARIES", "Adversary", "hammer", "hammer_view", "train_for_hammer"]

Floats = NDArray[np.float64]
Play = Callable[[Game[BoxPlan]], Floats]


class Adversary(NamedTuple):
    """One adversary of the library.

    Attributes:
        name: What reports call it.
        record: What the hidden record is: "training row", or a query that is "medium", "high" or "low".
        play: Plays a game and returns float64[k], the same k in every game.
    """

    name: str
    record: str
    play: Play


_NEAR: Final = number_at(positions_of(np.array([-1.0])).item() + EDGES // 25)
"""Where edges are learned two more rows are here: few edges lie between them and the lower side's points. Without the
hidden row those and the many further in are one rank off, with it none and two."""

_COINS: Final = 1 << 10
"""Candidates that a row may have, by its coin."""

_MORE: Final = 3
"""There the upper side has so many points more, so that the lower side is the one that holds the least."""


def _rows(plan: BoxPlan) -> tuple[Floats, NDArray[np.bool_]]:
    """Return training rows: positive ones at 1, 2, ..., negative ones far outside if a stump is to be chosen."""
    points = plan.phases[0].start.points
    inside = np.arange(1.0, points + 1.0)
    if plan.predictor == "stumps":
        inside = np.arange(1.0, plan.declared // 2 + 1.0)
        outside = -np.arange(1.0, plan.declared - len(inside) - 1.0)
        values = np.concatenate([inside, outside])
        return values, values > 0.0
    if "a:upper" in plan.sides:  # the other side's own points, where this side's are not
        more = [] if plan.scale is UNSET else [_NEAR, _NEAR, *np.arange(points + 1.0, points + _MORE + 1.0)]
        inside = np.concatenate([-inside[::-1], inside, more])
    return inside, np.ones(len(inside), dtype=np.bool_)


def _outermost(plan: BoxPlan) -> float:
    """Return a value further out than all positive rows, and further in than all negative ones."""
    return 0.5 if plan.predictor == "stumps" or len(plan.sides) == 1 else -float(plan.phases[0].start.points) - 0.5


@cache
def _depth(instance: InstancePlan, mediums: int, rounds: int) -> int:
    return worst_depth(thresholds_of(instance), mediums, rounds)


@cache
def _log_laws(instance: InstancePlan, depth: int) -> tuple[float, float]:
    """Return ln P(1 | there) / P(1 | not there), and the same of 0, at a depth; 0 where there is no exact law."""
    mechanism = thresholds_of(instance)
    if mechanism.law == "laplace":
        return 0.0, 0.0
    depths = np.array([depth, depth + 1], dtype=np.int64)
    high = np.exp(log_answer_law(mechanism.law, mechanism.scale, mechanism.low, mechanism.high, depths)[2])
    return float(np.log(high[1] / high[0])), float(np.log((1.0 - high[1]) / (1.0 - high[0])))


def hammer_view(labels: NDArray[np.int8], end: int | None, instance: InstancePlan, depth: int) -> list[float]:
    """Return loss, ones and zeros before the side was armed afresh, and when that was.

    Args:
        labels: int8[n], the answers to one query asked again and again.
        end: How many of them were given before the side was armed afresh; None if it never was.
        instance: The side.
        depth: How many known points the query reaches past.
    """
    before = labels if end is None else labels[:end]
    ones = float(np.count_nonzero(before == 1))
    zeros = len(before) - ones
    of_one, of_zero = _log_laws(instance, depth)
    return [ones * of_one + zeros * of_zero, ones, zeros, float(len(before))]


def _hammer_view(
    game: Game[BoxPlan], labels: NDArray[np.int8], start: int, instance: InstancePlan, depth: int
) -> list[float]:
    """Return the view of labels that were seen from a round on."""
    end = game.rearmed_after(start + 1)
    return hammer_view(labels, None if end is None else end - start, instance, depth)


def train_for_hammer(game: Game[BoxPlan]) -> None:
    """Train with known rows, and the outermost one hidden."""
    values, labels = _rows(game.plan)
    game.train(np.append(values, _outermost(game.plan)), np.append(labels, True), challenge=len(values))


def hammer(game: Game[BoxPlan], depth: int, rounds: int) -> Floats:
    """Train with the outermost row hidden, and ask at one depth until the side is armed afresh."""
    plan = game.plan
    train_for_hammer(game)
    seen = game.ask(np.full(rounds, _value(plan, depth)))
    view = _hammer_view(game, seen, 0, plan.phases[0].start, depth)
    before = _start_losses(game)
    return np.array([view[0] + sum(before), *view[1:], *before])


def _start_losses(game: Game[BoxPlan]) -> list[float]:
    """Return what the lower edge and the noisy count say of the hidden row, by their laws and in nats, where there are.

    An edge among the few loses 0 with the row and 1 without it, one of the many 2 and 1. Of the two rows between these,
    the lower side gets both where its edge is among the many, else about one.
    """
    plan = game.plan
    if plan.scale is UNSET or plan.check is UNSET or game.margin is None:
        return []
    near = int(game.predictor.export()["edges"][0]) < positions_of(np.array([_NEAR])).item() - _COINS
    known = plan.phases[0].start.points - plan.check.needed + (1 if near else 2)
    return [plan.scale.scale * (1.0 if near else -1.0), plan.check.epsilon * (1.0 if game.margin > known else -1.0)]


def _value(plan: BoxPlan, depth: int) -> float:
    """Return the query that reaches past so many of the known positive rows on the lower side."""
    if plan.coin:  # a tenth of the lower half's rows are sent to the upper side
        depth = round(depth / (1.0 - plan.coin / 2.0))
    return depth + _outermost(plan)


def _edge_hammer(game: Game[BoxPlan]) -> Floats:
    """At the upper threshold, where both labels are equally likely."""
    phase = game.plan.phases[0]
    return hammer(game, phase.start.high, min(3 * phase.stopper.cap, phase.rounds))


def _deep_hammer(game: Game[BoxPlan]) -> Floats:
    """Beyond the upper threshold, where the exact law says that the answers before the halt tell most."""
    phase = game.plan.phases[0]
    rounds = min(6 * phase.stopper.cap, phase.rounds)
    return hammer(game, _depth(phase.start, phase.stopper.threshold, rounds), rounds)


def _flood(game: Game[BoxPlan]) -> Floats:
    """Far outside: every answer is 0, so only the moment of the next arming speaks."""
    phase = game.plan.phases[0]
    return hammer(game, 0, min(6 * phase.stopper.cap, phase.rounds))


def _twins(game: Game[BoxPlan]) -> Floats:
    """Pairs of rounds with a query on either side of the hidden row: one draw in both would give it away."""
    plan, phase = game.plan, game.plan.phases[0]
    values, labels = _rows(plan)
    here = _value(plan, phase.start.high)
    game.train(np.append(values, here), np.append(labels, True), challenge=len(values))
    pairs = min(phase.stopper.cap, phase.rounds // 2)
    seen = game.ask(np.tile([here - 0.25, here + 0.25], pairs)).reshape(-1, 2)
    end = game.rearmed_after(1)
    seen = seen if end is None else seen[: end // 2]
    outer, inner = seen[:, 0] == 1, seen[:, 1] == 1
    mixed = [float(np.count_nonzero(inner & ~outer)), float(np.count_nonzero(outer & ~inner))]
    return np.array([*mixed, mixed[0] - mixed[1], float(np.count_nonzero(inner)), float(len(seen))])


def _query(game: Game[BoxPlan], depth: int) -> None:
    """Train with known rows, and let a query of this depth be the record."""
    game.train(*_rows(game.plan))
    game.challenge(_value(game.plan, depth))


def _window(plan: BoxPlan) -> int:
    """Return the depth in the middle between the thresholds, where an answer is most likely medium."""
    instance = plan.phases[0].start
    return (instance.low + instance.high) // 2


def _spread(plan: BoxPlan, depth: int, count: int) -> Floats:
    """Return so many different queries of one depth, none as far out as the middle of the window."""
    return _value(plan, depth) + np.linspace(0.0, 0.4, count)


def _follow(game: Game[BoxPlan], lives: int, flood: int) -> Floats:
    """Ask at one depth until the side is armed afresh; then at the worst depth of the side that holds the mediums.

    A label 0 far above the window is a medium but for few, so the points of the next life are known.
    """
    plan, phase = game.plan, game.plan.phases[0]
    _query(game, _window(plan))
    view: list[float] = []
    pending, instance, depth = _spread(plan, flood, phase.rounds), phase.start, flood
    for _ in range(lives):
        start, zeros, found = game.round, [np.empty(0)], False
        seen: list[NDArray[np.int8]] = []
        while not found and start + 64 * len(seen) + 64 < phase.rounds:
            asked = pending[64 * len(seen) : 64 * len(seen) + 64]
            labels = game.ask(asked)
            seen.append(labels)
            zeros.append(asked[labels == 0])
            found = game.rearmed_after(start + 1) is not None
        all_seen = np.concatenate(seen) if seen else np.empty(0, dtype=np.int8)
        view += _hammer_view(game, all_seen, start, instance, depth)
        known = np.sort(np.concatenate(zeros))
        instance = phase.rearmed
        depth = min(_depth(instance, phase.stopper.threshold, phase.rounds), max(len(known) - 2, 0))
        near = known[depth] if len(known) > depth else _value(plan, flood)
        pending = np.full(phase.rounds, near) + np.linspace(0.0, 1e-9, phase.rounds)
    return np.array(view)


def _deep(plan: BoxPlan) -> int:
    phase = plan.phases[0]
    return min(_depth(phase.start, phase.stopper.threshold, phase.rounds), phase.start.points - 2)


def _restart_forcer(game: Game[BoxPlan]) -> Floats:
    """Mediums as fast as there can be, to have the side armed afresh with the hidden query in it."""
    return _follow(game, 2, _window(game.plan) + 1)


def _window_follower(game: Game[BoxPlan]) -> Floats:
    """Deep queries, whose labels tell which were medium; then the same on every side that is armed of them."""
    return _follow(game, 3, _deep(game.plan))


def _medium(game: Game[BoxPlan]) -> Floats:
    """The Stopper's bit alone: mediums until it halts."""
    plan, phase = game.plan, game.plan.phases[0]
    _query(game, _window(plan))
    start = game.round
    seen = game.ask(_spread(plan, _window(plan), min(4 * phase.stopper.cap, phase.rounds - 2)))
    return np.array(_hammer_view(game, seen, start, phase.start, _window(plan)))


def _leaves_nothing(game: Game[BoxPlan]) -> Floats:
    """A query that is surely low leaves no state: nothing may be seen of it at all."""
    plan, phase = game.plan, game.plan.phases[0]
    _query(game, 0)
    start, depth = game.round, _deep(plan)
    seen = game.ask(_spread(plan, depth, min(3 * phase.stopper.cap, phase.rounds - 2)))
    return np.array(_hammer_view(game, seen, start, phase.start, depth))


def _inside(plan: BoxPlan) -> Floats:
    """Return a phase's queries beyond all rows that the sides hold, the outermost first."""
    rounds = plan.phases[0].rounds
    if "a:upper" in plan.sides and plan.predictor != "stumps":
        return np.linspace(-0.4, 0.4, rounds)
    return float(plan.declared) + np.arange(1.0, rounds + 1.0)


def _late(game: Game[BoxPlan]) -> Floats:
    """A query that comes when the side was armed afresh already, in the middle of the window of what it is armed with.

    It meets a side of the stream's own points, halfway through a life of the Stopper's.
    """
    plan, phase = game.plan, game.plan.phases[0]
    game.train(*_rows(plan))
    flood = _window(plan) + 1
    asked = _spread(plan, flood, phase.rounds // 3)
    zeros, start = [np.empty(0)], 0
    while start < len(asked) and game.rearmed_after(1) is None:
        part = asked[start : start + 64]
        zeros.append(part[game.ask(part) == 0])
        start += 64
    known, rearmed = np.sort(np.concatenate(zeros)), phase.rearmed
    depth = (rearmed.low + rearmed.high) // 2
    near = known[depth] if len(known) > depth else _value(plan, flood)
    some = np.full(phase.stopper.threshold // 2, near)
    before = game.ask(some)
    game.challenge(float(near))
    start = game.round
    seen = game.ask(np.full(min(4 * phase.stopper.cap, phase.rounds - start - 1), near))
    return np.array([float(np.count_nonzero(before == 1)), *_hammer_view(game, seen, start, rearmed, depth)])


def _phase_crosser(game: Game[BoxPlan]) -> Floats:
    """A query that is high on every side, outermost of all that the next phase starts with, which is then attacked."""
    plan = game.plan
    game.train(*_rows(plan))
    asked = _inside(plan)
    game.challenge(float(asked[0]))
    asked = asked[1:]  # ends the phase
    known = asked[game.ask(asked) == 1]
    following = plan.phases[1].start
    rounds = min(6 * plan.phases[1].stopper.cap, plan.phases[1].rounds)
    depth = min(_depth(following, plan.phases[1].stopper.threshold, rounds), max(len(known) - 1, 0))
    start = game.round
    seen = game.ask(np.full(rounds, (known[depth - 1] + known[depth]) / 2.0 if 0 < depth < len(known) else asked[0]))
    return np.array(_hammer_view(game, seen, start, following, depth))


_LOWER: Final = (
    Adversary("edge hammer", "training row", _edge_hammer),
    Adversary("training row, extreme", "training row", _deep_hammer),
    Adversary("flood far outside", "training row", _flood),
    Adversary("twins", "training row", _twins),
    Adversary("restart forcer", "query, medium", _restart_forcer),
    Adversary("window follower", "query, medium", _window_follower),
    Adversary("query, medium", "query, medium", _medium),
    Adversary("late query, medium", "query, medium", _late),
    Adversary("query, low", "query, low", _leaves_nothing),
    Adversary("phase-end crosser", "query, high", _phase_crosser),
)

ADVERSARIES: Final = {adversary.name: adversary for adversary in _LOWER}
"""All of them, by name."""
