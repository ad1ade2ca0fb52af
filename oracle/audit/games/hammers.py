"""Where adversaries strike, and those whose hidden record is a training row.

Near a threshold an answer tells most; far above the upper one mediums are rare, so many answers come before the Stopper
halts. Which is best depends on the noise, and less noise than is claimed is what is looked for: so there are several
aims, and some games are played with each.
"""

from functools import cache
from typing import Final, Literal

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from oracle.accounting.between_thresholds import log_answer_law
from oracle.audit.games.game import Game
from oracle.audit.games.plans import thresholds_of
from oracle.audit.games.policies import worst_depth
from oracle.mechanisms.grid import EDGES, number_at, positions_of
from oracle.planning.plan import BoxPlan, InstancePlan

__all__ = [
    "Aim",
    "aimed",
    "hammer",
    "hammer_at",
    "hammer_view",
    "known_rows",
    "train_for_hammer",
    "twins",
    "value_at",
    "view_since",
]

Floats = NDArray[np.float64]
Aim = Literal["far outside", "in the window", "edge", "claimed noise", "half the noise"]
"""Where to strike, of a side: a depth that its thresholds tell, or where so much noise would tell most."""


_NEAR: Final = number_at(positions_of(np.array([-1.0])).item() + EDGES // 25)
"""Where edges are learned two more rows are here: few edges lie between them and the lower side's points. Without the
hidden row those and the many further in are one rank off, with it none and two."""

_COINS: Final = 1 << 10
"""Candidates that a row may have, by its coin."""

_MORE: Final = 3
"""There the upper side has so many points more, so that the lower side is the one that holds the least."""


def known_rows(plan: BoxPlan) -> tuple[Floats, NDArray[np.bool_]]:
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


_CUTS: Final = {"claimed noise": 1.0, "half the noise": 2.0}


@cache
def aimed(aim: Aim, instance: InstancePlan, mediums: int, rounds: int) -> int:
    """Return the depth that an aim means, where `mediums` stop the answers to `rounds` equal queries."""
    fixed = {
        "far outside": 0,
        "in the window": (instance.low + instance.high) // 2,
        "edge": instance.high - 1,
    }
    if aim in fixed:
        return max(fixed[aim], 0)
    cut = msgspec.structs.replace(instance, scale=instance.scale * _CUTS[aim])
    return worst_depth(thresholds_of(cut), mediums, rounds)


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


def view_since(
    game: Game[BoxPlan], labels: NDArray[np.int8], start: int, instance: InstancePlan, depth: int
) -> list[float]:
    """Return the view of labels that were seen from a round on."""
    end = game.rearmed_after(start + 1)
    return hammer_view(labels, None if end is None else end - start, instance, depth)


def train_for_hammer(game: Game[BoxPlan]) -> None:
    """Train with known rows, and the outermost one hidden."""
    values, labels = known_rows(game.plan)
    game.train(np.append(values, _outermost(game.plan)), np.append(labels, True), challenge=len(values))


def hammer(game: Game[BoxPlan], depth: int, rounds: int) -> Floats:
    """Train with the outermost row hidden, and ask at one depth until the side is armed afresh."""
    plan = game.plan
    train_for_hammer(game)
    seen = game.ask(np.full(rounds, value_at(plan, depth)))
    view = view_since(game, seen, 0, plan.phases[0].start, depth)
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


def value_at(plan: BoxPlan, depth: int) -> float:
    """Return the query that reaches past so many of the known positive rows on the lower side."""
    if plan.coin:  # a tenth of the lower half's rows are sent to the upper side
        depth = round(depth / (1.0 - plan.coin / 2.0))
    return depth + _outermost(plan)


def hammer_at(game: Game[BoxPlan], aim: Aim) -> Floats:
    """At one depth: at thresholds an answer tells most, beyond them there are more, far out only the halt speaks."""
    phase = game.plan.phases[0]
    rounds = min(6 * phase.stopper.cap, phase.rounds)
    return hammer(game, aimed(aim, phase.start, phase.stopper.threshold, rounds), rounds)


def twins(game: Game[BoxPlan], aim: Aim) -> Floats:
    """Pairs of rounds with a query on either side of the hidden row: one draw in both would give it away."""
    plan, phase = game.plan, game.plan.phases[0]
    values, labels = known_rows(plan)
    here = value_at(plan, aimed(aim, phase.start, phase.stopper.threshold, phase.rounds) + 1)
    game.train(np.append(values, here), np.append(labels, True), challenge=len(values))
    pairs = min(phase.stopper.cap, phase.rounds // 2)
    seen = game.ask(np.tile([here - 0.25, here + 0.25], pairs)).reshape(-1, 2)
    end = game.rearmed_after(1)
    seen = seen if end is None else seen[: end // 2]
    outer, inner = seen[:, 0] == 1, seen[:, 1] == 1
    mixed = [float(np.count_nonzero(inner & ~outer)), float(np.count_nonzero(outer & ~inner))]
    return np.array([*mixed, mixed[0] - mixed[1], float(np.count_nonzero(inner)), float(len(seen))])
