"""The matrix of attacks: each cell is one adversary against one target at one claim."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from oracle.audit.adversaries import ADVERSARIES
from oracle.audit.bounds import CHOOSING, ceiling, epsilon_bound, fewest
from oracle.audit.findings import Finding, finite
from oracle.audit.games import Game
from oracle.audit.learners import LEARNERS, Learner
from oracle.audit.mechanisms import play_between, play_stopper
from oracle.audit.plans import TARGETS, between_instance, small_plan
from oracle.audit.policies import BetweenPolicy, StopperShape, between_policy, stopper_shapes
from oracle.audit.questions import QUESTIONERS, play_questions, questioner
from oracle.audit.randomness import Randomness
from oracle.mechanisms.thresholds.paid import BetweenThresholds
from oracle.mechanisms.thresholds.stopper import Stopper
from oracle.planning.plan import Plan

__all__ = ["Cell", "all_cells", "between_views", "predictor_views", "question_views", "run_cell", "stopper_views"]

_DELTA: Final = 0.01
_LEAST: Final = 64
_MEDIUMS: Final = 12
_AIM: Final = 0.6
"""The strategy is made for this part of the claimed epsilon: with so many games that proves most."""

_STRONG: Final = frozenset({"edge hammer", "training row, extreme"})
"""Adversaries that come nearest to a claim about whole predictors with armed sides."""

_WEAK: Final = 0.2
"""Share of the games that other adversaries play, unless that is too few to refute the claim."""

_PARTS: Final = 1_000
"""Upper bound on the number of parts of an audit, among which `miss` is divided."""

_THRESHOLD: Final = 20
_SHAPES: Final = 3

Floats = NDArray[np.float64]
Views = tuple[Floats, Floats]
"""Without the record and with it: float64[games, k]."""


@dataclass(frozen=True)
class Cell:
    """One attack.

    Attributes:
        level: What is attacked.
        target: Its name; of BetweenThresholds and of paid questions, the noise's law.
        adversary: Its name; of a Stopper, "count - rounds".
        epsilon: Claimed.
        delta: Claimed.
        games: Played in each world, in all.
    """

    level: Literal["between-thresholds", "paid-questions", "stopper", "predictor"]
    target: str
    adversary: str
    epsilon: float
    delta: float
    games: int

    @property
    def name(self) -> str:
        """Its unique name."""
        return f"{self.level}|{self.target}|{self.adversary}|{self.epsilon!r}|{self.delta:g}|{self.games}"


def _between_cells(epsilons: Sequence[float], games: int) -> Iterator[Cell]:
    """Yield attacks on BetweenThresholds: both laws, by the exact worst strategy."""
    for law in ("logistic", "discrete-laplace"):
        for epsilon in epsilons:
            yield Cell("between-thresholds", law, "dynamic program", epsilon, _DELTA, games)


def _question_cells(epsilons: Sequence[float], games: int) -> Iterator[Cell]:
    """Yield attacks on paid questions, of each law."""
    for law, strategy in QUESTIONERS:
        for epsilon in epsilons:
            yield Cell("paid-questions", law, strategy, epsilon, 0.0 if law == "exponential" else _DELTA, games)


def _stopper_cells(epsilons: Sequence[float], games: int) -> Iterator[Cell]:
    """Yield attacks on the Stopper: the strongest by its exact law, and one that asks very often."""
    for epsilon in epsilons:
        shapes = stopper_shapes(Stopper(epsilon, _THRESHOLD), games // 2)
        longest = max(shapes, key=lambda shape: (shape.rounds, shape.count))
        for shape in dict.fromkeys([*shapes[:_SHAPES], longest]):
            yield Cell("stopper", "discrete-laplace", _shape_name(shape), epsilon, 0.0, games)


def _shape_name(shape: StopperShape) -> str:
    return f"{shape.count} of {_THRESHOLD} mediums held for {shape.rounds} rounds"


def _predictor_cells(epsilons: Sequence[float], games: int, miss: float) -> Iterator[Cell]:
    """Yield attacks on predictors with armed sides; weaker adversaries play fewer games, if these can refute at all."""
    for target in TARGETS:
        for adversary in ADVERSARIES:
            for epsilon in epsilons:
                count = games if adversary in _STRONG else _enough(games, _WEAK, epsilon, _DELTA, miss)
                if target.profile == "paper":  # a nominal claim is not one to refute, and its games take longest
                    count = max(int(games * (0.1 if adversary in _STRONG else 0.1 * _WEAK)), _LEAST)
                yield Cell("predictor", target.name, adversary, epsilon, _DELTA, count)


def _enough(games: int, share: float, epsilon: float, delta: float, miss: float) -> int:
    """Return a part of the games, or as many more as it takes to refute a claim of something with no privacy.

    With fewer, an attack would say nothing of the claim, whatever it saw.
    """
    counted = fewest(epsilon, delta, miss / _PARTS)
    wanted = math.ceil(counted * CHOOSING / (CHOOSING - 1)) + 1
    return max(int(games * share), min(games, wanted), _LEAST)


def _learner_cells(epsilons: Sequence[float], games: int, miss: float) -> Iterator[Cell]:
    """Yield attacks on the predictors without armed sides, each by its adversary."""
    for learner in LEARNERS:
        share = 0.4 if learner.adversary == "reader of bits" else 1.0  # it takes two learners along in every round
        share = _WEAK if learner.predictor == "ensemble" else share  # whose teachers are fitted in every game
        for epsilon in epsilons:
            count = _enough(games, share, epsilon, learner.delta, miss)
            yield Cell("predictor", learner.name, learner.adversary, epsilon, learner.delta, count)


def all_cells(games: int, epsilons: Sequence[float], miss: float) -> list[Cell]:
    """Return the whole matrix.

    Args:
        games: Against each whole predictor, in each world; single mechanisms get ten times as many.
        epsilons: Claims.
        miss: Probability that any of them may be refuted by chance.
    """
    return [
        *_between_cells(epsilons, 10 * games),
        *_question_cells(epsilons, 10 * games),
        *_stopper_cells([epsilon for epsilon in epsilons if epsilon <= 4.0], 10 * games),  # noqa: PLR2004 -- see below
        # beyond 4 nats a Stopper's event is so rare that no number of games here would count any
        *_predictor_cells(epsilons, games, miss),
        *_learner_cells(epsilons, games, miss),
    ]


def run_cell(cell: Cell, seed: bytes, miss: float) -> Finding:
    """Play all games of a cell and bound its epsilon.

    Args:
        cell: Which.
        seed: Of the audit's randomness.
        miss: Probability of a false alarm.
    """
    started = time.process_time()
    randomness = [Randomness(seed, f"{cell.name}|{world}") for world in (0, 1)]
    record = "training row"
    if cell.level == "between-thresholds":
        absent, present = between_views(cell, randomness)
    elif cell.level == "paid-questions":
        absent, present = question_views(cell, randomness)
    elif cell.level == "stopper":
        absent, present = stopper_views(cell, randomness)
        record = "one medium"
    else:
        absent, present = predictor_views(cell, randomness)
        learner = _learner(cell)
        record = ADVERSARIES[cell.adversary].record if learner is None else learner.record
    bound = epsilon_bound(absent, present, cell.delta, miss)
    return Finding(
        cell=cell.name,
        level=cell.level,
        target=cell.target,
        adversary=cell.adversary,
        record=record,
        epsilon=cell.epsilon,
        delta=cell.delta,
        nominal=any(one.name == cell.target and one.profile == "paper" for one in TARGETS),
        games=bound.games,
        likelier=bound.likelier,
        rarer=bound.rarer,
        lowest=bound.lowest,
        estimate=finite(bound.estimate),
        highest=finite(bound.highest),
        ceiling=ceiling(bound.games, cell.delta, miss),
        miss=miss,
        seconds=time.process_time() - started,
    )


def _steered(cell: Cell) -> tuple[BetweenThresholds, BetweenPolicy]:
    law: Literal["logistic", "discrete-laplace"] = "logistic" if cell.target == "logistic" else "discrete-laplace"
    instance = between_instance(law, cell.epsilon, cell.delta, _MEDIUMS)
    return instance, between_policy(instance, _MEDIUMS, _AIM * cell.epsilon)


def between_views(cell: Cell, randomness: list[Randomness]) -> Views:
    """Return what the worst strategy saw of BetweenThresholds, in either world."""
    instance, policy = _steered(cell)
    return _both(lambda world: play_between(instance, policy, _MEDIUMS, cell.games, randomness[world], present=world))


def question_views(cell: Cell, randomness: list[Randomness]) -> Views:
    """Return what was seen of paid questions, in either world."""
    shape = questioner(cell.target, cell.adversary, cell.epsilon, cell.delta)
    return _both(lambda world: play_questions(shape, cell.games, randomness[world], present=world))


def stopper_views(cell: Cell, randomness: list[Randomness]) -> Views:
    """Return when a Stopper halted, in either world."""
    stopper = Stopper(cell.epsilon, _THRESHOLD)
    shape = next(shape for shape in stopper_shapes(stopper, cell.games // 2) if _shape_name(shape) == cell.adversary)
    return _both(lambda world: play_stopper(stopper, shape, cell.games, randomness[world], present=world))


def predictor_views(cell: Cell, randomness: list[Randomness]) -> Views:
    """Return what an adversary saw of a whole predictor, in either world."""
    plan, play = _attack(cell)
    return _both(
        lambda world: np.array(
            [play(Game(plan, randomness[world].secret(number), present=world)) for number in range(cell.games)]
        )
    )


def _attack(cell: Cell) -> tuple[Plan, Callable[[Game[Any]], Floats]]:
    """Return the plan that is attacked, and the adversary."""
    learner = _learner(cell)
    if learner is not None:
        return learner.plan(cell.epsilon), learner.play
    target = next(target for target in TARGETS if target.name == cell.target)
    return small_plan(target, cell.epsilon, cell.delta), ADVERSARIES[cell.adversary].play


def _learner(cell: Cell) -> Learner | None:
    return next((one for one in LEARNERS if (one.name, one.adversary) == (cell.target, cell.adversary)), None)


def _both(play: Callable[[bool], Floats]) -> Views:
    return play(False), play(True)  # noqa: FBT003 -- the worlds
