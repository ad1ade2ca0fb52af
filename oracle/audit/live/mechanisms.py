"""What answers in a running predictor, listened to: every mechanism that draws or chooses, each time that it does.

So nothing is looked at that a check has built for itself. What is heard in a phase must be due in it
(`oracle.audit.due.live`), of the life that it answers in, after each arming and each restart; and wherever it answers
otherwise than just before, it must do so where its law has it, exactly. What is due must be heard.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final
from unittest.mock import patch

import mpmath
import numpy as np

from oracle.audit.due.exactness import ALLOWED, exact_between, exact_questions, exact_sample, exact_stopper
from oracle.audit.due.live import Life, Mechanism, Part, due_parts
from oracle.audit.references.far_out import exact_choice
from oracle.mechanisms.choice import exponential
from oracle.mechanisms.noise import laws, tables
from oracle.mechanisms.thresholds.challenge import ArmedSide
from oracle.mechanisms.thresholds.paid import BetweenThresholds, PaidQuestions
from oracle.mechanisms.thresholds.stopper import Stopper
from oracle.planning.plan import Plan
from oracle.predictors.ensemble.predictor import Ensemble
from oracle.predictors.phased import PhasedPredictor
from oracle.runtime.shard import Shard

__all__ = ["Heard", "heard", "inexact"]

_LOOKED_AT: Final = 2
"""Objects of one kind, phase and life whose edges are found."""

_NEAR: Final = 2.0**-40
"""Part by which the probability of a bit may be off: it is computed in float64 (`BinaryThresholdOracle`)."""

_PRECISION: Final = 200

_BEHIND: Final = ", behind a restart"


class Heard:
    """What was heard while predictors ran.

    Attributes:
        mechanisms: Of each phase, what answered, by the life that it answered in.
        states: How often a state was taken back, or a phase entered.
    """

    def __init__(self) -> None:
        self.mechanisms: dict[int, dict[tuple[Mechanism, Life], list[Any]]] = {}
        self.states = 0
        self._behind: set[tuple[int, Mechanism, Life]] = set()
        self._phase, self._taking_back, self._taken_back = 1, False, False
        self._kept: Sequence[ArmedSide] = ()
        self._life: tuple[Life, bool | None] = "", None

    def enter(self, phase: int) -> None:
        """A predictor enters a phase, or is taken back in it."""
        self._phase, self._taken_back = phase, self._taking_back
        self.states += 1

    def take(self, mechanism: Mechanism, live: Any) -> None:  # noqa: ANN401 -- an object, or a function
        """Something answers."""
        life, behind = self._life
        found = self.mechanisms.setdefault(self._phase, {}).setdefault((mechanism, life), [])
        if len(found) < _LOOKED_AT and not any(live is one for one in found):
            found.append(live)
        if self._taken_back if behind is None else behind:
            self._behind.add((self._phase, mechanism, life))

    @contextmanager
    def taking_back(self) -> Iterator[None]:
        """While it lasts, a state is taken back."""
        self._taking_back = True
        try:
            yield
        finally:
            self._taking_back = False

    def taken_back(self, sides: Sequence[ArmedSide]) -> None:
        """These sides are armed as they were before a restart."""
        self._kept = sides

    def armed(self) -> None:
        """What was taken back is over: another life begins."""
        self._taken_back = False

    @contextmanager
    def of_side(self, side: ArmedSide) -> Iterator[None]:
        """While it lasts, what answers is a side's."""
        first = 0 if side.stopper.noisy_threshold else -1  # the round before which a phase arms its sides
        self._life = "again" if side.armed > first else "first", any(one is side for one in self._kept)
        try:
            yield
        finally:
            self._life = "", None

    @contextmanager
    def of_life(self, life: Life) -> Iterator[None]:
        """While it lasts, what answers is an ensemble's, in a life."""
        self._life = life, None
        try:
            yield
        finally:
            self._life = "", None

    def wrong(self, plan: Plan) -> str | None:
        """Return what was heard that is not due, or has another law than it says; None if nothing is."""
        for phase, found in self.mechanisms.items():
            due = due_parts(plan).get(phase, ())
            for (mechanism, life), live in found.items():
                if not any(part.mechanism == mechanism and (not life or part.life in {life, ""}) for part in due):
                    whose = f" in a life that is armed {life}" if life else ""
                    return f"phase {phase}: {mechanism} answers{whose}, and is not due"
                if any(not _exact(mechanism, one) for one in live):
                    return f"phase {phase}: {mechanism} has another law than it says"
        return None

    def due_and_told(self, plan: Plan) -> tuple[set[str], set[str]]:
        """Return the names of all that had to be heard in a run of a plan, and of what was."""
        due, told = set[str](), set[str]()
        for phase, parts in due_parts(plan).items():
            for part in parts:
                name = f"phase {phase}: {part.name}"
                due |= {name, name + _BEHIND} if part.lasting else {name}
                told |= {name} if self._told(phase, part) else set()
                told |= {name + _BEHIND} if self._told_behind(phase, part) else set()
        return due, told

    def _told(self, phase: int, part: Part) -> bool:
        found = self.mechanisms.get(phase, {})
        return any(mechanism == part.mechanism and part.life in {life, ""} for mechanism, life in found)

    def _told_behind(self, phase: int, part: Part) -> bool:
        return any(
            (at, mechanism) == (phase, part.mechanism) and part.life in {life, ""}
            for at, mechanism, life in self._behind
        )


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
    return _exact_bits(live, law, *rest) if kind == "bits" else exact_choice(law) is None


def inexact(plan: Plan, phase: int) -> Mechanism | None:
    """Return what is due in a phase and has another law when it is made as predictors make it, if anything."""
    made: dict[str, Callable[..., Any]] = {
        "depths": BetweenThresholds,
        "Stopper": lambda law, scale, threshold: Stopper(scale, threshold, law),
        "questions": lambda law, slope, paid, threshold, _gap: PaidQuestions(law, slope, paid, threshold),
        "noise": lambda *_: tables.sample,
        "bits": lambda *_: laws.named_law,
        "choice": lambda *_: exponential.choose,
    }
    due = [part.mechanism for part in due_parts(plan)[phase]]
    return next((one for one in due if not _exact(one, made[one[0]](*one[1:]))), None)


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


def _drawn(law: str, scale: float, words: Any) -> Mechanism | None:  # noqa: ANN401 -- an array
    return ("noise", law, scale) if len(words) else None


@contextmanager
def heard() -> Iterator[Heard]:
    """Listen to all mechanisms for a while."""
    found = Heard()
    methods: dict[tuple[type, str], Callable[..., Mechanism]] = {
        (BetweenThresholds, "answers"): _depths,
        (Stopper, "halts"): _stopper,
        (Stopper, "level"): _stopper,
        (PaidQuestions, "ask"): _questions,
    }
    functions: dict[Callable[..., Any], Callable[..., Mechanism | None]] = {
        tables.sample: _drawn,
        exponential.choose: lambda scale, *_: ("choice", scale),
        exponential.choose_exactly: lambda scale, *_, **__: ("choice", scale),
    }
    with ExitStack() as replaced:
        for (owner, name), says in methods.items():
            replaced.enter_context(patch.object(owner, name, _listened(found, owner.__dict__[name], says, method=True)))
        for function, called in functions.items():
            _everywhere(replaced, function, _listened(found, function, called, method=False))
        _everywhere(replaced, laws.named_law, partial(_law_that_tells, found, laws.named_law))
        for owner, name, around in _AROUND:
            replaced.enter_context(patch.object(owner, name, _within(found, owner.__dict__[name], around)))
        yield found


def _everywhere(replaced: ExitStack, function: Callable[..., Any], new: Callable[..., Any]) -> None:
    """Put something in the place of a function, wherever it was imported."""
    for module in [module for name, module in sys.modules.items() if name.startswith("oracle.")]:
        for name in [name for name, one in vars(module).items() if one is function]:
            replaced.enter_context(patch.object(module, name, new))


def _listened(
    found: Heard, real: Callable[..., Any], named: Callable[..., Mechanism | None], *, method: bool
) -> Callable[..., Any]:
    """Return what calls the real thing, and says first what answers: a method's object, or the function."""

    def call(*arguments: Any, **rest: Any) -> Any:  # noqa: ANN401 -- as what is real
        mechanism = named(*arguments, **rest)
        if mechanism is not None:
            found.take(mechanism, arguments[0] if method else real)
        return real(*arguments, **rest)

    return call


def _law_that_tells(found: Heard, real: Callable[..., laws.NoiseLaw], law: Any, scale: float) -> laws.NoiseLaw:  # noqa: ANN401 -- a literal
    """Return a law that says when it is asked for a bit."""
    made = real(law, scale)

    def smaller_side(thresholds: Any) -> Any:  # noqa: ANN401 -- arrays
        found.take(("bits", law, scale), real)
        return made.smaller_side(thresholds)

    return replace(made, smaller_side=smaller_side)


def _within(
    found: Heard, real: Callable[..., Any], around: Callable[..., AbstractContextManager[None]]
) -> Callable[..., Any]:
    """Return what does the real thing within something."""

    def call(*arguments: Any, **rest: Any) -> Any:  # noqa: ANN401 -- as what is real
        with around(found, *arguments):
            return real(*arguments, **rest)

    return call


@contextmanager
def _entered(found: Heard, _predictor: object, _key: object, phase: int) -> Iterator[None]:
    found.enter(phase)
    yield


@contextmanager
def _taken_back(found: Heard, shard: Any, *_: object) -> Iterator[None]:  # noqa: ANN401 -- a shard, whose predictor is its own
    with found.taking_back():
        yield
    sides = getattr(shard._predictor, "sides", None)  # noqa: SLF001 -- which sides are those of before
    found.taken_back([] if sides is None else list(sides.armed))


@contextmanager
def _begun(found: Heard, _predictor: object) -> Iterator[None]:
    found.armed()
    yield


def _of_side(found: Heard, side: ArmedSide, *_: object) -> AbstractContextManager[None]:
    return found.of_side(side)


def _of_life(found: Heard, ensemble: Any, *_: object) -> AbstractContextManager[None]:  # noqa: ANN401 -- by what is its own
    own = ensemble._armed_in == ensemble._phase  # noqa: SLF001 -- nothing that is public tells it
    return found.of_life(("again" if ensemble._armed else "first") if own else "before")  # noqa: SLF001 -- likewise


_AROUND: Final[tuple[tuple[type, str, Callable[..., AbstractContextManager[None]]], ...]] = (
    (PhasedPredictor, "_enter", _entered),
    (Shard, "__init__", _taken_back),
    (ArmedSide, "answers", _of_side),
    (ArmedSide, "first_halt", _of_side),
    (Ensemble, "_arm_stopper", _begun),
    (Ensemble, "_ask", _of_life),
)
"""What tells of phases, restarts and lives."""
