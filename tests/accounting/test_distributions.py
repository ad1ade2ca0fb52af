"""PRIVACY.md, Theorem 30: all adversaries of few questions about a distribution, exactly, and broken ladders found.

The ladder is the one that serves; only the rows' noisy counts are replaced, by each outcome in turn with its odds in
both worlds.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import msgspec
import pytest

from oracle.accounting.between_thresholds import logistic_log_delta
from oracle.accounting.race import race_log_delta
from oracle.mechanisms.domains import Domain
from oracle.mechanisms.orders import NUMBERS
from oracle.mechanisms.thresholds.paid import HIGH, LOW, PAID
from oracle.planning.distribution.model import DistributionPlan, LadderPlan
from oracle.predictors.distribution.ladder import Asker, Ladder, Outcome
from tests.accounting.adversaries import NOTHING, Edge, delta_of, edge_sum, frontier, hull, logistic, questions
from tests.predictors.plans import tiny_distribution_plan

VALUES = 5
ROWS = 6
GAP = 1
SLOPE = 1.5

Story = tuple[float, float, Ladder]
"""The chance of what was told in either world, and what is known behind it."""


Told = tuple[Outcome, float, float]
"""An outcome, and its chance in either world."""


class _Script:
    """Tells what it is to tell, and then what may come next.

    Args:
        told: What is to be told, in order.
        outcomes: Of a value and a threshold, all that may be told.
    """

    def __init__(self, told: list[Told], outcomes: Callable[[int, int], Iterator[Told]]) -> None:
        self.told, self._outcomes = told, outcomes
        self._left = iter(told)
        self.beyond: list[Told] = []

    def __call__(self, key: float, threshold: int) -> Outcome:
        for outcome, _, _ in self._left:
            return outcome
        self.beyond = list(self._outcomes(int(key), threshold))
        raise EOFError


class Few(Domain[float]):
    """The values 1 to 5."""

    size = VALUES

    def rank(self, key: float) -> int:
        """See `Domain.rank`."""
        return int(key) - 1

    def row(self, rank: int) -> Sequence[float]:
        """See `Domain.row`."""
        return (rank + 1.0,)


class Unretired(Ladder):
    """Forgets pivots: a threshold that was paid for is asked about again."""

    def _compare(self, key: Any, threshold: int, ask: Asker) -> int:
        before = self.export()
        answer = super()._compare(key, threshold, ask)
        if self.paid:
            self.take_back(before, self.comparisons)
        return answer

    def close(self, key: Any, ask: Asker) -> int:
        """Compare once: it would be asked for ever."""
        self._compare(key, 0, ask)
        return 0


class Repeating(Ladder):
    """Compares a value afresh that was answered before, with the threshold next to it; nothing is learned of it."""

    def close(self, key: Any, ask: Asker) -> int:
        """See `Ladder.close`."""
        slot = self.slot(key)
        if slot is not None:
            ask(key, min(slot // 2, self._plan.paid - 1))
            return slot
        return super().close(key, ask)


def _plan(thresholds: int) -> DistributionPlan:
    """Return thresholds 1 and 4 of six rows, or the first of them alone."""
    plan = tiny_distribution_plan()
    ladder = LadderPlan(slope=0.5, gap=GAP, margin=1, width=3)
    return msgspec.structs.replace(plan, declared=ROWS, paid=thresholds, ladder=ladder)


class Game:
    """A row moved in one of two worlds, and whoever may ask anything.

    Args:
        kind: Class of the ladder.
        plan: The plan.
        slope: e.
        worlds: The rows of either world.
        told: Whether also free answers tell their noisy count.
        quantiles: Whether quantiles may be asked for.
    """

    def __init__(  # noqa: PLR0913 -- what a game is made of
        self,
        kind: type[Ladder],
        plan: DistributionPlan,
        slope: float,
        worlds: tuple[Sequence[int], Sequence[int]],
        *,
        told: bool = False,
        quantiles: bool = False,
    ) -> None:
        self._kind, self._plan, self._slope, self._told, self._quantiles = kind, plan, slope, told, quantiles
        self._counts = [[sum(row <= value for row in rows) for value in range(VALUES + 1)] for rows in worlds]
        self._lows = [1, 4][: plan.paid]
        self._found: dict[Any, Edge] = {}

    def edge(self, left: int) -> Edge:
        """Return the edge of all strategies of so many questions."""
        return self._edge(self._kind(self._plan, NUMBERS, Few()), left)

    def _edge(self, ladder: Ladder, left: int) -> Edge:
        if not left:
            return NOTHING
        state = (left, *(array.tobytes() for name, array in ladder.export().items() if name != "values"))
        if state not in self._found:
            edges = [
                edge_sum(self._edge(after, left - 1) * [p, q] for p, q, after in self._stories(ladder, move))
                for move in self._moves()
            ]
            self._found[state] = hull([NOTHING, *edges])
        return self._found[state]

    def _moves(self) -> Iterator[Callable[[Ladder, Asker], object]]:
        for value in range(1, VALUES + 1):
            yield lambda ladder, ask, value=float(value): ladder.close(value, ask)  # type: ignore[misc]
        for threshold in range(self._plan.paid if self._quantiles else 0):
            yield lambda ladder, ask, threshold=threshold: ladder.search(  # type: ignore[misc]
                threshold, ask, lambda rank: rank + 1.0
            )

    def _stories(self, ladder: Ladder, move: Callable[[Ladder, Asker], object]) -> Iterator[Story]:
        """Yield all that may be told of one question."""
        waiting: list[list[Told]] = [[]]
        while waiting:
            script = _Script(waiting.pop(), self._outcomes)
            after = self._kind(self._plan, NUMBERS, Few())
            after.take_back(ladder.export(), ladder.comparisons)
            try:
                move(after, script)
            except EOFError:
                waiting.extend([*script.told, outcome] for outcome in script.beyond)
                continue
            yield math.prod(one[1] for one in script.told), math.prod(one[2] for one in script.told), after

    def _outcomes(self, value: int, threshold: int) -> Iterator[Told]:
        low = self._lows[threshold]
        cuts = range(low - 3, low + GAP + 5) if self._told else range(low, low + GAP + 2)
        tails = [
            [(0.0, 1.0), *(logistic(self._slope, cut - counts[value]) for cut in cuts), (1.0, 0.0)]
            for counts in self._counts
        ]
        for place in range(len(cuts) + 1):
            first = cuts[place] - 1 if place < len(cuts) else cuts[-1]
            answer = LOW if first < low else HIGH if first > low + GAP else PAID
            p, q = (
                world[place + 1][0] - world[place][0]
                if world[place + 1][0] < 0.5
                else world[place][1] - world[place + 1][1]
                for world in tails
            )
            yield Outcome(answer, first), p, q


def _worst(game: Game, left: int, epsilon: float) -> float:
    edge = game.edge(left)
    return max(delta_of(edge, epsilon), delta_of(edge[:, ::-1], epsilon))


@cache
def _most(slope: float, paid: int, epsilon: float, comparisons: int) -> float:
    """Return what the best adversary reaches by so many questions "between", of any counts and thresholds."""
    nats = round(4.0 / slope)
    lows = range(-nats - 1, nats + 2)
    edge = frontier(questions(partial(logistic, slope), lows, (-1, 1), gap=GAP, values=GAP), comparisons, paid)
    return max(delta_of(edge, epsilon), delta_of(edge[:, ::-1], epsilon))


ACROSS = ((1, 2, 2, 3, 4, 5), (1, 2, 4, 3, 4, 5))
"""A row moved from below the middle of the rows to above it."""

ENDS = ((1, 1, 2, 3, 4, 4), (5, 1, 2, 3, 4, 4))
"""A row moved from the first value to the last: every count changes."""

BLANKED = ((2, 2, 2, 3, 3, 3), (99, 2, 2, 3, 3, 3))
"""A row blanked, and atoms."""


@pytest.mark.parametrize("worlds", [ACROSS, ENDS, BLANKED])
@pytest.mark.parametrize("paid", [1, 2])
@pytest.mark.parametrize("epsilon", [1.0, 2.0])
@pytest.mark.parametrize("quantiles", [False, True])
def test_no_adversary_exceeds_the_bound(worlds, paid, epsilon, quantiles):
    """Of 2 or 3 questions, with every value told apart; a share takes 1 or 2 comparisons, a quantile 3 at most."""
    most = _most(SLOPE, paid, epsilon, 6 if quantiles else 3 * paid)
    worst = _worst(Game(Ladder, _plan(paid), SLOPE, worlds, quantiles=quantiles), 2 if quantiles else 3, epsilon)
    assert 0.01 * most < worst <= most
    assert most <= min(math.exp(one(SLOPE, GAP, paid, epsilon)) for one in (logistic_log_delta, race_log_delta))


@pytest.mark.parametrize("epsilon", [1.0, 2.0])
@pytest.mark.parametrize(("kind", "told"), [(Unretired, False), (Repeating, False), (Ladder, True)])
def test_broken_ladders_are_found(kind, told, epsilon):
    """A threshold that does not retire, a repeated question with fresh noise, the noisy count of a free answer."""
    assert _worst(Game(kind, _plan(1), SLOPE, ENDS, told=told), 3, epsilon) > _most(SLOPE, 1, epsilon, 3)


@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_counts_that_move_by_two_are_found(epsilon):
    """Two rows moved, which the proof does not allow."""
    game = Game(Ladder, _plan(1), SLOPE, ((1, 1, 2, 3, 4, 4), (5, 5, 2, 3, 4, 4)))
    assert _worst(game, 3, epsilon) > _most(SLOPE, 1, epsilon, 3)
