"""The sizes of one phase of an ensemble: slope, zone, paid questions, Stopper (PRIVACY.md, Estimate 28).

Privacy rests on none of this: whatever comes out is handed to the accountant. What is worked out here is how much noise
the guarantee takes, and how many answers that noise changes, if queries are as contested as declared.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import scipy  # which loads its parts when they are asked for

from oracle.accounting.between_thresholds import SIDES_REACH
from oracle.accounting.stopper import cap_slack, early_slack
from oracle.errors import PlanError
from oracle.planning.ensemble.model import EnsembleModel, EnsemblePlan
from oracle.planning.sizes import CAP_SHARE, MANY, NOISE_SHARE, largest_scale

__all__ = [
    "LATER",
    "UNANIMOUS",
    "Crowd",
    "Need",
    "Sized",
    "Terms",
    "changed",
    "contested_by",
    "crowd_of",
    "least_threshold",
    "most_changed",
    "most_paid",
    "paid_rate",
    "questions_of",
    "size_life",
    "terms_of",
    "unanimous",
    "widest_noise",
]

_ZONES: Final = (0.3, 0.5, 1.0, 2.0)
"""g e (nats) that are tried: narrow zones pay for fewer honest answers, wide ones less for each that anybody buys."""


_SMALLEST: Final = 1e-4
"""Slope (nats a vote) below which no plan is made: its noise table would have more than a million edges."""

LATER: Final = 1.0 / 3.0
"""How contested later lives are taken to be beside the first, when they are sized: teachers fitted to one ensemble's
labels agree. On flights and census income paid answers fell to a sixth; on others they may rise. What a plan bears is
more (`Terms.later`), and is measured by `perpetua evaluate`."""

_HALVINGS: Final = 30
"""Steps in which the most contested queries are looked for."""

UNANIMOUS: Final = 0.04
"""Part of alpha that queries may lose which all teachers of the first life agree about."""

_WIDTH: Final = 10.0
"""`contested` is the share of queries within a twentieth of the teachers, either way: so many times less than all."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """Who votes, and who asks.

    Attributes:
        teachers: T.
        contested: As declared.
        gamma: Share of the stream that is honest; anything else is paid for.
        questions: P, paid questions of one query at most.
    """

    teachers: int
    contested: float
    gamma: float
    questions: int


@dataclass(frozen=True, slots=True)
class Need:
    """What a life's records are guaranteed, and how long it is to last.

    Attributes:
        epsilon: Of a record (nats).
        rho: Of what else is released of it: noisy counts, within the same epsilon.
        stopper: eps_S.
        delta: Of a record of the phase.
        rounds: Rounds that the paid answers are to last.
        beta: Probability that they do not, if queries are as contested as declared.
    """

    epsilon: float
    rho: float
    stopper: float
    delta: float
    rounds: int
    beta: float


@dataclass(frozen=True, slots=True)
class Sized:
    """A life in numbers: e, g, the Stopper's threshold k and cap."""

    slope: float
    gap: int
    threshold: int
    cap: int


@dataclass(frozen=True, slots=True)
class Terms:
    """What a plan makes of votes, and how contested it takes queries to be for that.

    Attributes:
        first: e T of the first life.
        least: The least e T of later ones.
        changed: Share of the answers to honest queries that noise changes, at most.
        contested: As declared, of the first life.
        later: Of later ones at most, for `changed` to hold and for none to rest.
    """

    first: float
    least: float
    changed: float
    contested: float
    later: float

    @classmethod
    def made_of(cls, crowds: tuple[Crowd, Crowd], lives: Sequence[Sized], rounds: int, beta: float) -> "Terms":
        """Work them out.

        Args:
            crowds: Of the first life, and of later ones as they are sized.
            lives: The sizes of all, the first one's first.
            rounds: That a life lasts without a rest.
            beta: Probability that a life does not.
        """
        first, others = lives[0], lives[1:]
        least = min(life.slope for life in others)
        changes = max(changed(crowds[0], first.slope), changed(crowds[1], least))
        most = contested_by(least * crowds[1].teachers, changes, crowds[1].questions)
        later = _most_contested(crowds[1], others, rounds, beta, min(most, 1.0))
        return cls(first.slope * crowds[0].teachers, least * crowds[1].teachers, changes, crowds[0].contested, later)


def _most_contested(crowd: Crowd, lives: Sequence[Sized], rounds: int, beta: float, most: float) -> float:
    """Return how contested a crowd may be, up to a bound, for no life to be over before so many rounds."""

    def lasts(contested: float) -> bool:
        crowded = replace(crowd, contested=contested)
        return all(most_paid(crowded, life.gap, rounds, beta) <= life.threshold for life in lives)

    if lasts(most):
        return most
    low, high = 0.0, most
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if lasts(middle) else (low, middle)
    return low


def terms_of(plan: EnsemblePlan) -> Terms:
    """Return what a plan rests on."""
    lives = [Sized(one.slope, one.gap, one.stopper.threshold, one.stopper.cap) for one in plan.phases]
    crowds = crowd_of(plan, plan.teachers, first=True), crowd_of(plan, plan.teachers, first=False)
    rounds = max(one.least_rounds for one in plan.phases)
    return Terms.made_of(crowds, lives, rounds, plan.beta / len(plan.phases))


def questions_of(of: EnsembleModel | EnsemblePlan) -> int:
    """Return P, how many questions one query may be paid for."""
    return min(2, len(of.classes) - 1)


def crowd_of(of: EnsembleModel | EnsemblePlan, teachers: int, *, first: bool) -> Crowd:
    """Return who votes in the first life, or in later ones."""
    return Crowd(teachers, of.contested if first else LATER * of.contested, of.gamma, questions_of(of))


def paid_rate(crowd: Crowd, gap: int) -> float:
    """Return the share of all queries that is paid for, by the estimate.

    An honest query is paid for where its votes and the noise fall into the g + 1 counts of a zone. Votes are taken to
    be spread evenly about a threshold, so noise moves as many in as out.
    """
    honest = min(_WIDTH * crowd.contested * (gap + 1) / crowd.teachers, 1.0)
    return crowd.gamma * honest + (1.0 - crowd.gamma)


def changed(crowd: Crowd, slope: float) -> float:
    """Return the share of honest queries whose answer noise changes, by the estimate.

    Votes spread evenly about a threshold are on its other side with the noise for 2 ln 2/e counts; those of teachers
    who all agree with probability exp(-e T/2) for each question, with the threshold in the middle.
    """
    near = _WIDTH * crowd.contested * 2.0 * math.log(2.0) / (slope * crowd.teachers)
    return near + unanimous(crowd, slope)


def unanimous(crowd: Crowd, slope: float) -> float:
    """Return the chance that noise changes one answer that all teachers agree about, thresholds in the middle."""
    return crowd.questions * math.exp(-0.5 * slope * crowd.teachers)


def least_threshold(alpha: float, share: float, noise: float) -> float:
    """Return how near to 0 or 1 a class's threshold may be steered, as a share of the teachers; 1/2 at most.

    There noise changes at most alpha times the class's share of the answers that all teachers agree about.

    Args:
        alpha: Of the model.
        share: Of the class.
        noise: e T, the slope times the teachers.
    """
    return min(-math.log(alpha * share) / noise, 0.5)


def widest_noise(alpha: float, questions: int) -> float:
    """Return e T of a first life that bears as much noise as any may, for what all its teachers agree about."""
    return 2.0 * math.log(questions / (UNANIMOUS * alpha))


def contested_by(noise: float, changes: float, questions: int) -> float:
    """Return how contested queries are that noise changes so many answers of, by the estimate of `changed`.

    Args:
        noise: e T, the slope times the teachers.
        changes: Share of the answers.
        questions: P.
    """
    crowd = Crowd(1, 1.0, 1.0, questions)
    agreed = unanimous(crowd, noise)
    return max((changes - agreed) / (changed(crowd, noise) - agreed), 0.0)


def most_changed(plan: EnsemblePlan) -> float:
    """Return the share of honest queries whose answer noise changes, in the phase where it is largest."""
    slopes = [phase.slope for phase in plan.phases]
    first = changed(crowd_of(plan, plan.teachers, first=True), slopes[0])
    return max(first, changed(crowd_of(plan, plan.teachers, first=False), min(slopes[1:])))


def size_life(crowd: Crowd, need: Need) -> Sized:
    """Return the sizes with the least noise, over the zones that are tried.

    Raises:
        PlanError: The noise would be wider than its tables can be.
    """
    sized = max((_sized(crowd, need, zone) for zone in _ZONES), key=lambda one: one.slope)
    if sized.slope < _SMALLEST:
        raise PlanError(f"model.epsilon = {need.epsilon!r}: too small; the noise would be wider than its tables can be")
    return sized


def _sized(crowd: Crowd, need: Need, zone: float) -> Sized:
    over = cap_slack(need.stopper, math.log(need.delta * CAP_SHARE), MANY) + 1  # of one query more: Theorem 29 (d)
    early = early_slack(need.stopper, need.rounds, need.beta / 2.0)

    def gap(slope: float) -> int:
        return max(math.ceil(zone / slope), 1)

    def threshold(slope: float) -> int:
        return most_paid(crowd, gap(slope), need.rounds, need.beta) + early

    def paid(slope: float) -> int:
        return crowd.questions * (threshold(slope) + over)

    log_delta = math.log(need.delta * (1.0 - NOISE_SHARE)) - 1e-6
    slope = largest_scale("logistic", gap, paid, need.epsilon * (1.0 - 1e-12), log_delta, rho=need.rho)
    slope = _within_reach(slope, crowd.teachers, gap)
    return Sized(slope, gap(slope), threshold(slope), threshold(slope) + over)


def _within_reach(slope: float, teachers: int, gap: Callable[[float], int]) -> float:
    """Return a slope for which every answer dwarfs its table's distance (Lemma 27); more noise than that is none."""
    while slope * (teachers + gap(slope) + 3) > SIDES_REACH:
        slope = 0.999 * min(slope, SIDES_REACH / (teachers + gap(slope) + 3))
    return slope


@lru_cache(maxsize=1 << 14)
def most_paid(crowd: Crowd, gap: int, rounds: int, beta: float) -> int:
    """Return a number of paid queries, at least 1, that rounds pass with probability at most half of beta."""
    return max(int(scipy.stats.binom.isf(beta / 2.0, rounds, min(paid_rate(crowd, gap), 1.0))), 1)
