"""Profile `paper` against a transcription of the lecture's Algorithm 2 that knows no batch and no NumPy sum."""

import math
from itertools import product

import mpmath
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.mechanisms.keys import PhaseKey
from oracle.mechanisms.noise.tables import sample
from oracle.planning.attributes import Attribute
from oracle.planning.plan import Phase
from oracle.planning.questions import QuestionLimits
from oracle.planning.statistics.model import NumericSparsePlan, StatisticsPlan
from oracle.predictors.kinds import new_trainer, restore_predictor

_ATTRIBUTES = (Attribute(name="a", categories=("x", "y", "other")), Attribute(name="b", bounds=(0.0, 4.0), bins=4))
_SHAPE = (4, 5)
_CELLS = list(product(range(4), range(5)))
_ROWS = 400


def _plan(threshold: float, rate: float, paid: int) -> StatisticsPlan:
    sizes = NumericSparsePlan(threshold=threshold, threshold_slope=0.4, slope=0.2, value_slope=0.3, rate=rate)
    return StatisticsPlan(
        name="s",
        predictor="statistics",
        profile="paper",
        features=(),
        attributes=_ATTRIBUTES,
        epsilon=1.0,
        delta=1e-6,
        alpha=0.1,
        beta=0.05,
        gamma=1.0,
        examples=_ROWS,
        declared=_ROWS,
        questions=1000,
        paid=paid,
        limits=QuestionLimits(),
        phases=(Phase(phase=1, rounds=2**49, delta=1e-6),),
        memory_bytes=1 << 20,
        gap=0.01,
        complete=False,
        first_margin=0,
        margin=0,
        paper=sizes,
    )


class _Transcription:
    """Algorithm 2, question by question, in whole weights."""

    def __init__(self, plan: StatisticsPlan, secret: bytes, rows: list[tuple[int, int]]) -> None:
        assert isinstance(plan.paper, NumericSparsePlan)
        self._plan, self._sizes, self._rows = plan, plan.paper, rows
        self._addresses = Addresses(PhaseKey(secret).ratchet(), plan.width)
        self._weights = {cell: max(math.ceil(2.0**52 / len(_CELLS)), 1) for cell in _CELLS}
        self._paid = 0

    def _noise(self, slope: float, purpose: Purpose, number: int, side: int, question: np.ndarray | None) -> int:
        hashes = None if question is None else self._addresses.hashes(question, np.array([True]))
        words = self._addresses.words(purpose, np.array([number], "u8"), np.array([side], "u8"), hashes)
        return int(sample("laplace", slope, words[0])[0])

    def answer(self, number: int, question: set[tuple[int, int]], row: np.ndarray) -> tuple[float, int]:
        total = sum(self._weights.values())
        share = float(sum(self._weights[cell] for cell in question)) / float(total)
        if self._paid >= self._plan.paid:
            return share, self._paid
        n, sizes = self._plan.declared, self._sizes
        true = sum(cell in question for cell in self._rows)
        limit = math.ceil(sizes.threshold * n)
        limit += self._noise(sizes.threshold_slope, Purpose.THRESHOLD, self._paid, 0, None)
        gaps = (true - math.ceil(share * n), math.floor(share * n) - true)
        for side in (0, 1):
            if gaps[side] + self._noise(sizes.slope, Purpose.QUESTION, number, side, row) >= limit:
                gap = gaps[side] + self._noise(sizes.value_slope, Purpose.QUESTION, number, 2, row)
                count = round(share * n) + (gap if side == 0 else -gap)
                self._paid += 1
                self._learn(question, lower=count / n < share)
                return min(max(count / n, 0.0), 1.0), self._paid
        return share, self._paid

    def _learn(self, question: set[tuple[int, int]], *, lower: bool) -> None:
        shrunk = float(mpmath.exp(-mpmath.mpf(self._sizes.rate)))
        factors = {cell: shrunk if (cell in question) == lower else 1.0 for cell in _CELLS}
        inside = float(sum(self._weights[cell] for cell in question))
        outside = float(sum(self._weights.values())) - inside
        within, beyond = (shrunk, 1.0) if lower else (1.0, shrunk)
        whole = 2.0**52 / (within * inside + beyond * outside)
        self._weights = {cell: max(math.ceil(self._weights[cell] * (factors[cell] * whole)), 1) for cell in _CELLS}


def _masks(chosen: tuple[set[int], set[int]]) -> list[np.ndarray]:
    return [np.isin(np.arange(cells), list(part)) for cells, part in zip(_SHAPE, chosen, strict=True)]


_QUESTION = st.tuples(st.sets(st.integers(0, 3), min_size=1), st.sets(st.integers(0, 4), min_size=1))


@settings(max_examples=60)
@given(
    questions=st.lists(_QUESTION, max_size=40),
    secret=st.binary(min_size=32, max_size=32),
    plan=st.builds(
        _plan, st.sampled_from([0.02, 0.1, 0.4]), st.sampled_from([0.05, 0.5, 1.0]), st.sampled_from([1, 3, 50])
    ),
    cut=st.integers(0, 40),
)
def test_the_same_answers_bit_for_bit(questions, secret, plan, cut):
    """In two calls with a restored state between them."""
    rows = [_CELLS[(7 * number * number + number) % 11] for number in range(_ROWS)]
    trainer = new_trainer(plan, secret)
    trainer.add(np.array(rows, dtype=np.float64), np.ones(_ROWS, dtype=np.bool_))
    predictor = trainer.finish()
    asked = np.array([plan.layout.row(_masks(question)) for question in questions]).reshape(-1, plan.width)
    given_answers, spent = [], []
    for part in (asked[:cut], asked[cut:]):
        answers = predictor.answer(part, np.ones(len(part), dtype=np.bool_))
        assert answers.values is not None
        assert answers.paid is not None
        given_answers += answers.values.tolist()
        spent += answers.paid.tolist()
        predictor = restore_predictor(plan, predictor.export())
    expected = _Transcription(plan, secret, rows)
    for number, (one, row) in enumerate(zip(questions, asked, strict=True)):
        cells = {cell for cell in _CELLS if cell[0] in one[0] and cell[1] in one[1]}
        assert (given_answers[number], spent[number]) == expected.answer(number, cells, row[None])


def test_the_lecture_works_where_there_are_rows_enough():
    """A skewed table, all its questions about one cell: the hypothesis learns it, and stops paying."""
    plan = _plan(0.1, 0.1, 200)
    rows = np.tile([[0.0, 0.0]], (_ROWS, 1))
    trainer = new_trainer(plan, bytes(32))
    trainer.add(rows, np.ones(_ROWS, dtype=np.bool_))
    predictor = trainer.finish()
    row = plan.layout.row(_masks(({0}, {0})))
    values, spent = [], 0
    for _ in range(300):
        answers = predictor.answer(row[None], np.ones(1, dtype=np.bool_))
        assert answers.values is not None
        assert answers.paid is not None
        values.append(float(answers.values[0]))
        spent = int(answers.paid[0])
    assert values[0] > 0.8
    assert all(value > 0.6 for value in values)
    assert spent < 150
