"""Whether what is chosen or counted when a state is made has the law that is due, end to end, over many keys.

A predictor is trained on the same few rows under one key after the other. What it has chosen is read from its state;
how likely that was follows from the rows and from what the plan pays, by weights that are whole numbers. A choice with
another law loses to a bet (`bets.py`), be it of less noise or of more.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final, NamedTuple

import mpmath
import numpy as np
from msgspec import UNSET
from msgspec.structs import replace
from numpy.typing import NDArray

from oracle.audit.due.exactness import below
from oracle.audit.findings import Seen
from oracle.audit.laws.bets import Bets
from oracle.audit.randomness import Draws, Randomness
from oracle.audit.references.choices import Run as Edges
from oracle.audit.references.choices import cut_runs, placed, side_runs, sides_of
from oracle.audit.references.classical import PlainClassical
from oracle.audit.references.values import place_of
from oracle.audit.runs.checks import run_of
from oracle.audit.runs.ensembles import random_rows, uneven_plan
from oracle.audit.runs.inputs import NUMBERS
from oracle.mechanisms.noise.tables import Law
from oracle.planning.classical.model import ClassicalPlan
from oracle.planning.ensemble.model import EnsemblePlan
from oracle.planning.features import Feature
from oracle.planning.plan import BoxPlan, CheckPlan, Plan
from oracle.planning.stumps.model import StumpsPlan
from oracle.predictors.base import StateArrays
from oracle.predictors.kinds import new_trainer, points_beyond

__all__ = ["chosen"]

Rows = NDArray[np.float64]
Look = Callable[[bytes, StateArrays, int | None], None]
"""Takes a key, the state that was made under it, and what was released of its points."""

_KEYS: Final = 320
_FITTED: Final = 120
"""Keys, where teachers are fitted under each."""

_BITS: Final = 200
_RARE: Final = 0.01


class _Made(NamedTuple):
    """What states are made of, and who looks at each."""

    plan: Plan
    rows: Rows
    labels: NDArray[np.bool_] | NDArray[np.int8]
    look: Look
    keys: int = _KEYS


class _Choice:
    """One choice, whose candidates are known.

    Args:
        rate: e: a candidate's weight is exp(-e loss).
        runs: The candidates: places of owners, and the loss of each.
    """

    def __init__(self, rate: float, runs: Sequence[Edges]) -> None:
        self._runs = runs
        self._sizes: dict[int, int] = {}
        for run in runs:
            self._sizes[run.loss] = self._sizes.get(run.loss, 0) + run.width
        least = min(self._sizes)
        with mpmath.workprec(2 * _BITS):
            whole = {
                loss: size * int(mpmath.ldexp(mpmath.exp(-mpmath.mpf(rate) * (loss - least)), _BITS))
                for loss, size in self._sizes.items()
            }
        shares = {loss: weight / sum(whole.values()) for loss, weight in whole.items()}
        often = [loss for loss, share in sorted(shares.items()) if share >= _RARE]
        self._cells = {loss: place for place, loss in enumerate(often)}
        told = [shares[loss] for loss in often]
        self._chances = np.array([*told, max(1.0 - sum(told), 2.0**-_BITS)])

    def bet(self, bets: Bets, coins: Draws, name: str, owner: int, place: int, which: int = 0) -> None:  # noqa: PLR0913, PLR0917 -- a choice, and who bets
        """Bet on the loss of what was chosen, and on where it is among all that have this loss."""
        before: dict[int, int] = {}
        for run in self._runs:
            if run.owner == owner and run.start <= place < run.start + run.width:
                break
            before[run.loss] = before.get(run.loss, 0) + run.width
        counts = np.zeros(len(self._chances))
        counts[self._cells.get(run.loss, -1)] = 1.0
        bets.on_counts(name, self._chances, counts, (which, *self._cells))
        at = before.get(run.loss, 0) + place - run.start
        bets.on_place(f"{name}, among equals", (at + coins.one()) / self._sizes[run.loss])


def _bet_on_noise(bets: Bets, name: str, law: Law, slope: float, noise: int) -> None:
    """Bet on how far a draw is from 0, in a few steps each about as likely."""
    edges = sorted({math.ceil(nats / slope) for nats in (0.15, 0.35, 0.7, 1.2, 2.0, 3.0)})
    inside = [float(below(law, slope, edge) - below(law, slope, (law == "discrete-laplace") - edge)) for edge in edges]
    size = noise if noise >= 0 else -noise - (law == "laplace")
    bets.on_counts(name, np.diff([0.0, *inside, 1.0]), (np.arange(len(edges) + 1) == bisect_right(edges, size)) * 1.0)
    bets.on_chance(f"the sign of {name}", float(below(law, slope, 0)), happened=noise < 0)


def _telling_rate(runs: Sequence[Edges]) -> float:
    """Return the rate of which a doubled one would be seen in the fewest choices."""
    losses = np.array(sorted({run.loss for run in runs}))
    sizes = np.log([float(sum(run.width for run in runs if run.loss == loss)) for loss in losses])

    def diverges(rate: float) -> float:
        weights, doubled = sizes - rate * losses, sizes - 2.0 * rate * losses
        laws = [one - np.logaddexp.reduce(one) for one in (weights, doubled)]
        return float(np.exp(laws[1]) @ (laws[1] - laws[0]))

    rates: list[float] = np.geomspace(0.05, 4.0, 30).tolist()
    return max(rates, key=diverges)


def chosen(plan: Plan, randomness: Randomness) -> Seen:
    """Choices and counts of training have the law that they pay for: else more is told than epsilon, or less is known.

    The plan that is trained by is one of the same kind; a law that is as due is refuted with a chance of 1e-9 at most.
    """
    bets, coins = Bets(), Draws(randomness, _KEYS + 1)
    made = _made(plan, Draws(randomness, _KEYS), bets, coins)
    for number in range(made.keys):
        secret = randomness.secret(number)
        trainer = new_trainer(made.plan, secret)
        trainer.add(made.rows, made.labels)
        state = trainer.finish().export()
        made.look(secret, state, points_beyond(trainer))
    passes, says = bets.verdict()
    return passes, f"{made.keys} keys: {says}"


def _made(plan: Plan, draws: Draws, bets: Bets, coins: Draws) -> _Made:
    if isinstance(plan, EnsemblePlan):
        return _classes(draws, bets)
    runs = (run_of(plan, draws, 0).plan for _ in count())
    if isinstance(plan, StumpsPlan):
        return _stump(replace(next(runs), features=NUMBERS), draws, bets, coins)
    used = next(one for one in runs if all(feature.kind == "number" for feature in one.features))
    if isinstance(used, ClassicalPlan):
        return _classical(used, draws, bets, coins)
    return _box(used, draws, bets, coins)


def _numbers(draws: Draws, features: Sequence[Feature], rows: int) -> Rows:
    """Return rows no two of whose numbers are equal."""
    bounds = np.array([feature.bounds or (-1.0, 1.0) for feature in features])
    shares = draws.uniform(rows * len(features)).reshape(rows, -1)
    numbers: Rows = bounds[:, 0] + shares * (bounds[:, 1] - bounds[:, 0])
    return numbers


def _classical(plan: ClassicalPlan, draws: Draws, bets: Bets, coins: Draws) -> _Made:
    rows, sides = _numbers(draws, plan.features, plan.declared), sides_of(plan.features, plan.sides)
    numbers = rows.tolist()
    stump = plan.concept == "stump"
    middle = np.median(rows, axis=0)
    labels = rows[:, 0] > middle[0] if stump else np.ones(len(rows), dtype=np.bool_)
    labels = labels ^ (draws.uniform(len(rows)) < 0.2) if stump else labels  # noqa: PLR2004 -- so many are wrong
    places = [[placed(row[column], lower=lower) for row in numbers] for column, lower in sides]
    faces = plan.slicing == "faces"
    if stump:
        cuts = [cut_runs(side, [*zip(mine, labels.tolist(), strict=True)]) for side, mine in enumerate(places)]
        runs, moves = [[run for runs in cuts for run in runs]], 1
    else:
        runs, moves = [side_runs(mine, plan.rank) for mine in places], 2 * (1 if faces else len(sides))
    rate = _telling_rate(runs[0])
    choices = [_Choice(rate, one) for one in runs]
    plan = replace(plan, epsilon=rate * moves, scale=rate)

    def look(secret: bytes, state: StateArrays, _beyond: int | None) -> None:
        mine = choices
        if faces:  # who is shown a row is a coin of the key's
            shown = PlainClassical(plan, secret, numbers, labels.tolist()).shown
            seen = [[place for row, place in enumerate(all_) if shown[row] == side] for side, all_ in enumerate(places)]
            mine = [_Choice(rate, side_runs(one, plan.rank)) for one in seen]
        for side, (column, lower) in enumerate(sides):
            bound = float(state["lower" if lower else "upper"][column])
            if stump and bound == (-np.inf if lower else np.inf):
                continue
            at = place_of(bound if lower else 0.0 - bound)
            mine[0 if stump else side].bet(bets, coins, "the edge" if stump else f"edge {side}", side * stump, at)

    return _Made(plan, rows, labels, look)


def _stump(plan: StumpsPlan, draws: Draws, bets: Bets, coins: Draws) -> _Made:
    rows = _numbers(draws, plan.features, plan.declared)
    ranks = rows.argsort(axis=0).argsort(axis=0) / len(rows)
    labels = ranks[:, 1:].mean(axis=1) > 0.45 + 0.1 * draws.one()
    ends = {"lower": [1], "upper": [0], "both": [1, 0], "none": []}
    pairs = [(column, upward) for column, one in enumerate(plan.features) for upward in ends[one.sides]]
    ranked = {(column, up): np.argsort(-rows[:, column] if up else rows[:, column]) for column, up in pairs}
    wrong = {pair: _wrong(labels[order].tolist()) for pair, order in ranked.items()}
    paper = plan.profile == "paper"
    runs = [Edges(0, number, 1, min(wrong[pair])) for number, pair in enumerate(pairs)]
    ends_of = {pair: [Edges(0, cut, 1, loss) for cut, loss in enumerate(losses)] for pair, losses in wrong.items()}
    rate, cut_rate = _telling_rate(runs), _telling_rate(ends_of[pairs[0]])
    epsilon, spent = rate * (2.0 if paper else 1.0), cut_rate * (1.0 if paper else 2.0)
    selection = replace(plan.selection, scale=rate, epsilon=epsilon, cut_scale=cut_rate, cut_epsilon=spent)
    start = replace(plan.phases[0].start, trim=0)  # so that the outermost point is the last row that is labelled 1
    plan = replace(plan, selection=selection, phases=(replace(plan.phases[0], start=start), *plan.phases[1:]))
    first = _Choice(rate, runs)
    cuts = {pair: _Choice(cut_rate, ends) for pair, ends in ends_of.items()}

    def look(_secret: bytes, state: StateArrays, _beyond: int | None) -> None:
        column, upward = state["stump"].tolist()
        outermost = abs(float(state["points"][-1 if paper and not upward else 0][0]))
        values = np.abs(rows[ranked[column, upward], column]).tolist()
        pair = pairs.index((column, upward))
        first.bet(bets, coins, "the pair", 0, pair)
        cut = values.index(outermost) + 1 if np.isfinite(outermost) else 0
        if paper:
            noise = cut - int(np.count_nonzero(labels))
            _bet_on_noise(bets, "the number of rows", "laplace", selection.cut_epsilon, noise)
        else:
            cuts[column, upward].bet(bets, coins, "the cut", 0, cut, pair)

    return _Made(plan, rows, labels, look)


def _wrong(ranked: Sequence[bool]) -> list[int]:
    """Return the errors of all cuts."""
    return [sum(not label for label in ranked[:cut]) + sum(ranked[cut:]) for cut in range(len(ranked) + 1)]


def _box(plan: BoxPlan, draws: Draws, bets: Bets, coins: Draws) -> _Made:
    check = CheckPlan(epsilon=0.3 + draws.one(), needed=5, margin=3, miss=0.1, stripe=0)
    if plan.scale is UNSET:
        plan = replace(plan, check=check)
    rows, sides, scale = _numbers(draws, plan.features, plan.declared), sides_of(plan.features, plan.sides), plan.scale
    labels = np.ones(len(rows), dtype=np.bool_)
    if scale is UNSET:
        beyond = plan.declared - check.needed * len(sides)

        def released(_secret: bytes, _state: StateArrays, margin: int | None) -> None:
            _bet_on_noise(bets, "the count", "discrete-laplace", check.epsilon, (margin or 0) - beyond)

        return _Made(plan, rows, labels, released)
    places = [[placed(row[column], lower=lower) for row in rows.tolist()] for column, lower in sides]
    runs = [side_runs(mine, scale.rank) for mine in places]  # coins move places by next to nothing
    rate = _telling_rate(runs[0])
    plan, choices = replace(plan, scale=replace(scale, scale=rate)), [_Choice(rate, one) for one in runs]

    def look(_secret: bytes, state: StateArrays, _margin: int | None) -> None:
        for side, (choice, edge) in enumerate(zip(choices, state["edges"].tolist(), strict=True)):
            choice.bet(bets, coins, f"edge {side}", 0, int(edge))

    return _Made(plan, rows, labels, look)


def _classes(draws: Draws, bets: Bets) -> _Made:
    classes = 3
    plans = (uneven_plan(draws, classes, resting=False) for _ in count())
    plan = next(plan for plan in plans if plan.share_slope is not UNSET)
    rows, labels = random_rows(draws, plan.declared, classes)
    true = np.bincount(labels, minlength=classes)

    def look(_secret: bytes, state: StateArrays, _beyond: int | None) -> None:
        for noise in (state["counts"].astype(np.int64) - true).tolist():
            _bet_on_noise(bets, "the counts of classes", "discrete-laplace", float(plan.share_slope), noise)  # type: ignore[arg-type]  # it is set

    return _Made(plan, rows, labels, look, _FITTED)
