"""Profile `paper` against a transcription of Figs. 6 to 10 that knows no batch and no array."""

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.mechanisms.keys import PhaseKey
from oracle.mechanisms.noise.tables import sample
from oracle.planning.distribution.model import DistributionPlan, PartitionPlan, domain_of
from oracle.predictors.kinds import new_trainer, restore_predictor
from oracle.predictors.values import Values
from tests.predictors.distribution.values import FEATURES, any_questions, ask, draw_values
from tests.predictors.plans import tiny_distribution_plan

_ROWS = 120


def _plan(kind: str, inner: int, slope: float) -> DistributionPlan:
    """Return a plan in form only: few rows, much noise, and chunks that are cut and filled."""
    plan = tiny_distribution_plan(2000, of=FEATURES[kind], profile="paper", alpha=0.25, questions=9)
    sizes = PartitionPlan(
        rows=inner,
        partition_slope=slope,
        threshold_slope=2.0 * slope,
        slope=slope,
        low=math.ceil(inner / 3),
        high=2 * inner // 3,
    )
    return msgspec.structs.replace(plan, declared=_ROWS, examples=_ROWS, partition=sizes)


class _BetweenThresholds:
    """Fig. 7, in rows, with the noise of one chunk."""

    def __init__(self, sizes: PartitionPlan, mu: int) -> None:
        self.low, self.high = sizes.low + mu, sizes.high - mu

    def ask(self, count: int, nu: int) -> str:
        if count + nu < self.low:
            return "L"
        return "R" if count + nu > self.high else "T"


class _InteriorPoint:
    """Fig. 8."""

    def __init__(self, rows: list[Any], sizes: PartitionPlan, mu: int) -> None:
        self.rows, self.thresholds = rows, _BetweenThresholds(sizes, mu)
        self.pivot: Any = None

    def ask(self, value: Any, nu: int) -> str:
        if self.pivot is not None:
            return "L" if value < self.pivot else "R"
        answer = self.thresholds.ask(sum(row <= value for row in self.rows), nu)
        if answer == "T":
            self.pivot = value
            return "R"
        return answer


class _Transcription:
    """Figs. 9, 10 and 6."""

    def __init__(self, plan: DistributionPlan, secret: bytes, rows: np.ndarray) -> None:
        assert isinstance(plan.partition, PartitionPlan)
        self.plan, self.sizes, self.values = plan, plan.partition, Values(plan.features)
        genesis = PhaseKey(secret)
        self.genesis, self.phase = (Addresses(key, plan.width) for key in (genesis, genesis.ratchet()))
        ordered = sorted(self.key(row) for row in rows)
        cuts = self.cuts()
        self.chunks = []
        for number in range(plan.paid):
            inside = ordered[cuts[number] - 1 : cuts[number + 1] - 1][
                : self.sizes.rows
            ]  # the rest is beyond all values
            mu = self.noise(self.phase, Purpose.THRESHOLD, self.sizes.threshold_slope, 0, number, None)
            self.chunks.append(_InteriorPoint(inside, self.sizes, mu))
        self.asked = 0

    def key(self, row: Any) -> Any:
        return self.values.column(np.array([row]), 0)[0].item()

    @staticmethod
    def noise(addresses: Addresses, purpose: Purpose, slope: float, number: int, side: int, mark: int | None) -> int:  # noqa: PLR0913, PLR0917
        hashes = None if mark is None else np.array([mark], dtype=np.uint64)
        words = addresses.words(purpose, np.array([number], "u8"), np.array([side], "u8"), hashes)
        return int(sample("laplace", slope, words[0])[0])

    def cuts(self) -> list[int]:
        """Fig. 10: t_0 to t_M, their running maximum from 1 to n + 1."""
        depth = int(math.log2(self.plan.paid))
        cuts = [1]
        for number in range(1, self.plan.paid):
            bits = format(number, f"0{depth}b")
            prefixes = [bits[:length] for length in range(depth + 1)]
            eta = sum(
                self.noise(self.genesis, Purpose.SLICE, self.sizes.partition_slope, int("1" + prefix, 2), 0, None)
                for prefix in prefixes
            )
            cuts.append(min(max(cuts[-1], number * _ROWS // self.plan.paid + eta), _ROWS + 1))
        return [*cuts, _ROWS + 1]

    def share(self, value: Any, number: int, mark: int) -> float:
        """Fig. 9."""
        self.asked += 1
        answers = [
            chunk.ask(value, self.noise(self.phase, Purpose.QUESTION, self.sizes.slope, number, side, mark))
            for side, chunk in enumerate(self.chunks)
        ]
        return answers.count("R") / self.plan.paid

    def answer(self, row: list[float], number: int, mark: int) -> tuple[float, list[float], int, bool]:
        domain, value, step = domain_of(self.plan.feature), row[:-1], 0
        if row[-1] != -1.0:  # Fig. 6, on 1 to T
            low, high = 0, domain.size
            while high - low > 1:
                middle = -(-(low + high) // 2)
                if self.share(self.key(domain.row(middle - 1)), number, mark ^ step) >= row[-1]:
                    high = middle
                else:
                    low = middle
                step += 1
            value = list(domain.row(high - 1))
        share = self.share(self.key(value), number, mark ^ step)
        halted = sum(chunk.pivot is not None for chunk in self.chunks)
        return share, value, halted, self.asked <= self.plan.comparisons


@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(list(FEATURES)),
    sizes=st.tuples(st.sampled_from([6, 15, 40]), st.sampled_from([0.3, 1.0])),
    secret=st.binary(min_size=32, max_size=32),
    seed=st.integers(0, 2**20),
    cut=st.integers(0, 20),
)
def test_the_same_answers_bit_for_bit(kind, sizes, secret, seed, cut):
    """In two calls with a restored state between them: shares, quantiles, what halted, and what is verified."""
    plan, draws = _plan(kind, *sizes), np.random.default_rng(seed)
    rows = draw_values(plan.feature, _ROWS, draws)
    trainer = new_trainer(plan, secret)
    trainer.add(rows, np.ones(_ROWS, dtype=np.bool_))
    predictor, questions = trainer.finish(), any_questions(plan, 20, draws)
    told: list[Any] = []
    for part in (questions[:cut], questions[cut:]):
        answers = ask(predictor, part)
        told += zip(
            *(array.tolist() for array in (answers.values, answers.found, answers.paid, answers.verified)), strict=True
        )
        predictor = restore_predictor(plan, predictor.export())
    expected = _Transcription(plan, secret, rows)
    marks = expected.phase.hashes(questions, np.ones(20, dtype=np.bool_)).tolist()
    for number, row in enumerate(questions.tolist()):
        assert told[number] == expected.answer(row, number, marks[number])


@pytest.mark.parametrize("seed", range(5))
def test_it_keeps_its_error_where_there_are_rows_enough(seed):
    """At the paper's sizes, also where questions hammer at one value."""
    plan = tiny_distribution_plan(5000, profile="paper", alpha=0.25, epsilon=16.0)
    draws = np.random.default_rng(seed)
    rows = draws.normal(size=(plan.declared, 1))
    trainer = new_trainer(plan, bytes([seed] * 32))
    trainer.add(rows, np.ones(len(rows), dtype=np.bool_))
    questions = any_questions(plan, 300, draws)
    answers = ask(trainer.finish(), questions)
    ordered = np.sort(rows[:, 0])
    upto = np.searchsorted(ordered, answers.found[:, 0], side="right") / plan.declared
    assert (np.abs(answers.values - upto)[answers.verified] <= plan.alpha).all()
    assert 0 < answers.verified.sum() < 300, "a search for a quantile takes many questions"
    assert answers.paid[-1] == plan.paid
