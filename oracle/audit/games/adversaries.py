"""The library of adversaries. Each plays one game and returns a few features of its view.

All know every record but one, and so the depth of every query but for one point. Here the hidden record is a query:
what was medium sits in the side that is armed next, what was high in the next phase's.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.audit.games.game import Game
from oracle.audit.games.hammers import Aim, aimed, hammer_at, known_rows, twins, value_at, view_since
from oracle.planning.plan import BoxPlan

__all__ = ["ADVERSARIES", "Adversary"]

Floats = NDArray[np.float64]
Play = Callable[[Game[BoxPlan], Aim], Floats]


class Adversary(NamedTuple):
    """One adversary of the library.

    Attributes:
        name: What reports call it.
        record: What the hidden record is: "training row", or a query that is "medium", "high" or "low".
        play: Plays a game with one of its aims and returns float64[k], the same k in every game.
        aims: Where it may strike.
    """

    name: str
    record: str
    play: Play
    aims: tuple[Aim, ...]


def _query(game: Game[BoxPlan], depth: int) -> None:
    """Train with known rows, and let a query of this depth be the record."""
    game.train(*known_rows(game.plan))
    game.challenge(value_at(game.plan, depth))


def _window(plan: BoxPlan) -> int:
    """Return the depth in the middle between the thresholds, where an answer is most likely medium."""
    instance = plan.phases[0].start
    return (instance.low + instance.high) // 2


def _spread(plan: BoxPlan, depth: int, count: int) -> Floats:
    """Return so many different queries of one depth, none as far out as the middle of the window."""
    return value_at(plan, depth) + np.linspace(0.0, 0.4, count)


Gap = Callable[[int], tuple[float, float]]
"""Ends of the values that reach past so many known points."""


def _trained_gap(plan: BoxPlan) -> Gap:
    return lambda depth: (value_at(plan, depth), value_at(plan, depth) + 0.4)


def _follow(game: Game[BoxPlan], aim: Aim, lives: int, flood: int, gap: Gap, number: int = 0) -> Floats:  # noqa: PLR0913, PLR0917 -- one attack
    """Ask at one depth until the side is armed afresh; then at the depth aimed at of the side that holds the mediums.

    A label 0 far above the window is a medium but for few, so the points of the next life are known.

    Args:
        game: Where the hidden query was asked.
        aim: Where to strike later lives.
        lives: How many are attacked.
        flood: Depth of the queries of the first one.
        gap: Which values have a depth there.
        number: Of the phase, from 0.
    """
    phase = game.plan.phases[number]
    view: list[float] = []
    pending, instance, depth = np.linspace(*gap(flood), phase.rounds), phase.start, flood
    begun = game.round
    for _ in range(lives):
        start, zeros, found = game.round, [np.empty(0)], False
        seen: list[NDArray[np.int8]] = []
        while not found and game.round - begun + 64 < phase.rounds - 1:
            asked = pending[64 * len(seen) : 64 * len(seen) + 64]
            labels = game.ask(asked)
            seen.append(labels)
            zeros.append(asked[labels == 0])
            found = game.rearmed_after(start + 1) is not None
        all_seen = np.concatenate(seen) if seen else np.empty(0, dtype=np.int8)
        view += view_since(game, all_seen, start, instance, depth)
        known = np.sort(np.concatenate(zeros))
        instance = phase.rearmed
        depth = min(aimed(aim, instance, phase.stopper.threshold, phase.rounds), max(len(known) - 2, 0))
        near = known[depth] if len(known) > depth else gap(flood)[0]
        pending = np.full(phase.rounds, near) + np.linspace(0.0, 1e-9, phase.rounds)
    return np.array(view)


def _deep(plan: BoxPlan, aim: Aim = "claimed noise") -> int:
    phase = plan.phases[0]
    return min(aimed(aim, phase.start, phase.stopper.threshold, phase.rounds), phase.start.points - 2)


def _restart_forcer(game: Game[BoxPlan], aim: Aim) -> Floats:
    """Mediums as fast as there can be, to have the side armed afresh with the hidden query in it."""
    _query(game, _window(game.plan))
    return _follow(game, aim, 2, _window(game.plan) + 1, _trained_gap(game.plan))


def _window_follower(game: Game[BoxPlan], aim: Aim) -> Floats:
    """Deep queries, whose labels tell which were medium; then the same on every side that is armed of them."""
    _query(game, _window(game.plan))
    return _follow(game, aim, 3, _deep(game.plan), _trained_gap(game.plan))


def _medium(game: Game[BoxPlan], aim: Aim) -> Floats:
    """The Stopper's bit alone: mediums until it halts."""
    return _halts(game, aim, _window(game.plan), 4)


def _leaves_nothing(game: Game[BoxPlan], aim: Aim) -> Floats:
    """A query that is surely low leaves no state: nothing may be seen of it at all."""
    return _halts(game, aim, 0, 3)


def _halts(game: Game[BoxPlan], aim: Aim, place: int, lives: int) -> Floats:
    """Hide a query at a place, and ask mediums for some lives of a Stopper."""
    plan, phase = game.plan, game.plan.phases[0]
    _query(game, place)
    start, depth = game.round, _deep(plan, aim)
    seen = game.ask(_spread(plan, depth, min(lives * phase.stopper.cap, phase.rounds - 2)))
    return np.array(view_since(game, seen, start, phase.start, depth))


def _inside(plan: BoxPlan) -> Floats:
    """Return a phase's queries beyond all rows that the sides hold, the outermost first."""
    rounds = plan.phases[0].rounds
    if "a:upper" in plan.sides and plan.predictor != "stumps":
        return np.linspace(-0.4, 0.4, rounds)
    return float(plan.declared) + np.arange(1.0, rounds + 1.0)


def _late(game: Game[BoxPlan], aim: Aim) -> Floats:
    """A query that comes when the side was armed afresh already, in the middle of the window of what it is armed with.

    It meets a side of the stream's own points, halfway through a life of the Stopper's.
    """
    plan, phase = game.plan, game.plan.phases[0]
    game.train(*known_rows(plan))
    flood = _window(plan) + 1
    asked = _spread(plan, flood, phase.rounds // 3)
    zeros, start = [np.empty(0)], 0
    while start < len(asked) and game.rearmed_after(1) is None:
        part = asked[start : start + 64]
        zeros.append(part[game.ask(part) == 0])
        start += 64
    known, rearmed = np.sort(np.concatenate(zeros)), phase.rearmed
    depth = min(aimed(aim, rearmed, phase.stopper.threshold, phase.rounds), max(len(known) - 2, 0))
    near = known[depth] if len(known) > depth else value_at(plan, flood)
    some = np.full(phase.stopper.threshold // 2, near)
    before = game.ask(some)
    game.challenge(float(near))
    start = game.round
    seen = game.ask(np.full(min(4 * phase.stopper.cap, phase.rounds - start - 1), near))
    return np.array([float(np.count_nonzero(before == 1)), *view_since(game, seen, start, rearmed, depth)])


def _into_second(game: Game[BoxPlan], first: Floats) -> Gap:
    """Let phase 1 pass with these queries and known ones, the outermost first; return where depths are in phase 2."""
    asked = np.concatenate([first, _inside(game.plan)[len(first) :]])[: game.plan.phases[0].rounds - game.round]
    known = asked[game.ask(asked) == 1]

    def gap(depth: int) -> tuple[float, float]:
        if not 0 < depth < len(known):
            return float(asked[0]), float(asked[0])
        step = (known[depth] - known[depth - 1]) / 4.0
        return float(known[depth] - 3.0 * step), float(known[depth] - step)

    return gap


def _phase_crosser(game: Game[BoxPlan], aim: Aim) -> Floats:
    """A query that is high on every side, outermost of all that the next phase starts with, which is then attacked."""
    plan, phase = game.plan, game.plan.phases[1]
    game.train(*known_rows(plan))
    game.challenge(float(_inside(plan)[0]))
    gap = _into_second(game, _inside(plan)[1:2])  # ends the phase
    rounds = min(6 * phase.stopper.cap, phase.rounds)
    depth = aimed(aim, phase.start, phase.stopper.threshold, rounds)
    start = game.round
    seen = game.ask(np.full(rounds, sum(gap(depth)) / 2.0))
    return np.array(view_since(game, seen, start, phase.start, depth))


def _second_phase(game: Game[BoxPlan], aim: Aim) -> Floats:
    """A query that is medium on a side of phase 2, and is followed into the side that is armed of the mediums there."""
    plan = game.plan
    game.train(*known_rows(plan))
    gap, window = _into_second(game, np.empty(0)), _window(plan)
    game.challenge(sum(gap(window)) / 2.0)
    return _follow(game, aim, 2, window + 1, gap, number=1)


_NEAR_AND_FAR: Final[tuple[Aim, ...]] = ("claimed noise", "half the noise", "edge")
_LOWER: Final = (
    Adversary("hammer", "training row", hammer_at, ("far outside", "edge", "claimed noise", "half the noise")),
    Adversary("twins", "training row", twins, ("edge", "claimed noise")),
    Adversary("restart forcer", "query, medium", _restart_forcer, _NEAR_AND_FAR),
    Adversary("window follower", "query, medium", _window_follower, _NEAR_AND_FAR),
    Adversary("query, medium", "query, medium", _medium, ("in the window", "edge")),
    Adversary("late query, medium", "query, medium", _late, ("in the window", "edge", "claimed noise")),
    Adversary("query, low", "query, low", _leaves_nothing, ("claimed noise", "edge")),
    Adversary("phase-end crosser", "query, high", _phase_crosser, _NEAR_AND_FAR),
    Adversary("second phase", "query, medium", _second_phase, _NEAR_AND_FAR),
)

ADVERSARIES: Final = {adversary.name: adversary for adversary in _LOWER}
"""All of them, by name."""
