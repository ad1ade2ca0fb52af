"""Runs recorded, and played again on other data with the outputs of all mechanisms frozen.

The idea is that of Re:cord-play (arXiv 2602.17454). A run on D writes down what goes into every mechanism and what
comes out of it. The run on D', which has one record more or less, is given the same outputs; so whatever else differs
between the two is the data's doing: inputs of mechanisms, whose differences the declared sensitivity bounds, and
nothing else.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.mechanisms.choice import stripes
from oracle.mechanisms.choice.exponential import Candidates
from oracle.mechanisms.thresholds.bits import BinaryThresholdOracle
from oracle.mechanisms.thresholds.challenge import ArmedSide
from oracle.mechanisms.thresholds.paid import Answers, BetweenThresholds, PaidQuestions
from oracle.mechanisms.thresholds.stopper import Stopper
from oracle.predictors import classical, stumps
from oracle.predictors.base import Predictor
from oracle.predictors.ensemble import control, trainer
from oracle.predictors.ensemble import predictor as ensemble
from oracle.predictors.ensemble.predictor import Ensemble
from oracle.predictors.rectangles import RectanglesPERP
from oracle.predictors.statistics import start
from oracle.predictors.stumps import StumpsPERP

__all__ = ["Call", "Divergence", "Place", "Tape", "listening"]

Numbers = NDArray[Any]
Patch = tuple[Any, str, Any]
"""A class or module, a name in it, and what to put there."""

_ALL: Final = 1 << 40
"""A reach that all candidates of a choice are within."""

_NO_WORDS: Final = np.empty((0, 2), dtype=np.uint64)


class Divergence(Exception):  # noqa: N818 -- it is caught in this floor, and is no error of Perpetua's
    """A run on D' did something else than that on D, though all mechanisms said the same."""


class Place(NamedTuple):
    """Where a record may show.

    Attributes:
        mechanism: "depth", "stopper", "question", "bit", "choice" or "count"; "teacher" of an ensemble's.
        instance: Which one: of a side's lives (phase, side, round that it was armed in), of an ensemble's (its number).
    """

    mechanism: str
    instance: tuple[int, ...]


class Call(NamedTuple):
    """One use of a mechanism.

    Attributes:
        place: Which one was used.
        public: Its parameters, thresholds included.
        words: uint64[n, 2], the bits of its noise, by row.
        inputs: [n], what it was asked of the data; of a choice `Candidates`.
        given: What it answered.
    """

    place: Place
    public: tuple[Any, ...]
    words: NDArray[np.uint64]
    inputs: Any
    given: Any


class _Rows(NamedTuple):
    """By how much the inputs of one use differ, and the first halves of their bits."""

    place: Place
    words: NDArray[np.uint64]
    changes: Numbers


class Tape:
    """Writes down the uses of mechanisms; or gives out what another one has written, and compares.

    Args:
        before: What the run on D wrote; None to write.
        free: Whether one row of each use may have other bits: that of the round whose query is another one.

    Attributes:
        calls: What was written.
        moved: How far inputs were apart, the lowest and the highest difference; 0 included.
        predictor: Who uses the mechanisms; None while it is trained.
        armed: The side that does.
        decided: bool[n], where a Stopper is not asked for nothing: not before the round that its life was armed in.
    """

    predictor: Predictor | None
    armed: ArmedSide | None
    decided: NDArray[np.bool_] | None

    def __init__(self, before: Sequence[Call] | None = None, *, free: bool = False) -> None:
        self.calls: list[Call] = []
        self.moved: dict[Place, tuple[float, float]] = {}
        self.predictor = self.armed = self.decided = None
        self._before, self._free, self._next = before, free, 0
        self._rows: list[_Rows] = []

    def finish(self) -> None:
        """Make sure that all uses came, and look at the inputs that counted.

        Predictors decide a batch's rows again behind a re-arm, with the same bits: the last time counts.

        Raises:
            Divergence: Fewer came.
        """
        if self._before is not None and self._next < len(self._before):
            raise Divergence(f"{self._before[self._next].place.mechanism}: not asked what it was asked before")
        whose: dict[tuple[Any, ...], list[_Rows]] = {}
        for rows in reversed(self._rows):
            whose.setdefault((rows.place.mechanism, rows.place.instance[:-1]), []).append(rows)
        for its in whose.values():
            self._count_last(its)

    def _count_last(self, newest: Sequence["_Rows"]) -> None:
        """Take the changes of one mechanism, of all lives of a side, by the newest use of each row's bits."""
        if not any(rows.changes.any() for rows in newest):
            return
        uses = np.repeat(np.arange(len(newest)), [len(rows.changes) for rows in newest])
        changes = np.concatenate([rows.changes for rows in newest])
        last = np.unique(np.concatenate([rows.words for rows in newest]), return_index=True)[1]
        for row in last[changes[last] != 0].tolist():
            change = float(changes[row])
            self._move(newest[uses[row]].place, min(change, 0.0), max(change, 0.0))

    def heard(
        self,
        mechanism: str,
        words: NDArray[np.uint64],
        public: tuple[Any, ...],
        inputs: Any,  # noqa: ANN401 -- as of `Call`
        live: Callable[[], Any],
    ) -> Any:  # noqa: ANN401 -- what the mechanism answers
        """Return what a mechanism answers: in a run on D' what it did before.

        Raises:
            Divergence: It was not asked so before, or with other parameters or bits.
        """
        call = Call(Place(mechanism, self._instance(mechanism)), public, words.reshape(-1, 2).copy(), inputs, None)
        if self._before is None:
            given = live()
            self.calls.append(call._replace(given=given))
            return given
        if self._next == len(self._before):
            raise Divergence(f"{mechanism}: asked once more than before")
        before = self._before[self._next]
        self._next += 1
        if before.place != call.place or before.public != public or before.words.shape != call.words.shape:
            raise Divergence(f"{mechanism}: another one is asked, or with other public numbers")
        same = (before.words == call.words).all(axis=1)
        if np.count_nonzero(~same) > self._free:
            raise Divergence(f"{mechanism}: its noise is another one")
        if mechanism not in {"choice", "count"}:
            counted = same if mechanism != "stopper" or self.decided is None else same & self.decided
            self._rows.append(_Rows(call.place, call.words[counted, 0], (inputs - before.inputs)[counted]))
        else:
            parted = _summed if mechanism == "count" else _parted
            self._move(call.place, 0.0, parted(before.inputs, inputs))
        return before.given if same.all() else _merged(before.given, live(), same)

    def fitted(self, life: int, rows: tuple[Numbers, Numbers, Numbers]) -> None:
        """Hear what teachers are fitted to, which is no mechanism: how many teachers have other rows is what moves.

        Raises:
            Divergence: None were fitted here before.
        """
        call = Call(Place("teacher", (life,)), (), _NO_WORDS, rows, None)
        if self._before is None:
            self.calls.append(call)
            return
        before = self._before[self._next] if self._next < len(self._before) else None
        self._next += 1
        if before is None or before.place != call.place:
            raise Divergence("teacher: fitted at another moment")
        self._move(call.place, 0.0, float(_other_teachers(before.inputs, rows)))

    def _move(self, place: Place, low: float, high: float) -> None:
        if low or high:
            lowest, highest = self.moved.get(place, (0.0, 0.0))
            self.moved[place] = min(low, lowest), max(high, highest)

    def _instance(self, mechanism: str) -> tuple[int, ...]:
        predictor = self.predictor
        if predictor is None:
            return (self._next if self._before is not None else len(self.calls),)
        if mechanism == "count":
            return (predictor.facts().round,)
        if isinstance(predictor, Ensemble):
            return (predictor.lives,)
        if isinstance(predictor, RectanglesPERP | StumpsPERP) and self.armed is not None:
            side = next(side for side, one in enumerate(predictor.sides.armed) if one is self.armed)
            return predictor.facts().phase, side, self.armed.armed
        return ()


def _merged(before: Any, now: Any, same: NDArray[np.bool_]) -> Any:  # noqa: ANN401 -- what a mechanism answers
    """Return answers of before, but for a row whose query is another one."""
    if isinstance(before, Answers):
        outcomes, values = (
            np.where(same, old, new) for old, new in ((before.outcomes, now.outcomes), (before.values, now.values))
        )
        return replace(before, outcomes=outcomes, values=values)
    return np.where(same, before, now)


def _other_teachers(before: Any, now: Any) -> int:  # noqa: ANN401 -- features, labels and owners
    """Return how many teachers have other rows than before."""
    owners = np.union1d(before[2], now[2]).tolist()
    return sum(
        any(
            not np.array_equal(old[before[2] == owner], new[now[2] == owner])
            for old, new in zip(before, now, strict=True)
        )
        for owner in owners
    )


def _summed(before: Numbers, now: Numbers) -> float:
    """Return by how much counts change, all together."""
    return float(np.abs(now - before).sum())


def _parted(before: Any, now: Any) -> float:  # noqa: ANN401 -- see `Call.inputs`
    """Return how far the changes of a choice's losses lie apart."""
    if isinstance(before, Candidates):
        changes = _losses_apart(before, now)
    else:  # one record more is one more cut
        size = max(len(before), len(now))
        changes = np.pad(now, (0, size - len(now)), "edge") - np.pad(before, (0, size - len(before)), "edge")
    return float(changes.max() - changes.min())


def _losses_apart(before: Candidates, now: Candidates) -> NDArray[np.int64]:
    """Return by how much the loss of candidates changes: of all, as each change is that at some group's start."""
    if before.whole != now.whole:
        raise Divergence("choice: other candidates")
    changes = []
    for owner in np.unique(np.concatenate([before.owners, now.owners])):
        groups = []
        for one in (before, now):
            mine = np.flatnonzero((one.owners == owner) & (one.widths > 0))
            order = mine[np.argsort(one.starts[mine])]
            groups.append((one.starts[order], one.losses[order]))
        starts = np.union1d(groups[0][0], groups[1][0])
        old, new = (losses[np.searchsorted(firsts, starts, side="right") - 1] for firsts, losses in groups)
        changes.append(new - old)
    return np.concatenate(changes)


class _Noise(np.ndarray[Any, np.dtype[np.int64]]):
    """Noise that tells what it is added to."""

    tape: Tape
    words: NDArray[np.uint64]
    public: tuple[Any, ...]

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **rest: Any) -> Any:  # noqa: ANN401
        plain = [one.view(np.ndarray) if isinstance(one, _Noise) else one for one in inputs]
        if ufunc is not np.add or method != "__call__":
            return getattr(ufunc, method)(*plain, **rest)
        counts = next(np.asarray(one) for one in inputs if not isinstance(one, _Noise))
        public = (*self.public, self.words.tolist())
        return self.tape.heard("count", _NO_WORDS, public, counts.copy(), lambda: np.add(*plain))


def _noise(tape: Tape, real: Callable[..., Numbers]) -> Callable[..., Numbers]:
    def sample(law: Any, scale: float, words: NDArray[np.uint64]) -> Numbers:  # noqa: ANN401 -- as of `sample`
        noise = real(law, scale, words).view(_Noise)
        noise.tape, noise.words, noise.public = tape, words, (law, scale)
        return noise

    return sample


@contextmanager
def listening(tape: Tape) -> Iterator[None]:
    """Let a tape hear all uses of mechanisms.

    Where noise is added outside of a function, `sample` returns numbers that tell what they are added to. What is
    released of the points of boxes is compared by its caller, as noise and sum are plain numbers there.
    """
    places = [*_of_sides(tape), *_of_questions(tape), *_of_choices(tape)]
    fitting = vars(ensemble)["Fitting"]

    def heard_fitting(plan: Any, rows: Any, life: int) -> Any:  # noqa: ANN401
        tape.fitted(life + 1, rows)
        return fitting(plan, rows, life)

    places.append((ensemble, "Fitting", heard_fitting))
    places += [(module, "sample", _noise(tape, vars(module)["sample"])) for module in (start, trainer, control)]
    real = [getattr(holder, name) for holder, name, _ in places]
    for holder, name, heard in places:
        setattr(holder, name, heard)
    try:
        yield
    finally:
        for (holder, name, _), one in zip(places, real, strict=True):
            setattr(holder, name, one)


def _of_sides(tape: Tape) -> list[Patch]:
    """Return what hears depths, and Stoppers."""
    answers, halts = BetweenThresholds.answers, Stopper.halts
    side_answers, side_halts, life_halts = ArmedSide.answers, ArmedSide.first_halt, vars(Ensemble)["_first_halt"]

    def depths(self: BetweenThresholds, depths: Numbers, words: Numbers) -> Any:  # noqa: ANN401
        return tape.heard("depth", words, (self,), depths.copy(), lambda: answers(self, depths, words))

    def counts(self: Stopper, counts: Numbers, level: int, words: Numbers) -> Any:  # noqa: ANN401
        return tape.heard("stopper", words, (self, level), counts.copy(), lambda: halts(self, counts, level, words))

    def of_side(self: ArmedSide, keys: Numbers, words: Numbers) -> Any:  # noqa: ANN401
        tape.armed = self
        return side_answers(self, keys, words)

    def halt_of_side(self: ArmedSide, medium: Numbers, rounds: Numbers, words: Numbers) -> Any:  # noqa: ANN401
        tape.armed, tape.decided = self, rounds > self.armed
        return side_halts(self, medium, rounds, words)

    def halt_of_life(self: Ensemble, paid: Numbers, rounds: Numbers) -> Any:  # noqa: ANN401
        tape.decided = rounds.astype(np.int64) != vars(self)["_armed"]
        return life_halts(self, paid, rounds)

    return [
        (BetweenThresholds, "answers", depths),
        (Stopper, "halts", counts),
        (ArmedSide, "answers", of_side),
        (ArmedSide, "first_halt", halt_of_side),
        (Ensemble, "_first_halt", halt_of_life),
    ]


def _of_questions(tape: Tape) -> list[Patch]:
    """Return what hears paid questions, and noisy bits."""
    ask, ask_bits = PaidQuestions.ask, BinaryThresholdOracle.ask

    def questions(self: PaidQuestions, counts: Numbers, lows: Numbers, words: Numbers, **rest: Any) -> Any:  # noqa: ANN401
        public = (self, lows.tolist(), *((name, np.asarray(one).tolist()) for name, one in sorted(rest.items())))
        return tape.heard("question", words, public, counts.copy(), lambda: ask(self, counts, lows, words, **rest))

    def bits(self: BinaryThresholdOracle, queries: Numbers, thresholds: Numbers, words: Numbers) -> Any:  # noqa: ANN401
        inside, seen = vars(self), list[Numbers]()
        law = inside["_law"]

        def smaller_side(shifted: Numbers) -> Any:  # noqa: ANN401
            seen.append(shifted.copy())
            return law.smaller_side(shifted)

        inside["_law"] = replace(law, smaller_side=smaller_side)
        given = ask_bits(self, queries, thresholds, words)
        inside["_law"] = law
        public = (law.density, queries.tolist(), thresholds.tolist())
        return tape.heard("bit", words, public, np.concatenate(seen), lambda: given)

    return [(PaidQuestions, "ask", questions), (BinaryThresholdOracle, "ask", bits)]


def _of_choices(tape: Tape) -> list[Patch]:
    """Return what hears choices."""
    choose, choose_exactly = vars(stumps)["choose"], vars(stripes)["choose_exactly"]

    def one(scale: float, losses: Numbers, words: Numbers) -> Any:  # noqa: ANN401
        return tape.heard("choice", _NO_WORDS, (scale, words.tolist()), losses, lambda: choose(scale, losses, words))

    def edge(scale: float, near: Callable[[int], Candidates], bits: Any) -> Any:  # noqa: ANN401
        return tape.heard("choice", _NO_WORDS, (scale,), near(_ALL), lambda: choose_exactly(scale, near, bits))

    return [(stumps, "choose", one), (stripes, "choose_exactly", edge), (classical, "choose_exactly", edge)]
