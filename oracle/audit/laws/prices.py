"""What is released beside answers, and what it is said to cost: a trial's score, and the count that `init` tells."""

from collections.abc import Iterator
from typing import Final

import numpy as np
from msgspec import UNSET

from oracle.audit.laws.bets import Bets
from oracle.audit.laws.choices import bet_on_noise
from oracle.audit.randomness import Randomness
from oracle.errors import RefusedError
from oracle.evaluation.release import check_release, release
from oracle.evaluation.trial import Trial
from oracle.planning.classical.model import ClassicalPlan
from oracle.planning.ensemble.model import EnsemblePlan
from oracle.planning.plan import BoxPlan, Plan
from oracle.planning.stumps.model import StumpsPlan
from oracle.state.starts import start_event

__all__ = ["priced"]

Seen = tuple[bool, str]

_SLOPES: Final = (0.31, 0.7, 2.3)
_SCORES: Final = 400
_ROUNDS: Final = 2_000
_ROUNDED: Final = 1.0 - 1e-12


class _Bits:
    """Uniform bits, drawn one after the other."""

    def __init__(self, randomness: Randomness) -> None:
        self._randomness = randomness
        self._next = 0

    def take(self, count: int) -> int:
        """Return so many bits."""
        self._next += 1
        words = self._randomness.words(self._next, 1 + count // 128)
        return int.from_bytes(words.tobytes(), "little") % (1 << count)


def priced(plan: Plan, randomness: Randomness) -> Seen:
    """A released score has the noise that it states, and it and what `init` tells cost as much as is stated at least.

    A law that is as stated is refuted with a chance of 1e-9 at most.
    """
    bets, bits = Bets(), _Bits(randomness)
    for number, slope in enumerate(_SLOPES):
        wrong = _ROUNDS // (3 + number)
        truth = np.zeros(_ROUNDS, dtype=np.int8)
        labels = (np.arange(_ROUNDS) < wrong).astype(np.int8)
        trial = Trial(labels, truth, np.ones(_ROUNDS, dtype=np.int64), np.arange(_ROUNDS), (), plan.declared)
        events = [release(plan, trial, slope, "audited", bits) for _ in range(_SCORES)]
        for event in events:
            bet_on_noise(bets, f"a score's noise at {slope:g}", "discrete-laplace", slope, event.wrong - wrong)
        due = _due(plan, slope)
        event = events[0]
        told = (event.epsilon_training, event.epsilon_test, event.delta, event.epsilon, event.delta_sum)
        if event.noise != slope or any(mine < its * _ROUNDED for mine, its in zip(told, due, strict=True)):
            return False, f"a score of {slope:g} nats is said to cost {told}, and {due} is due"
    short = next(_short(plan), None) or _twice()
    if short is not None:
        return False, short
    part, name = bets.most()
    return part < 1.0, f"{bets.outcomes} scores: {'no bet gained much' if part < 1.0 else f'bets gained on {name}'}"


def _due(plan: Plan, slope: float) -> tuple[float, ...]:
    """Return what a score costs: epsilon of a training row, of a test row, delta; the larger one, and all deltas."""
    asked = 0.0 if isinstance(plan, ClassicalPlan) else plan.epsilon
    delta = max(phase.delta for phase in plan.phases)
    return plan.epsilon, asked + slope, delta, max(plan.epsilon, asked + slope), min(plan.delta, _ROUNDS * delta)


def _short(plan: Plan) -> Iterator[str]:
    """Yield what `init` says of its count and its price that is not so."""
    for beyond in (-3, 0, 9):
        event = start_event(plan, 0, beyond)
        if isinstance(plan, StumpsPlan) or event is None:
            continue
        if isinstance(plan, BoxPlan) and plan.check is not UNSET:
            edges = 0.0 if plan.scale is UNSET else 2.0 * plan.scale.scale * len(plan.sides)
            due, slope, least = edges + plan.check.epsilon, plan.check.epsilon, plan.check.margin
        elif isinstance(plan, EnsemblePlan) and plan.share_slope is not UNSET:
            due, slope, least = plan.share_slope, plan.share_slope, 0
        else:
            yield "init tells a count that the plan has none of"
            continue
        if event.epsilon < min(due, plan.epsilon) * _ROUNDED:
            yield f"what init tells is said to cost {event.epsilon:.6g}, and {due:.6g} is due"
        if (event.noise, event.beyond, event.passed) != (slope, beyond, beyond >= least):
            yield "what init tells is not what was counted, by its noise"


def _twice() -> str | None:
    """Return that a test row may be asked twice for a score, if it may."""
    try:
        check_release(3, np.array([0, 1, 1]))
    except RefusedError:
        return None
    return "a test row is asked twice for a score, and pays once"
