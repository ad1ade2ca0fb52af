"""A trial's score with noise, for all to see, and what that costs."""

import math
import secrets
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.accounting.ledger import ScoreReleased
from oracle.errors import InputError, RefusedError
from oracle.evaluation.trial import Trial
from oracle.mechanisms.choice.exponential import BitSource
from oracle.mechanisms.noise.exact import discrete_laplace
from oracle.planning.plan import Plan

__all__ = ["Cost", "check_release", "cost_of", "noise_reach", "release"]

_LEAST, _MOST = 1e-3, 50.0
_MISSED = 0.05
_TRIAL_BYTES = 16


class Cost(NamedTuple):
    """What a released score costs, beyond all that a state of the model costs.

    Formal guarantees:
        What is released is C + Z: C counts the wrong answers of a trial under a key that is thrown away, in which each
        of T test rows is asked once, and Z is exact discrete Laplace noise of inverse scale e (`discrete_laplace`).
        T is public. Neighbours: a training row is there or blanked; a test row is there, or its round has no query and
        counts as right. All other rows may be known.

        * *A training row pays (epsilon, delta_1), those of the plan.* The trial is a run of the model like any other:
          its answers are (epsilon, delta_1)-DP for a training row. C + Z follows from the answers, the test rows and
          Z, none of which depends on the row otherwise. So e is not added. Nor does Z make it less: a training row may
          change any number of answers.
        * *A test row pays (epsilon + e, delta_p)*, p the phase that answers it. Let V be all answers but its own: the
          plan makes V (epsilon, delta_p)-DP for it, V' being V without it. Given V = v, C is c(v), what the others get
          wrong, or c(v) + 1, whichever its own answer makes it; without it, C is c(v). So for any set O and any v,
          k(v) = P(C + Z in O | v) is at most min(1, e^e k'(v)), k' being that without the row: C's law given v is a
          mixture of two that are both so. This bound is a function of v with values in [0, 1], so P(C + Z in O) <=
          E[min(1, e^e k'(V))] <= e^epsilon E[min(1, e^e k'(V'))] + delta_p <= e^(epsilon + e) P(C' + Z in O) + delta_p.
          The other direction is the same.
        * *Where everything was released* by the training (`Plan.released`), other answers do not depend on a test row:
          V = V', and it pays (e, 0).
        * delta_p is at most delta_1. A row in both files is a record of each and pays both.

        Whoever looks at a score before deciding to release it chooses by the rows. So the cost is agreed to before the
        trial, which has a fresh key.

    Attributes:
        training: Epsilon of a training row (nats).
        test: Epsilon of a test row (nats).
        delta: Largest delta of either.
    """

    training: float
    test: float
    delta: float


class _System:
    """The system's random bits."""

    def take(self, count: int) -> int:
        return secrets.randbits(count)


def cost_of(plan: Plan, epsilon: float) -> Cost:
    """Return what a released score costs, computed from public facts only.

    Args:
        plan: Of the trial.
        epsilon: Inverse scale of the score's noise.

    Raises:
        InputError: Epsilon is out of range.
        RefusedError: The plan's own epsilon is not proved.
    """
    if not _LEAST <= epsilon <= _MOST:  # also for NaN
        raise InputError("--release", epsilon, f"must be from {_LEAST:g} to {_MOST:g}")
    if plan.nominal or not plan.protects_queries:
        raise RefusedError(
            f"--release: what a trial of profile {plan.profile} costs is not proved, so its score cannot be released"
        )
    return Cost(plan.epsilon, _own(plan) + epsilon, plan.phases[0].delta)


def _own(plan: Plan) -> float:
    """Return what a test row pays for being asked (nats)."""
    return 0.0 if plan.released else plan.epsilon


def _scale(plan: Plan, epsilon: float) -> Fraction:
    """Return the noise's inverse scale: epsilon, or so little below it that the cost is no float's rounding too low."""
    return min(Fraction(epsilon), Fraction(cost_of(plan, epsilon).test) - Fraction(_own(plan)))


def check_release(rows: int, order: NDArray[np.int64]) -> None:
    """Refuse an order of rounds that asks a test row more than once: it would pay as often.

    Args:
        rows: Test rows.
        order: intp[rounds], which of them is asked in each round.

    Raises:
        RefusedError: It does.
    """
    if len(order) > rows or len(np.unique(order)) < len(order):
        raise RefusedError(f"--release: each of the {rows:,} test rows may be asked once only (--rounds, --order)")


def release(plan: Plan, trial: Trial, epsilon: float, data: str, bits: BitSource | None = None) -> ScoreReleased:
    """Return the event with the noisy score in it; nothing was shown or written yet.

    Args:
        plan: Of the trial.
        trial: In which each test row was asked once (`check_release`).
        epsilon: Inverse scale of the noise.
        data: What the owner calls the rows.
        bits: Where the noise comes from; the system.
    """
    cost, rounds = cost_of(plan, epsilon), len(trial.labels)
    noisy = int((trial.labels != trial.truth).sum()) + discrete_laplace(_scale(plan, epsilon), bits or _System())
    return ScoreReleased(
        model=plan.name,
        data=data,
        trial=secrets.token_hex(_TRIAL_BYTES),
        wrong=min(max(noisy, 0), rounds),
        round=rounds,
        noise=epsilon,
        epsilon=max(cost.training, cost.test),
        epsilon_training=cost.training,
        epsilon_test=cost.test,
        delta=cost.delta,
        delta_sum=min(plan.delta, (plan.declared + rounds) * cost.delta) if cost.delta else 0.0,
    )


def noise_reach(epsilon: float) -> int:
    """Return the least w with P(|Z| > w) <= 0.05 for the noise Z of a score."""
    # P(|Z| > w) = 2 exp(-e (w + 1)) / (1 + exp(-e))
    return max(math.ceil(math.log(2.0 / (_MISSED * (1.0 + math.exp(-epsilon)))) / epsilon - 1.0), 0)
