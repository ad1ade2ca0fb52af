"""Attacks on ensembles: small plans that are proved, and adversaries of both kinds of record.

Who audits private prediction differs in what it may poison and what it may ask (Chadha, Jagielski, Papernot,
Choquette-Choo and Nasr, 2024, arXiv 2402.09403, of PATE and others). Three of them are played against a training row,
and three against a query; each chooses the hidden record:

    natural queries:   all other rows and queries are drawn from a law; it looks at the labels that it is given.
    adaptive queries:  all other rows are drawn from it; what is asked, and when, it chooses by what it has seen.
    poisoned data:     it chooses all other rows and queries.

Its view is what leaves the daemon: labels, when lives end, and noisy counts. The key, and so who teaches what, it has
not. Its best guess of what was paid for is when the life ends.
"""

import math
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from typing import Final, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from oracle.accounting.stopper import cap_slack, log_overflow
from oracle.audit.games.game import Game
from oracle.planning.ensemble.guarantees import table_delta
from oracle.planning.ensemble.memory import phase_bytes
from oracle.planning.ensemble.model import ControlPlan, EnsemblePhase, EnsemblePlan
from oracle.planning.ensemble.sizes import most_changed
from oracle.planning.model import Feature, Limits
from oracle.planning.plan import StopperPlan
from oracle.planning.planner import verify_plan
from oracle.planning.sizes import largest_scale
from oracle.predictors.base import NO_LABEL

__all__ = ["ATTACKS", "Attack", "counted_plan", "declared_plan"]

Floats = NDArray[np.float64]

_DELTA: Final = 0.01
_PUBLIC: Final = 0.03
"""Part of epsilon that noisy counts take, as the planner's."""

_CAP: Final = 0.25
_TABLES: Final = 0.02
_ZONE: Final = 0.3
"""Nats of the zone: the narrowest that tables allow pays for the fewest answers."""

_FEW, _MANY = 6, 12
"""Teachers: that all have to be fitted in every game, or of which next to none do."""

_KEPT: Final = 64

_ROWS: Final = 12
"""Rows of a teacher."""

_THRESHOLD: Final = 6


def _phase(number: int, rounds: int, epsilon: float) -> EnsemblePhase:
    """Size a phase with nearly the least noise that the accountant passes; when a life ends, the phase rests."""
    public = _PUBLIC * epsilon
    stopper = (epsilon - public) * (1.0 - 1e-12)
    cap = _THRESHOLD + cap_slack(stopper, math.log(_CAP * _DELTA), 1_000_000) + 1

    def gap(slope: float) -> int:
        return max(math.ceil(_ZONE / slope), 1)

    left = math.log((1.0 - _CAP - _TABLES) * _DELTA)
    slope = largest_scale("logistic", gap, lambda _: cap, epsilon * (1.0 - 1e-12), left, rho=public * public)
    return EnsemblePhase(
        phase=number,
        rounds=rounds,
        delta=_DELTA,
        delta_noise=0.0,
        slope=slope,
        gap=gap(slope),
        paid=cap,
        stopper=StopperPlan(
            epsilon=stopper,
            threshold=_THRESHOLD,
            cap=cap,
            delta_cap=math.exp(log_overflow(stopper, _THRESHOLD, cap - 1)) * (1.0 + 1e-9),
        ),
        least_rounds=rounds - 1,
        kept_rows=_KEPT,
        keep=1.0,
        lag=1,
        memory_bytes=0,
    )


def _plan(
    epsilon: float, teachers: int, phases: tuple[EnsemblePhase, ...], shares: tuple[float, ...] | None
) -> EnsemblePlan:
    """Return a plan of such phases, of which every figure is proved."""
    declared = _ROWS * teachers
    spent = _DELTA * (declared + sum(phase.rounds for phase in phases))
    plan = EnsemblePlan(
        name="audited",
        predictor="ensemble",
        profile="tight",
        learner="sklearn.tree.DecisionTreeClassifier",
        parameters={"max_depth": 2},
        preprocessing=(),
        features=(Feature(name="a"),),
        classes=(0, 1),
        shares=UNSET if shares is None else shares,
        teachers=teachers,
        teacher_rows=_ROWS,
        contested=1e-6,
        questions=1,
        epsilon=epsilon,
        delta=math.nextafter(spent * (1.0 + 1e-12), math.inf),
        alpha=1.0,
        beta=0.5,
        gamma=1.0,
        examples=declared,
        declared=declared,
        share_slope=UNSET if shares is not None else _PUBLIC * epsilon,
        control=ControlPlan(block_rounds=64, epsilon=_PUBLIC * epsilon, gain=0.1, leak=0.05),
        changed=0.0,
        limits=Limits(),
        phases=phases,
        memory_bytes=0,
    )
    phases = tuple(
        msgspec.structs.replace(phase, delta_noise=table_delta(plan, index), memory_bytes=phase_bytes(plan, index))
        for index, phase in enumerate(phases)
    )
    changed, memory = most_changed(plan), max(phase.memory_bytes for phase in phases)
    plan = msgspec.structs.replace(plan, phases=phases, changed=changed, alpha=changed, memory_bytes=memory)
    verify_plan(plan)
    return plan


@cache
def counted_plan(epsilon: float, teachers: int = _FEW) -> EnsemblePlan:
    """Return a plan whose shares are counted, and whose first life may be long."""
    first = _phase(1, 1_200, epsilon)
    return _plan(epsilon, teachers, (first, msgspec.structs.replace(first, phase=2)), None)


@cache
def declared_plan(epsilon: float, teachers: int = _FEW) -> EnsemblePlan:
    """Return a plan whose shares are declared, and whose first phase is short."""
    first = _phase(1, 40, epsilon)
    return _plan(epsilon, teachers, (first, _phase(2, 1_600, epsilon)), (0.6, 0.4))


_PART: Final = 32
_ALONE: Final = 2.0
"""Where only the hidden record is, if others are in [0, 1]."""

_SCANNED: Final = (0.0, 0.04)
_SCANS: Final = 4
_NATURAL: Final = 128
"""Natural queries of a game, at most."""

_NEAR: Final = (0.05, 0.2, 1.0)


def _spread(count: int) -> Floats:
    """Return numbers that are spread over [0, 1) as draws are, but evenly."""
    return np.asarray(np.arange(1, count + 1) * 0.618033988749895 % 1.0)


def _lived(game: Game[EnsemblePlan], start: int, labels: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return the labels, from a round on, of the life that went on then."""
    end = game.rearmed_after(start + 1)
    seen = labels if end is None else labels[: end - start]
    return seen[: int(np.argmax(seen == NO_LABEL))] if NO_LABEL in seen else seen


def _until_halt(game: Game[EnsemblePlan], value: float, most: int) -> Floats:
    """Ask one query until the life ends; return ones, zeros, what they say of a vote more, and rounds."""
    start, asked = game.round, np.empty(0, dtype=np.int8)
    while len(asked) < most and len(_lived(game, start, asked)) == len(asked):
        asked = np.append(asked, game.ask(np.full(min(_PART, most - len(asked)), value)))
    seen = _lived(game, start, asked)
    ones, zeros = float(np.count_nonzero(seen == 1)), float(np.count_nonzero(seen == 0))
    return np.array([ones, zeros, ones - zeros * _odds(game.plan), float(len(seen))])


def _odds(plan: EnsemblePlan) -> float:
    """Return how much a zero tells beside a one, where no teacher but one may vote 1, thresholds in the middle."""
    return math.exp(-plan.phases[0].slope * (plan.teachers // 2 + 0.5))


def _watch(game: Game[EnsemblePlan], place: float) -> Floats:
    """Let natural queries come, and return the share of ones among those near a place, and when the life ended."""
    queries, start, asked = _spread(_NATURAL), game.round, np.empty(0, dtype=np.int8)
    for part in np.split(queries, _NATURAL // _PART):
        asked = np.append(asked, game.ask(part))
        if len(_lived(game, start, asked)) < len(asked):
            break
    seen = _lived(game, start, asked)
    distance = np.abs(queries[: len(seen)] - place)
    shares = [float((seen[distance <= near] == 1).sum()) / max(int((distance <= near).sum()), 1) for near in _NEAR]
    return np.array([*shares, float(len(seen))])


def _train(game: Game[EnsemblePlan], hidden: tuple[float, int] | None) -> None:
    """Train on natural rows, of class 1 in the upper half, and the hidden one, if it is a row."""
    values = _spread(game.plan.declared - (hidden is not None))
    labels = (values > 0.5).astype(np.int8)  # noqa: PLR2004 -- as said
    if hidden is not None:
        values, labels = np.append(values, hidden[0]), np.append(labels, np.int8(hidden[1]))
    game.train(values, labels, challenge=None if hidden is None else len(values) - 1)


def _natural_row(game: Game[EnsemblePlan]) -> Floats:
    """The hidden row is the lowest one, and mislabelled."""
    _train(game, (0.0, 1))
    return np.append(_watch(game, 0.0), game.shares)


def _adaptive_row(game: Game[EnsemblePlan]) -> Floats:
    """The same; asked is where most of a few places' first answers were those of the hidden row."""
    _train(game, (0.0, 1))
    found = game.ask(np.tile(_SCANNED, _SCANS)).reshape(_SCANS, -1) == 1
    best = int(found.sum(axis=0).argmax())
    view = _until_halt(game, _SCANNED[best], game.plan.phases[0].rounds - len(_SCANNED) * _SCANS - 2)
    return np.concatenate([view, [float(found.sum())], game.shares])


def _poisoned_row(game: Game[EnsemblePlan]) -> Floats:
    """All known rows are in one place and of one class; the hidden one is far off, of the other: one vote, or none."""
    values = np.append(np.zeros(game.plan.declared - 1), _ALONE)
    game.train(values, (values == _ALONE).astype(np.int8), challenge=len(values) - 1)
    view = _until_halt(game, _ALONE, game.plan.phases[0].rounds - 2)
    return np.append(view, game.shares)


def _natural_query(game: Game[EnsemblePlan]) -> Floats:
    """The hidden query is the highest one; it is one of many rows of the next life."""
    _train(game, None)
    game.challenge(1.0)
    game.ask(_spread(game.plan.phases[0].rounds - 1))
    return _watch(game, 1.0)


def _adaptive_query(game: Game[EnsemblePlan]) -> Floats:
    """The hidden query is the only one of its phase that natural teachers label 1."""
    _train(game, None)
    game.challenge(1.0)
    others = game.ask(np.zeros(game.plan.phases[0].rounds - 1))
    view = _until_halt(game, 1.0, game.plan.phases[1].rounds - 2)
    return np.append(view, float(np.count_nonzero(others == 1)))


def _poisoned_query(game: Game[EnsemblePlan]) -> Floats:
    """All known rows say 1, and no other query is asked in the phase: the next life has one teacher, or none."""
    plan = game.plan
    game.train(np.zeros(plan.declared), np.ones(plan.declared, dtype=np.int8))
    game.challenge(_ALONE)
    game.skip(plan.phases[0].rounds - 1)
    return _until_halt(game, _ALONE, plan.phases[1].rounds - 2)


def _contested_query(game: Game[EnsemblePlan]) -> Floats:
    """The hidden query is where teachers disagree, and so are all others: it is one paid query more, or none."""
    _train(game, None)
    game.challenge(0.5)
    return _until_halt(game, 0.5, game.plan.phases[0].rounds - 2)


class Attack(NamedTuple):
    """One adversary.

    Attributes:
        name: What reports call it.
        record: What the hidden record is.
        plan: What is attacked.
        play: Plays a game and returns float64[k].
    """

    name: str
    record: str
    plan: Callable[[float], EnsemblePlan]
    play: Callable[[Game[EnsemblePlan]], Floats]


_ALL: Final = (
    Attack("natural queries, training row", "training row", counted_plan, _natural_row),
    Attack("adaptive queries, training row", "training row", counted_plan, _adaptive_row),
    Attack("poisoned data, training row", "training row", partial(counted_plan, teachers=_MANY), _poisoned_row),
    Attack("natural queries, free query", "query, free", declared_plan, _natural_query),
    Attack("adaptive queries, free query", "query, free", declared_plan, _adaptive_query),
    Attack("poisoned data, free query", "query, free", partial(declared_plan, teachers=_MANY), _poisoned_query),
    Attack("adaptive queries, paid query", "query, paid", counted_plan, _contested_query),
)

ATTACKS: Final = _ALL if find_spec("sklearn") else ()
"""All of them; none where there is no scikit-learn, as then there is no ensemble."""
