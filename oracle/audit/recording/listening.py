"""Hears every use of noise, for a tape (see `tape.py`).

All is heard where bits become noise: where a table's edges are compared with bits, where noise is added, where a choice
is made. So nothing that a mechanism does with its inputs before that is left out.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.mechanisms.noise.tables import Edges
from oracle.predictors.ensemble import fitting
from oracle.predictors.ensemble import predictor as ensemble

if TYPE_CHECKING:
    from oracle.audit.recording.tape import Tape

__all__ = ["Listener", "listening"]

Numbers = NDArray[Any]
Words = NDArray[np.uint64]

_ALL: Final = 1 << 40
"""A reach that all candidates of a choice are within."""

_NO_WORDS: Final = np.empty(0, dtype=np.uint64)

_MADE: Final = (
    "oracle.mechanisms.noise.tables",
    "oracle.mechanisms.noise.laws",
    "oracle.mechanisms.choice.exponential",
)
"""Where noise and choices are made of bits; what is heard is who imports it from there."""


class _Noise(np.ndarray[Any, np.dtype[np.int64]]):
    """Noise that tells what it is added to."""

    heard: Callable[[Words, Numbers, Numbers], Numbers]
    words: Words

    def __getitem__(self, rows: Any) -> Any:  # noqa: ANN401 -- as of arrays
        return self.view(np.ndarray)[rows]

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **rest: Any) -> Any:  # noqa: ANN401
        plain = [one.view(np.ndarray) if isinstance(one, _Noise) else one for one in inputs]
        made = getattr(ufunc, method)(*plain, **rest)
        if ufunc is not np.add or method != "__call__":
            return made
        counts = next(np.asarray(one) for one in inputs if not isinstance(one, _Noise))
        return self.heard(self.words, counts, made)


class Listener:
    """Hands what is heard to a tape; without one the real things answer.

    Attributes:
        tape: The tape.
    """

    def __init__(self) -> None:
        self.tape: Tape | None = None

    def patches(self) -> Iterator[tuple[Any, str, Any]]:
        """Yield classes and modules, names in them, and what to put there."""
        exceed, words_of = Edges.exceed, Addresses.words

        def heard_exceed(table: Edges, index: Numbers, words: Words) -> Any:  # noqa: ANN401
            def live() -> Any:  # noqa: ANN401
                return exceed(table, index, words)

            return self.tape.heard("edge", table, words[:, 0].copy(), index.copy(), live) if self.tape else live()

        def heard_words(which: Addresses, purpose: Purpose, rounds: Words, sides: Words, hashes: Words | None) -> Words:
            made = words_of(which, purpose, rounds, sides, hashes)
            if self.tape:
                self.tape.addressed(purpose, rounds.copy(), sides.copy(), made)
            return made

        yield Edges, "exceed", heard_exceed
        yield Addresses, "words", heard_words
        for module in [
            one for name, one in sys.modules.items() if name.startswith(("oracle.predictors.", "oracle.mech"))
        ]:
            for name, heard in _HEARD.items():
                if module.__name__ not in _MADE and callable(vars(module).get(name)):
                    yield module, name, heard(self, vars(module)[name])
        yield ensemble, "Fitting", self._fitting(vars(ensemble)["Fitting"])
        yield fitting, "fit_teachers", _remembering(vars(fitting)["fit_teachers"])

    def _fitting(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def fit(plan: Any, rows: tuple[Numbers, Numbers, Numbers], life: int) -> Any:  # noqa: ANN401
            if self.tape:
                self.tape.heard("teachers", life, _NO_WORDS, rows, lambda: None)
            return real(plan, rows, life)

        return fit


def _heard_noise(listener: Listener, real: Callable[..., Numbers]) -> Callable[..., Numbers]:
    def noise(*law: Any) -> Numbers:  # noqa: ANN401 -- as of `sample` and `geometric`
        made = real(*law)
        if listener.tape is None:
            return made
        heard = made.view(_Noise)
        heard.heard, heard.words = listener.tape.added, law[-1].reshape(-1, 2)[:, 0]
        return heard

    return noise


def _heard_choice(listener: Listener, real: Callable[..., Any]) -> Callable[..., Any]:
    def choose(scale: float, losses: Any, source: Any) -> Any:  # noqa: ANN401 -- as of `choose` and `choose_exactly`
        def live() -> Any:  # noqa: ANN401
            return real(scale, losses, source)

        if listener.tape is None:
            return live()
        inputs = losses(_ALL) if callable(losses) else losses.copy()
        words = _NO_WORDS if callable(losses) else source.copy()
        return listener.tape.heard("choice", scale, words, inputs, live)

    return choose


def _heard_law(listener: Listener, real: Callable[..., Any]) -> Callable[..., Any]:
    def named_law(*law: Any) -> Any:  # noqa: ANN401 -- as of `named_law`
        made = real(*law)

        def smaller_side(thresholds: Numbers) -> Any:  # noqa: ANN401
            def live() -> Any:  # noqa: ANN401
                return made.smaller_side(thresholds)

            return listener.tape.heard("bit", law, _NO_WORDS, thresholds.copy(), live) if listener.tape else live()

        return replace(made, smaller_side=smaller_side)

    return named_law


_HEARD: Final[dict[str, Callable[[Listener, Callable[..., Any]], Callable[..., Any]]]] = {
    "sample": _heard_noise,
    "geometric": _heard_noise,
    "choose": _heard_choice,
    "choose_exactly": _heard_choice,
    "named_law": _heard_law,
}


def _remembering(real: Callable[..., Any]) -> Callable[..., Any]:
    """Fit the same teachers once."""
    fitted: dict[bytes, Any] = {}

    def fit(plan: Any, features: Numbers, labels: Numbers, owners: Numbers, seed: int) -> Any:  # noqa: ANN401
        key = b"|".join([str(id(plan)).encode(), *(one.tobytes() for one in (features, labels, owners)), b"%d" % seed])
        if key not in fitted:
            fitted[key] = real(plan, features, labels, owners, seed)
        return fitted[key]

    return fit


@contextmanager
def listening() -> Iterator[Listener]:
    """Let tapes hear all uses of noise; when it ends the real things are back."""
    listener = Listener()
    with ExitStack() as replaced:
        for where, name, heard in list(listener.patches()):
            replaced.enter_context(patch.object(where, name, heard))
        yield listener
