"""What answers in a running predictor, listened to: every mechanism that draws or chooses, each time that it does.

So nothing is looked at that a check has built for itself. What is heard in a phase must be due in it
(`oracle.audit.due.live`), after each arming and each restart; and wherever it answers otherwise than just before, it
must do so where its law has it, exactly.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Final
from unittest.mock import patch

import mpmath
import numpy as np

from oracle.audit.due.exactness import ALLOWED, exact_between, exact_questions, exact_sample, exact_stopper
from oracle.audit.due.live import Mechanism, due_mechanisms
from oracle.mechanisms.choice import exponential
from oracle.mechanisms.noise import laws, tables
from oracle.mechanisms.thresholds.paid import BetweenThresholds, PaidQuestions
from oracle.mechanisms.thresholds.stopper import Stopper
from oracle.planning.plan import Plan
from oracle.predictors.phased import PhasedPredictor

__all__ = ["Heard", "heard"]

_LOOKED_AT: Final = 2
"""Objects of one kind and phase whose edges are found."""

_NEAR: Final = 2.0**-40
"""Part by which the probability of a bit may be off: it is computed in float64 (`BinaryThresholdOracle`)."""

_PRECISION: Final = 200


class Heard:
    """What was heard while predictors ran.

    Attributes:
        mechanisms: Of each phase, what answered.
        restored: How often a state was taken back, or a phase entered.
    """

    def __init__(self) -> None:
        self.mechanisms: dict[int, dict[Mechanism, list[Any]]] = {}
        self._phase = self.restored = 0

    def enter(self, phase: int) -> None:
        """A predictor enters a phase, or is taken back in it."""
        self._phase = phase
        self.restored += 1

    def take(self, mechanism: Mechanism, live: Any) -> None:  # noqa: ANN401 -- an object, or a function
        """Something has answered."""
        found = self.mechanisms.setdefault(max(self._phase, 1), {}).setdefault(mechanism, [])
        if len(found) < _LOOKED_AT and not any(live is one for one in found):
            found.append(live)

    def wrong(self, plan: Plan) -> str | None:
        """Return what was heard that is not due, was not heard that is, or has another law than it says; or None."""
        due = due_mechanisms(plan)
        silent = {one[0] for all_ in due.values() for one in all_}
        for phase, found in self.mechanisms.items():
            for mechanism, live in found.items():
                if mechanism not in due.get(phase, ()):
                    return f"phase {phase}: {mechanism} answers, and is not due"
                if any(not _exact(mechanism, one) for one in live):
                    return f"phase {phase}: {mechanism} has another law than it says"
                silent.discard(mechanism[0])
        return f"no {sorted(silent)} were heard, though due" if silent else None


def _exact(mechanism: Mechanism, live: Any) -> bool:  # noqa: ANN401 -- an object, or a function
    """Return whether what answers has the law that is due, which is the one that it says."""
    kind, law, *rest = mechanism
    if kind == "depths":
        return bool(exact_between(live, live) <= ALLOWED)
    if kind == "Stopper":
        return bool(exact_stopper(live, law, *rest) <= ALLOWED)
    if kind == "questions":
        return bool(exact_questions(live) <= ALLOWED)
    if kind == "noise":
        return bool(exact_sample(partial(live, law, *rest), law, *rest) <= ALLOWED)
    return kind != "bits" or _exact_bits(live, law, *rest)


def _exact_bits(live: Callable[..., laws.NoiseLaw], law: Any, scale: float) -> bool:  # noqa: ANN401 -- a literal
    shares = np.linspace(-30.0, 30.0, 41) * (1.0 if law == "laplace" else 0.25)
    smaller, above = live(law, scale).smaller_side(shares * scale)
    with mpmath.workprec(_PRECISION):
        for at, found, is_above in zip(shares.tolist(), smaller.tolist(), above.tolist(), strict=True):
            size = mpmath.mpf(abs(at * scale)) / mpmath.mpf(scale)
            tail = mpmath.exp(-size) / 2 if law == "laplace" else mpmath.erfc(size / mpmath.sqrt(2)) / 2
            if is_above != (at >= 0.0) or abs(found - tail) > _NEAR * tail:
                return False
    return True


def _depths(one: BetweenThresholds, *_: Any) -> Mechanism:  # noqa: ANN401 -- what it is asked
    return ("depths", one.law, one.scale, one.low, one.high, one.points)


def _stopper(one: Stopper, *_: Any) -> Mechanism:  # noqa: ANN401 -- what it is asked
    return ("Stopper", one.law, one.epsilon, one.threshold)


def _questions(one: PaidQuestions, _counts: Any, lows: Any, *_: Any, **rest: Any) -> Mechanism:  # noqa: ANN401 -- what it is asked
    highs = rest.get("highs")
    gaps = {None} if highs is None else {*(highs - lows).tolist()}
    return ("questions", one.law, one.slope, one.paid, one.threshold_slope, *gaps)


@contextmanager
def heard() -> Iterator[Heard]:
    """Listen to all mechanisms for a while."""
    found = Heard()
    named: dict[tuple[type, str], Callable[..., Mechanism]] = {
        (BetweenThresholds, "answers"): _depths,
        (Stopper, "halts"): _stopper,
        (Stopper, "level"): _stopper,
        (PaidQuestions, "ask"): _questions,
    }
    drawn: dict[Callable[..., Any], Callable[..., Mechanism]] = {
        tables.sample: lambda law, scale, *_: ("noise", law, scale),
        exponential.choose: lambda scale, *_: ("choice", scale),
        exponential.choose_exactly: lambda scale, *_, **__: ("choice", scale),
        laws.named_law: lambda law, scale: ("bits", law, scale),
    }
    with ExitStack() as replaced:
        for (owner, name), says in named.items():
            replaced.enter_context(patch.object(owner, name, _listened(found, owner.__dict__[name], says, method=True)))
        modules = [module for name, module in sys.modules.items() if name.startswith("oracle.")]
        for function, called in drawn.items():
            new = _listened(found, function, called, method=False)
            for module in modules:
                for name in [name for name, one in vars(module).items() if one is function]:
                    replaced.enter_context(patch.object(module, name, new))
        real = PhasedPredictor._enter  # noqa: SLF001 -- what is heard is of the phase that was entered last

        def enter(self: Any, key: Any, phase: int) -> None:  # noqa: ANN401 -- as `_enter`
            found.enter(phase)
            real(self, key, phase)

        replaced.enter_context(patch.object(PhasedPredictor, "_enter", enter))
        yield found


def _listened(found: Heard, real: Callable[..., Any], named: Callable[..., Mechanism], *, method: bool) -> Any:  # noqa: ANN401 -- as what is real
    """Return what calls the real thing, and says first what answers: a method's object, or the function."""

    def call(*arguments: Any, **rest: Any) -> Any:  # noqa: ANN401 -- as what is real
        found.take(named(*arguments, **rest), arguments[0] if method else real)
        return real(*arguments, **rest)

    return call
