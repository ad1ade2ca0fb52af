"""Attacks on the predictors without armed sides: classical learners, OnlineBisection, tables, distributions, ensembles.

What both release, a hypothesis, may be known to everyone (`ClassicalTrainer`, `Bisection.hypothesis`), so the adversary
reads it instead of asking many queries. The hidden record is a training row, or of an ensemble a query; queries of the
classical learner leave nothing behind (`oracle.audit.structure`), and those of OnlineBisection are not protected.
"""

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.audit.games.distributions import hammer_thresholds, ladder_plan
from oracle.audit.games.ensembles import ATTACKS
from oracle.audit.games.game import Game
from oracle.audit.games.tables import (
    ask_at_thresholds,
    complete_plan,
    few_sparse_plan,
    marginal_plan,
    read_marginals,
    several_plan,
    sparse_plan,
    where_h_is_wrong,
)
from oracle.errors import PlanError
from oracle.mechanisms.grid import EDGES, number_at
from oracle.mechanisms.noise.laws import NoiseLaw, named_law
from oracle.planning.bisection.bound import critical_count
from oracle.planning.bisection.model import BisectionModel, BisectionPlan
from oracle.planning.bisection.tight import plan_bisection
from oracle.planning.classical.model import ClassicalModel, ClassicalPlan
from oracle.planning.classical.tight import plan_classical
from oracle.planning.model import Feature, Limits
from oracle.planning.plan import Plan
from oracle.predictors.bisection.predictor import Bisection
from oracle.predictors.bisection.window import new_learner

__all__ = ["LEARNERS", "Learner", "shadow_bits"]

Floats = NDArray[np.float64]

_DELTA: Final = 0.01
_RARE: Final = 0.04
"""Share of all edges that lie where only the hidden row makes them good: the rarer, the nearer to the claim."""

_BITS: Final = 4
"""Bits of a game of the `efficient` profile: each is a step of its own up to 15."""

_VOTES: Final = 1_500
"""Rounds of a game of the `paper` profile, which shrinks its cube after N_crit bits."""

_TAIL: Final = 1.2
"""Standard deviations of the count of votes that its threshold is away from the mean."""


class Learner(NamedTuple):
    """One predictor, and who attacks it.

    Attributes:
        name: Of the target, in reports.
        predictor: As in model files.
        adversary: What reports call it.
        delta: Claimed, of a training row.
        plan: Makes a plan for an epsilon; the planner has made every figure of it.
        play: Plays a game of such a plan and returns float64[k].
        record: What the hidden record is.
        others: The same adversary, aiming elsewhere.
    """

    name: str
    predictor: str
    adversary: str
    delta: float
    plan: Callable[[float], Plan]
    play: Callable[[Game[Any]], Floats]
    record: str = "training row"
    others: tuple[Callable[[Game[Any]], Floats], ...] = ()


@cache
def _classical_plan(
    epsilon: float,
    concept: Literal["box", "stump"],
    slicing: Literal["faces", "whole"],
    sides: Literal["lower", "both"],
) -> ClassicalPlan:
    model = ClassicalModel(
        name="audited",
        predictor="classical",
        epsilon=epsilon,
        examples=1,
        features=(Feature(name="a", sides=sides, bounds=(-1.0, 1.0)),),
        delta=_DELTA,
        alpha=0.5 if concept == "box" else 0.9,
        beta=0.5,
        gamma=1.0,
        limits=Limits(),
        concept=concept,
        slicing=slicing,
    )
    return plan_classical(model, lambda _: None)


_LEAST, _MOST = number_at(0), number_at(EDGES - 2)


def _place(share: float) -> float:
    """Return the number that so many of all edges lie below."""
    return number_at(int(share * (EDGES - 2)))


def _bounds(game: Game[ClassicalPlan]) -> tuple[float, float]:
    arrays = game.predictor.export()
    return float(arrays["lower"][0]), float(arrays["upper"][0])


def _learn_box(game: Game[ClassicalPlan], known: list[float], hidden: float) -> tuple[float, float]:
    """Train on positive rows, the last of which is hidden, and return the box's bounds."""
    game.train(np.array([*known, hidden]), np.ones(len(known) + 1, dtype=np.bool_), challenge=len(known))
    return _bounds(game)


def _one_side(game: Game[ClassicalPlan]) -> Floats:
    """One row more makes the few edges behind it lose less, and the many further in lose more.

    They lose 1 each without it: behind rank - 1 rows, and behind rank + 1.
    """
    known = [_LEAST] * (game.plan.rank - 1) + [_place(_RARE)] * 2
    lower, _ = _learn_box(game, known, _LEAST)
    return np.array([float(lower <= _place(_RARE))])


def _both_sides(game: Game[ClassicalPlan]) -> Floats:
    """The same on both sides at once: the hidden row is in the middle, and outermost but for rank - 1 on both.

    The upper side's edges are chosen among negated numbers, so it is the mirror image of the lower one's.
    """
    part = 2.0 * _RARE
    outer, inner, middle = _place(0.5 - part), _place(0.5 + part), _place(0.5)
    few = game.plan.rank - 3
    known = [_LEAST] * few + [outer] * 2 + [inner] * 2 + [_MOST] * few
    lower, upper = _learn_box(game, known, middle)
    good = [float(middle < lower <= inner), float(outer <= upper < middle)]
    return np.array([*good, sum(good), float(lower <= inner), float(upper >= outer)])


def _faces(game: Game[ClassicalPlan]) -> Floats:
    """A coin sends one row in ten to the other side, so losses cannot be set; but they are all the same.

    With more than `rank` rows outside of all edges, the hidden one makes those further in lose more; so half of
    epsilon can be seen.
    """
    rank = game.plan.rank
    known = [_LEAST] * math.ceil((rank + 2.0 + 0.8 * math.sqrt(rank)) / (1.0 - game.plan.coin / 2.0))
    lower, upper = _learn_box(game, known, _place(_RARE))
    return np.array([float(lower <= _place(_RARE)), float(math.isinf(upper))])


def _stump(game: Game[ClassicalPlan]) -> Floats:
    """All edges of the stump that says 1 above are right about the known rows; few are about the hidden one."""
    rest = game.plan.declared - 1
    labels = np.arange(rest) < rest // 2
    values = np.where(labels, _MOST, _LEAST)
    game.train(np.append(values, _place(_RARE)), np.append(labels, True), challenge=rest)
    lower, upper = _bounds(game)
    return np.array([float(math.isinf(upper) and lower <= _place(_RARE))])


def _bisection_plan(
    epsilon: float,
    profile: Literal["efficient", "paper"],
    noise: Literal["laplace", "gaussian"],
    rows: int,
    rounds: int,
) -> BisectionPlan:
    model = BisectionModel(
        name="audited",
        predictor="bisection",
        profile=profile,
        noise=noise,
        rounds=rounds,
        epsilon=epsilon,
        examples=rows,
        features=(Feature(name="a"),),
        delta=_DELTA * rows,
        alpha=0.5,
        beta=0.5,
        gamma=1.0,
        limits=Limits(),
    )
    return plan_bisection(model, lambda _: None)


@cache
def _few_bits(epsilon: float, noise: Literal["laplace", "gaussian"]) -> BisectionPlan:
    return _bisection_plan(epsilon, "efficient", noise, 1, _BITS)


@cache
def _one_vote(epsilon: float) -> BisectionPlan:
    """Return a plan with just enough rows for the first cut to come within its rounds."""
    rows = 16
    while rows < 4_096:  # noqa: PLR2004 -- more than any claim that is attacked takes
        plan = _bisection_plan(epsilon, "paper", "laplace", rows, _VOTES)
        if critical_count(_law(plan), 2.0, 1, _VOTES) <= 0.95 * _VOTES:
            return plan
        rows += max(rows // 16, 1)
    raise PlanError("audit: no plan of this epsilon cuts its cube")


def _law(plan: BisectionPlan) -> NoiseLaw:
    return named_law(plan.noise, plan.scale)


def shadow_bits(plan: BisectionPlan, predictor: Bisection) -> list[tuple[float, bool]]:
    """Ask the query 1 in every learning round, and return the threshold and the bit of each.

    A learner of the adversary's own is taught both bits; the one after which it knows what the predictor then knows
    was the bit.
    """
    mine, query = new_learner(plan), np.ones((1, 1))
    found: list[tuple[float, bool]] = []
    for _ in range(plan.phases[0].rounds):
        before, matching, thresholds = mine.export(), [], np.zeros(0)
        predictor.answer(query, np.ones(1, dtype=np.bool_))
        told = predictor.hypothesis()
        for bit in (False, True):
            mine.restore(before)

            def ask(_rows: NDArray[np.intp], asked: Floats, bit: bool = bit) -> NDArray[np.bool_]:  # noqa: FBT001
                nonlocal thresholds
                thresholds = asked
                return np.full(len(asked), bit)

            mine.learn(query, np.ones(1, dtype=np.bool_), ask)
            if np.array_equal(mine.hypothesis(), told):
                matching.append((bit, mine.export()))
        bit, after = matching[0]
        mine.restore(after)
        found.append((float(thresholds[0]), bit))
    return found


def _bits(game: Game[BisectionPlan]) -> Floats:
    """The bits follow from the hypotheses; they are as likely as the law says in either world."""
    game.train(np.ones(1), np.ones(1, dtype=np.bool_), challenge=0)
    if not isinstance(game.predictor, Bisection):
        raise PlanError("audit: the plan is not one of bisection")
    law, loss, ones = _law(game.plan), 0.0, 0
    for threshold, bit in shadow_bits(game.plan, game.predictor):
        absent, there = law.above(threshold), law.above(threshold - 1.0)
        loss += math.log(there / absent) if bit else math.log((1.0 - there) / (1.0 - absent))
        ones += bit
    return np.array([loss, float(ones)])


def _cut(game: Game[BisectionPlan]) -> Floats:
    """Known rows bring the vote about the first cut near its threshold, on the side of the hidden one."""
    law = _law(game.plan)
    spread = _TAIL / math.sqrt(critical_count(law, 2.0, 1, _VOTES)) / (2.0 * law.density)
    known = np.full(game.plan.declared - 1, min(spread, 1.0))
    game.train(np.append(known, 1.0), np.ones(game.plan.declared, dtype=np.bool_), challenge=len(known))
    answers = game.predictor.answer(np.ones((_VOTES, 1)), np.ones(_VOTES, dtype=np.bool_)).values
    seen = np.zeros(1) if answers is None else answers
    return np.array([float(seen[-1]), float(np.count_nonzero(seen == 0.0))])


_CLOSER: Final = tuple(partial(ask_at_thresholds, beyond=beyond) for beyond in (0.3,))

LEARNERS: Final = (
    Learner(
        "classical box, one side",
        "classical",
        "row at the edge",
        0.0,
        partial(_classical_plan, concept="box", slicing="whole", sides="lower"),
        _one_side,
    ),
    Learner(
        "classical box, whole",
        "classical",
        "row between two edges",
        0.0,
        partial(_classical_plan, concept="box", slicing="whole", sides="both"),
        _both_sides,
    ),
    Learner(
        "classical box, faces",
        "classical",
        "lone row",
        0.0,
        partial(_classical_plan, concept="box", slicing="faces", sides="both"),
        _faces,
    ),
    Learner(
        "classical stump",
        "classical",
        "row at the edge",
        0.0,
        partial(_classical_plan, concept="stump", slicing="whole", sides="both"),
        _stump,
    ),
    Learner("bisection, efficient", "bisection", "reader of bits", _DELTA, partial(_few_bits, noise="laplace"), _bits),
    Learner(
        "bisection, efficient, normal noise",
        "bisection",
        "reader of bits",
        _DELTA,
        partial(_few_bits, noise="gaussian"),
        _bits,
    ),
    Learner("bisection, paper", "bisection", "close vote", _DELTA, _one_vote, _cut),
    *(
        Learner(name, "sparse-vector", "question at its threshold", _DELTA, plan, ask_at_thresholds, others=_CLOSER)
        for name, plan in (("sparse vector, few", few_sparse_plan), ("sparse vector", sparse_plan))
    ),
    Learner("statistics", "statistics", "reader of marginals", _DELTA, marginal_plan, read_marginals),
    Learner("statistics, three attributes", "statistics", "reader of marginals", _DELTA, several_plan, read_marginals),
    Learner("statistics, complete", "statistics", "question at its threshold", _DELTA, complete_plan, where_h_is_wrong),
    Learner(
        "distribution",
        "distribution",
        "hammer at thresholds",
        _DELTA,
        ladder_plan,
        hammer_thresholds,
        others=(partial(hammer_thresholds, rare=2.5),),
    ),
    *(Learner("ensemble", "ensemble", one.name, _DELTA, one.plan, one.play, one.record) for one in ATTACKS),
)
"""Every shipped predictor without armed sides, in every profile but `paper` of statistics, and who attacks it."""
