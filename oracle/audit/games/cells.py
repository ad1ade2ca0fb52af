"""The matrix of attacks: each cell is one adversary against one target at one claim."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from oracle.audit.findings import Finding, finite
from oracle.audit.games.adversaries import ADVERSARIES, Adversary
from oracle.audit.games.game import Game
from oracle.audit.games.hammers import Aim
from oracle.audit.games.learners import LEARNERS, Learner
from oracle.audit.games.mechanisms import play_between, play_stopper
from oracle.audit.games.plans import TARGETS, between_instance, small_plan
from oracle.audit.games.policies import BetweenPolicy, StopperShape, between_policy, stopper_shapes
from oracle.audit.games.questions import QUESTIONERS, Questioner, play_questions, questioner
from oracle.audit.games.sequence import LADDER, Arm, Play, detection_limit, play_out
from oracle.audit.games.wealth import Wealth, ceiling, count_of
from oracle.audit.randomness import Randomness
from oracle.mechanisms.thresholds.stopper import Stopper
from oracle.planning.plan import BoxPlan, Plan

__all__ = ["Cell", "all_cells", "arms_of", "run_cell"]

_DELTA: Final = 0.01
_LEAST: Final = 64
_MEDIUMS: Final = 12
_AIM: Final = 0.6
"""The strategy is made for this part of the claimed epsilon: with so many games that proves most."""

_NOMINAL: Final = 0.06
"""Share of the games that claims with no proof are attacked in: theirs take longest."""

_BELIEVED: Final = (1.0, 2.0)
"""How many times less noise than is claimed a strategy against one mechanism is made for."""

_MOST_NATS: Final = 32.0
"""Nothing is planned for more."""

_THRESHOLD: Final = 20
_SHAPES: Final = 3

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Cell:
    """One attack.

    Attributes:
        level: What is attacked.
        target: Its name; of BetweenThresholds and of paid questions, the noise's law.
        adversary: Its name; of a Stopper, "count - rounds".
        epsilon: Claimed.
        delta: Claimed.
        games: Played in each world, at most.
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


def _predictor_cells(epsilons: Sequence[float], games: int) -> Iterator[Cell]:
    """Yield attacks on predictors with armed sides."""
    for target in TARGETS:
        count = max(int(_NOMINAL * games), _LEAST) if target.profile == "paper" else games
        for adversary in ADVERSARIES:
            for epsilon in epsilons:
                yield Cell("predictor", target.name, adversary, epsilon, _DELTA, count)


def _learner_cells(epsilons: Sequence[float], games: int) -> Iterator[Cell]:
    """Yield attacks on the predictors without armed sides, each by its adversary."""
    for learner in LEARNERS:
        for epsilon in epsilons:
            yield Cell("predictor", learner.name, learner.adversary, epsilon, learner.delta, games)


def all_cells(games: int, epsilons: Sequence[float]) -> list[Cell]:
    """Return the whole matrix.

    Args:
        games: Against each whole predictor, in each world, at most; single mechanisms get ten times as many.
        epsilons: Claims.
    """
    return [
        *_between_cells(epsilons, 10 * games),
        *_question_cells(epsilons, 10 * games),
        *_stopper_cells([epsilon for epsilon in epsilons if epsilon <= 4.0], 10 * games),  # noqa: PLR2004 -- see below
        # beyond 4 nats a Stopper's event is so rare that no number of games here would count any
        *_predictor_cells(epsilons, games),
        *_learner_cells(epsilons, games),
    ]


def run_cell(cell: Cell, seed: bytes, miss: float, *, limit: bool = True) -> Finding:
    """Play the games of a cell, bound its epsilon, and measure how much less noise it would have seen.

    Args:
        cell: Which.
        seed: Of the audit's randomness.
        miss: Probability of a false alarm.
        limit: False leaves the detection limit out.
    """
    started = time.process_time()
    nominal = any(one.name == cell.target and one.profile == "paper" for one in TARGETS)
    arms, wealth = arms_of(cell, seed), Wealth(cell.epsilon, cell.delta, miss)
    played = play_out(arms, wealth, cell.games)
    seen = None
    if limit and not nominal:
        seen = detection_limit(
            lambda more: arms_of(cell, seed, more),
            lambda part: Wealth(cell.epsilon, cell.delta, miss**part),
            cell.games,
            [one for one in LADDER if one * cell.epsilon <= _MOST_NATS],
        )
    best = wealth.best()
    estimate, highest = count_of(best.pairs, best.likelier, best.rarer, cell.delta, miss)
    return Finding(
        cell=cell.name,
        level=cell.level,
        target=cell.target,
        adversary=cell.adversary,
        record=_record(cell),
        epsilon=cell.epsilon,
        delta=cell.delta,
        nominal=nominal,
        games=played,
        aims=len(arms),
        aim=arms[best.source].name,
        likelier=best.likelier,
        rarer=best.rarer,
        lowest=wealth.lowest,
        estimate=finite(estimate),
        highest=finite(highest),
        ceiling=ceiling(cell.games, cell.delta, miss),
        limit=seen,
        miss=miss,
        seconds=time.process_time() - started,
    )


def _record(cell: Cell) -> str:
    if cell.level != "predictor":
        return "one medium" if cell.level == "stopper" else "training row"
    learner = _learner(cell)
    return ADVERSARIES[cell.adversary].record if learner is None else learner.record


def arms_of(cell: Cell, seed: bytes, more: float = 1.0) -> list[Arm]:
    """Return the aims of a cell's adversary, against what has so many times the claimed epsilon.

    It was planned for that, so it has about so many times less noise; the adversary knows the plan.
    """
    kinds = {"between-thresholds": _between_arms, "paid-questions": _question_arms, "stopper": _stopper_arms}
    arms = kinds.get(cell.level, _predictor_arms)(cell, cell.epsilon * more)

    def keyed(play: Callable[[Randomness, int, bool], Floats]) -> Play:
        return lambda purpose, games, world: play(Randomness(seed, f"{cell.name}|{more:g}|{purpose}"), games, world)

    return [Arm(name, keyed(play)) for name, play in arms]


_Arms = Iterator[tuple[str, Callable[[Randomness, int, bool], Floats]]]


def _between_arms(cell: Cell, epsilon: float) -> _Arms:
    """Yield the worst strategies against BetweenThresholds, were its noise as claimed, and were it less."""
    law: Literal["logistic", "discrete-laplace"] = "logistic" if cell.target == "logistic" else "discrete-laplace"
    instance = between_instance(law, epsilon, cell.delta, _MEDIUMS)
    for less in _BELIEVED:
        believed = replace(instance, scale=instance.scale * less)
        policy = between_policy(believed, _MEDIUMS, _AIM * cell.epsilon)

        def play(randomness: Randomness, games: int, world: bool, policy: BetweenPolicy = policy) -> Floats:  # noqa: FBT001
            return play_between(instance, policy, _MEDIUMS, games, randomness, present=world)

        yield f"noise over {less:g}", play


def _question_arms(cell: Cell, epsilon: float) -> _Arms:
    """Yield lists of paid questions that are rarely paid for, were the noise as claimed, and were it less."""
    for less in _BELIEVED:
        shape = questioner(cell.target, cell.adversary, epsilon, cell.delta, less)

        def play(randomness: Randomness, games: int, world: bool, shape: Questioner = shape) -> Floats:  # noqa: FBT001
            return play_questions(shape, games, randomness, present=world)

        yield f"noise over {less:g}", play


def _stopper_arms(cell: Cell, epsilon: float) -> _Arms:
    """Yield the one attack of the cell on a Stopper."""
    shapes = stopper_shapes(Stopper(cell.epsilon, _THRESHOLD), cell.games // 2)
    shape = next(shape for shape in shapes if _shape_name(shape) == cell.adversary)
    stopper = Stopper(epsilon, _THRESHOLD)
    yield (
        "count",
        lambda randomness, games, world: play_stopper(stopper, shape, games, randomness, present=world),
    )


def _predictor_arms(cell: Cell, epsilon: float) -> _Arms:
    """Yield an adversary's aims against a whole predictor."""
    learner = _learner(cell)
    if learner is not None:
        for number, play in enumerate((learner.play, *learner.others)):
            yield f"aim {number + 1}", _games(learner.plan(epsilon), play)
        return
    plan = small_plan(next(target for target in TARGETS if target.name == cell.target), epsilon, cell.delta)
    adversary = ADVERSARIES[cell.adversary]
    for aim in adversary.aims:
        yield aim, _games(plan, _aiming(adversary, aim))


def _aiming(adversary: Adversary, aim: Aim) -> Callable[[Game[BoxPlan]], Floats]:
    return lambda game: adversary.play(game, aim)


def _games(plan: Plan, play: Callable[[Game[Any]], Floats]) -> Callable[[Randomness, int, bool], Floats]:
    def views(randomness: Randomness, games: int, world: bool) -> Floats:  # noqa: FBT001 -- one of the two
        return np.array([play(Game(plan, randomness.secret(number), present=world)) for number in range(games)])

    return views


def _learner(cell: Cell) -> Learner | None:
    return next((one for one in LEARNERS if (one.name, one.adversary) == (cell.target, cell.adversary)), None)
