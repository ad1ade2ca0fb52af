"""All of a sparse vector that is public: what was told of shares, and the thresholds that none of them reached.

It sees questions and paid answers, and never a row: whoever has the ledger gives the same answers (PRIVACY.md,
section 14). What follows from it is told without the rows, so a question that comes again costs nothing.
"""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from oracle.planning.statistics.model import SparseVectorPlan
from oracle.predictors.statistics.public import Asked, Asker, PaidAnswer, PublicQuestions, Questions
from oracle.predictors.statistics.released import Interval, Released
from oracle.predictors.statistics.repeats import Repeats

__all__ = ["PublicThresholds"]


class PublicThresholds(PublicQuestions):
    """Paid counts, and for the last cells asked for the least threshold that they are below.

    Formal guarantees:
        * `answer` is a function of the plan, the questions and the paid answers.
        * What is told without the rows keeps the plan's promise wherever what it follows from does (PRIVACY.md,
          section 14, "Sparse vectors").

    Args:
        plan: The plan.
    """

    def __init__(self, plan: SparseVectorPlan) -> None:
        self._plan = plan
        self._rows = plan.declared
        self._counts: dict[bytes, int] = {}
        self._released = Released(plan.layout, plan.declared, plan.paid)
        self._free = Repeats()

    @property
    def paid(self) -> int:
        """Answers that the data paid for so far."""
        return len(self._counts)

    def learn(self, row: NDArray[np.float64], count: int) -> None:
        """Take in what was paid for: float64[width - 1], the question's cells, and their noisy count."""
        noise = self._plan.paid_noise
        self._counts[row.tobytes()] = count
        low, high = max(count - noise.above + 1, 0), min(count + noise.below, self._rows)
        self._released.add(row, Interval(float(low), float(high)))

    def export(self) -> dict[str, NDArray[np.generic]]:
        """Return all as arrays whose shapes depend on the plan only."""
        counts = np.zeros(self._plan.paid, dtype=np.int64)
        counts[: self.paid] = list(self._counts.values())
        return {"released": self._released.questions, "released_counts": counts, **self._free.export()}

    def take_back(self, arrays: Mapping[str, NDArray[np.generic]], paid: int) -> None:
        """Take back what `export` returned, after so many paid answers."""
        rows = np.array(arrays["released"], dtype=np.float64)
        for row, count in zip(rows[:paid], arrays["released_counts"][:paid].tolist(), strict=True):
            self.learn(row, count)
        self._free = Repeats.restore(arrays)

    def _leading(
        self, questions: Questions, ask: Asker
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_], PaidAnswer | None]:
        values, known = self._following(questions.rows)
        answered, stop, bought = np.ones(len(values), dtype=np.bool_), len(values), None
        spent = self.paid >= self._plan.paid
        unknown = self._unknown(questions, np.flatnonzero(~known), keep=not spent)
        if spent:
            answered[unknown] = False
        elif len(unknown):
            bought = ask(self._asked(questions.part(unknown)))
            if bought is not None:
                stop = int(unknown[bought.number])
            for number in unknown[unknown < stop]:
                self._free.add(int(questions.cells[number]), float(questions.rows[number, -1]), verified=True)
        return values[:stop], answered[:stop], bought

    def _pay(self, questions: Questions, bought: PaidAnswer) -> tuple[float, bool]:
        self.learn(questions.rows[bought.number, :-1], bought.count)
        return float(self._share(bought.count - self._plan.shift)), True

    def _following(self, rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return what follows from paid answers: values as of `Given`, and whether anything does."""
        wanted = rows[:, -1] * self._rows
        bounds = self._released.implied(rows[:, :-1])
        counts = bounds.mean(axis=1)
        near = bounds[:, 1] - bounds[:, 0] < 2.0 * self._plan.alpha * self._rows
        for number, row in enumerate(rows[:, :-1]):
            paid = self._counts.get(row.tobytes())
            if paid is not None:  # what was told already, whatever else follows
                counts[number], near[number] = paid - self._plan.shift, True
        values = np.where(near & (counts >= wanted), self._share(counts), np.nan)
        return values, near | (bounds[:, 1] < wanted)

    def _unknown(self, questions: Questions, numbers: NDArray[np.intp], *, keep: bool) -> NDArray[np.intp]:
        """Return those whose cells are not known to be below a threshold as low; if `keep`, each of them will be."""
        thresholds, cells = questions.rows[:, -1].tolist(), questions.cells.tolist()
        lowest: dict[int, float] = {}
        unknown: list[int] = []
        for number in numbers.tolist():
            least = lowest.get(cells[number])
            if least is None:
                kept = self._free.find(cells[number], len(unknown) if keep else 0)
                least = math.inf if kept is None else kept.value
            if least > thresholds[number]:
                unknown.append(number)
                if keep:
                    lowest[cells[number]] = thresholds[number]
        return np.array(unknown, dtype=np.intp)

    def _asked(self, questions: Questions) -> Asked:
        rows = questions.rows
        masks = self._plan.layout.masks(rows[:, :-1])
        return Asked(masks, rows[:, -1] * self._rows, questions.rounds, questions.hashes)

    def _share(self, counts: NDArray[np.float64] | int) -> NDArray[np.float64]:
        return np.clip(np.asarray(counts) / self._rows, 0.0, 1.0)
