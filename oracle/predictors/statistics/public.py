"""All of a statistics predictor that is public: it sees questions and paid answers, and never a row.

So that answers are a function of these alone is what this file's imports show; a simulator that is given the ledger's
paid answers instead of the data gives the same ones (PRIVACY.md, section 14).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from oracle.planning.statistics.model import StatisticsPlan
from oracle.predictors.statistics import repeats
from oracle.predictors.statistics.hypothesis import Hypothesis
from oracle.predictors.statistics.released import Interval, Released
from oracle.predictors.statistics.repeats import Kept, Repeats
from oracle.predictors.statistics.start import Marginals
from oracle.predictors.statistics.sums import Masks

__all__ = ["Asked", "Asker", "Given", "PaidAnswer", "PublicQuestions", "PublicSide", "Questions"]

_FEW: Final = 64
"""Questions that are looked at together behind a paid answer, and before none was; then twice as many each time."""

_MOVES: Final = 63
"""Projections behind each paid answer at most; with its own it is what the bound on K charges for rounding."""

_SLACK: Final = 0.05
"""How far outside an interval a hypothesis may be, as a part of its width. Utility only."""

_PASSES: Final = 5
"""Rounds of projections on what was released, at most, behind each paid answer. Utility only."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Questions to be asked of the data, in order.

    Attributes:
        masks: What they ask for.
        expected: float64[n], rows that the hypothesis expects; of a sparse vector, that are the threshold.
        rounds: uint64[n], their rounds.
        hashes: uint64[n], their hashes.
    """

    masks: Masks
    expected: NDArray[np.float64]
    rounds: NDArray[np.uint64]
    hashes: NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class PaidAnswer:
    """The first of some questions that the data paid for.

    Attributes:
        number: Which one, from 0; those before it are free.
        above: Whether more rows than expected satisfy it; else fewer.
        count: How many, with noise.
    """

    number: int
    above: bool
    count: int


class Asker(Protocol):
    """What asks the data."""

    def __call__(self, asked: Asked) -> PaidAnswer | None:
        """Return the first paid answer, or None if all are free."""
        ...


@dataclass(frozen=True, slots=True)
class Questions:
    """Questions in order.

    Attributes:
        rows: float64[n, width].
        rounds: uint64[n], their rounds.
        hashes: uint64[n], hashes of the rows; equal for equal rows only.
        cells: uint64[n], the same of what a row asks for, whatever its threshold.
    """

    rows: NDArray[np.float64]
    rounds: NDArray[np.uint64]
    hashes: NDArray[np.uint64]
    cells: NDArray[np.uint64]

    def part(self, which: slice | NDArray[np.intp]) -> "Questions":
        """Return some of them."""
        return Questions(self.rows[which], self.rounds[which], self.hashes[which], self.cells[which])


class Given(NamedTuple):
    """Answers to questions in order.

    Attributes:
        values: float64[n], shares; of threshold questions, of what is above, and NaN for what is below.
        verified: bool[n], whether they keep the plan's promise, which is made for its first `questions`; of threshold
            questions, False where nothing is known and all paid answers are spent.
        released: What was paid for, in order; `number` is the question's.
    """

    values: NDArray[np.float64]
    verified: NDArray[np.bool_]
    released: Sequence[PaidAnswer]


class PublicQuestions(ABC):
    """Answers questions by what is public, and learns from what is paid for.

    Formal guarantees:
        * *Batch-blind*: how questions are cut into calls makes no difference.
    """

    def answer(self, questions: Questions, ask: Asker) -> Given:
        """Answer questions in order; `ask` asks the data."""
        count = len(questions.rows)
        values, verified = np.empty(count), np.empty(count, dtype=np.bool_)
        released: list[PaidAnswer] = []
        start, size = 0, _FEW
        while start < count:
            given, known, bought = self._leading(questions.part(slice(start, start + size)), ask)
            stop = start + len(given)
            values[start:stop], verified[start:stop] = given, known
            size = min(2 * size, repeats.CAPACITY)  # so that none that is kept here goes before it ends
            if bought is not None:
                released.append(replace(bought, number=stop))
                values[stop], verified[stop] = self._pay(questions, released[-1])
                stop, size = stop + 1, _FEW
            start = stop
        return Given(values, verified, released)

    @abstractmethod
    def _leading(
        self, questions: Questions, ask: Asker
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_], PaidAnswer | None]:
        """Answer the questions before the first one that is paid for; return values, `verified`, and what was paid."""

    @abstractmethod
    def _pay(self, questions: Questions, bought: PaidAnswer) -> tuple[float, bool]:
        """Learn from a paid answer; return the answer to its question, and whether it is verified."""


class PublicSide(PublicQuestions):
    """Hypothesis, released answers and repeated questions of one run.

    Formal guarantees:
        * `answer` is a function of the plan, the hypothesis that it started from, the questions and the paid answers.
        * Where the plan is `complete`, no row is blanked and each interval that is released holds: every paid answer
          lowers KL(data || hypothesis) by at least 2 `gap`^2, and no other step raises it, but for rounding
          (PRIVACY.md, Theorem 24).

    Args:
        plan: The plan.
        hypothesis: What to start from.
        start: int64, the noisy marginals that were released before; empty for a uniform start. What is learned later
            must agree with them still.
    """

    def __init__(self, plan: StatisticsPlan, hypothesis: Hypothesis, start: NDArray[np.int64]) -> None:
        self._plan = plan
        self._layout = plan.layout
        self._rows = float(plan.declared)
        self.hypothesis = hypothesis
        self._marginals = Marginals(plan, start)
        self.released = Released(self._layout, plan.declared, plan.paid)
        self.repeats = Repeats()
        self.paid = 0
        self.moved = 0.0

    def _leading(
        self, questions: Questions, ask: Asker
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_], PaidAnswer | None]:
        asked = questions.hashes.tolist()
        firsts: dict[int, int] = {}
        known: list[Kept | None] = []
        for number, question in enumerate(asked):
            kept = None if question in firsts else self.repeats.find(question, len(firsts))
            if kept is None:
                firsts.setdefault(question, number)
            known.append(kept)
        fresh = np.array(list(firsts.values()), dtype=np.intp)
        found, bought = self._fresh(questions.part(fresh), ask) if len(fresh) else ([], None)
        stop = len(asked) if bought is None else int(fresh[bought.number])
        answers = dict(zip(firsts, found, strict=False))
        given = [kept or answers[question] for kept, question in zip(known[:stop], asked, strict=False)]
        for question, kept in answers.items():
            self.repeats.add(question, kept.value, verified=kept.verified)
        values, verified = [kept.value for kept in given], [kept.verified for kept in given]
        return np.array(values), np.array(verified, dtype=np.bool_), bought

    def _fresh(self, questions: Questions, ask: Asker) -> tuple[list[Kept], PaidAnswer | None]:
        """Answer different questions that are not kept, before the first one that is paid for."""
        rows, rounds, hashes = questions.rows, questions.rounds, questions.hashes
        masks = self._layout.masks(rows)
        shares = self.hypothesis.shares(masks)
        bounds = self.released.implied(rows)
        certain = bounds[:, 1] - bounds[:, 0] <= 2.0 * self._plan.alpha * self._rows
        spent = self.paid >= self._plan.paid
        bought = None
        if not spent and not certain.all():
            doubtful = np.flatnonzero(~certain)
            chosen = [mask[doubtful] for mask in masks]
            bought = ask(Asked(chosen, shares[doubtful] * self._rows, rounds[doubtful], hashes[doubtful]))
            if bought is not None:
                bought = replace(bought, number=int(doubtful[bought.number]))
        stop = len(rows) if bought is None else bought.number
        values = self._within(shares[:stop], bounds[:stop], certain[:stop])
        verified = (certain[:stop] | (not spent)) & (rounds[:stop] < self._plan.questions)
        return list(map(Kept, values.tolist(), verified.tolist())), bought

    def _within(
        self, shares: NDArray[np.float64], bounds: NDArray[np.float64], certain: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Return the answers: the hypothesis' shares, as near as what is known allows."""
        low, high = bounds[:, 0] / self._rows, bounds[:, 1] / self._rows
        values = np.clip(shares, low, high)
        alpha = self._plan.alpha
        return np.where(certain, np.clip(values, high - alpha, low + alpha), values)

    def _pay(self, questions: Questions, bought: PaidAnswer) -> tuple[float, bool]:
        row = questions.rows[bought.number]
        self.paid += 1
        masks = [mask[0] for mask in self._layout.masks(row[None])]
        found = self._interval(bought)
        near = (found.low if bought.above else found.high) / self._rows
        self.moved += self.hypothesis.move(masks, self._possible(near))
        self.released.add(row, found)
        self._project()
        bounds = np.array([[found.low, found.high]])
        share = np.array([self.hypothesis.share(masks)])
        value = float(self._within(share, bounds, np.array([True]))[0])
        verified = int(questions.rounds[bought.number]) < self._plan.questions
        self.repeats.add(int(questions.hashes[bought.number]), value, verified=verified)
        return value, verified

    def _interval(self, bought: PaidAnswer) -> Interval:
        """Return the rows that satisfy a question, given its noisy count: but for beta, over all questions."""
        noise = self._plan.paid_noise
        up, down = noise.above - 1, noise.below  # of noise on the count; on its negative it is the other way round
        low, high = (up, down) if bought.above else (down, up)
        return Interval(min(max(bought.count - low, 0.0), self._rows), max(min(bought.count + high, self._rows), 0.0))

    def _possible(self, share: float) -> float:
        """Return a share that a hypothesis can have: half a row at least, and all but half a row at most."""
        half = 0.5 / self._rows
        return min(max(share, half), 1.0 - half)

    def _project(self) -> None:
        """Bring the hypothesis nearer to all that was released, by cycles of I-projections; these are few."""
        moves = 0
        for _ in range(self._marginals.passes(_PASSES)):
            self._marginals.mend(self.hypothesis)
            rows = self.released.questions[: len(self.released)]
            shares = self.hypothesis.shares(self._layout.masks(rows)) * self._rows
            bounds = self.released.bounds[: len(self.released)]
            slack = _SLACK * (self._plan.paid_noise.above + self._plan.paid_noise.below)
            outside = np.flatnonzero((shares < bounds[:, 0] - slack) | (shares > bounds[:, 1] + slack))
            if not len(outside) or moves == _MOVES:
                return
            outside = outside[: _MOVES - moves]
            moves += len(outside)
            for number in outside:
                self._correct(rows[number], bounds[number])

    def _correct(self, row: NDArray[np.float64], bounds: NDArray[np.float64]) -> None:
        masks = [mask[0] for mask in self._layout.masks(row[None])]
        share = self.hypothesis.share(masks)
        target = self._possible(min(max(share, bounds[0] / self._rows), bounds[1] / self._rows))
        if target != share:
            self.moved += self.hypothesis.move(masks, target)
