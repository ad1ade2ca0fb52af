"""Profile `paper`: the paper's sizes, that no others are accepted, and what is wrong with its Claim 5.12."""

import math

import msgspec
import numpy as np
import pytest

from oracle.errors import PlanError
from oracle.mechanisms.addresses import Addresses
from oracle.mechanisms.keys import PhaseKey
from oracle.planning.distribution.model import DistributionModel, DistributionPlan, PartitionPlan
from oracle.planning.distribution.paper import paper_rows, plan_distribution_paper
from oracle.planning.features import Feature
from oracle.planning.planner import verify_plan
from oracle.predictors.distribution.paper import partition

_SIZES = {"rows": 1, "partition_slope": 0.01, "threshold_slope": 0.01, "slope": 0.01, "low": 1, "high": 1}


def _plan(alpha: float = 0.1, examples: int = 1, **changes: float) -> DistributionPlan:
    model = DistributionModel(
        name="d",
        predictor="distribution",
        profile="paper",
        epsilon=1.0,
        examples=examples,
        alpha=alpha,
        features=(Feature(name="v"),),
        **changes,  # type: ignore[arg-type]
    )
    return plan_distribution_paper(model, lambda _step: None)


@pytest.mark.parametrize(
    ("alpha", "rows", "chunks"), [(0.1, 350_160, 32), (0.05, 1_026_820, 64), (0.01, 11_223_003, 256)]
)
def test_the_papers_rows(alpha, rows, chunks):
    """350 thousand, and with logarithms to base 2 a million and eleven: those of the cuts are what takes most."""
    plan = _plan(alpha)
    verify_plan(plan)
    assert (plan.examples, plan.paid) == (rows, chunks)
    assert plan.nominal
    natural = 24.0 * math.log(4.0 / alpha) ** 2.5 * math.log(40.0) / (alpha * 0.25)
    inner = plan.partition.rows if plan.partition else 0
    assert max(6.0 * inner / alpha, natural) == pytest.approx({0.1: 350e3, 0.05: 712e3, 0.01: 3.7e6}[alpha], rel=0.01)


def test_more_rows_keep_the_sizes():
    """Chunks are cut to the size that the theorem is about."""
    plan = _plan(examples=10**6)
    verify_plan(plan)
    assert plan.partition == _plan().partition
    assert (plan.declared, plan.examples) == (10**6, _plan().examples)


@pytest.mark.parametrize("field", [*_SIZES, "examples", "declared", "comparisons", "paid", "error", "memory_bytes"])
@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_tampered_plans_are_refused(field, factor):
    """Each figure, in both directions."""
    plan = _plan()
    assert isinstance(plan.partition, PartitionPlan)
    if field in _SIZES:
        value = type(getattr(plan.partition, field))(getattr(plan.partition, field) * factor)
        mutant = msgspec.structs.replace(plan, partition=msgspec.structs.replace(plan.partition, **{field: value}))
    else:
        value = type(getattr(plan, field))(getattr(plan, field) * factor)
        mutant = msgspec.structs.replace(plan, **{field: value})
    with pytest.raises(PlanError, match="plan"):
        verify_plan(mutant)


@pytest.mark.parametrize(
    "changes", [{"epsilon": 1.1}, {"epsilon": 0.9}, {"delta": 2e-6}, {"delta": 5e-7}, {"beta": 0.06}, {"alpha": 0.11}]
)
def test_other_promises_have_other_sizes(changes):
    """Each promise decides some figure."""
    with pytest.raises(PlanError, match="plan"):
        verify_plan(msgspec.structs.replace(_plan(), **changes))


def test_there_are_so_many_chunks_at_most():
    """An address has room for 1,024 of them."""
    with pytest.raises(PlanError, match=r"model\.alpha = 0\.0015: must be at least 1/512"):
        _plan(0.0015)
    assert _plan(0.002).paid == 1024


def _chunks(rows: tuple[int, ...], cut: int) -> tuple[set[int], set[int]]:
    return set(rows[: cut - 1]), set(rows[cut - 1 :])


def _alike(one: tuple[set[int], set[int]], other: tuple[set[int], set[int]]) -> bool:
    """Return whether chunks differ by two elements at most that one lacks and the other has."""
    return sum(len(left ^ right) for left, right in zip(one, other, strict=True)) <= 2


def test_claim_5_12_is_false():
    """Of eight rows the third taken away and one put in behind the sixth: cuts at 3 and at 4 both lead to 3 only."""
    before, after = (10, 20, 30, 40, 50, 60, 70, 80), (10, 20, 40, 50, 60, 65, 70, 80)
    follow = {
        cut: [other for other in range(1, 10) if _alike(_chunks(before, cut), _chunks(after, other))]
        for cut in range(1, 10)
    }
    assert follow[3] == follow[4] == [3]
    images = [cuts[0] for cuts in follow.values() if len(cuts) == 1]
    assert len(set(images)) < len(images), "so there is no bijection"


@pytest.mark.parametrize("seed", range(30))
def test_chunks_never_overlap(seed):
    """Raw cuts cross, and lie outside the rows, where noise is wide; those that are taken do neither."""
    made = _plan().partition
    assert isinstance(made, PartitionPlan)
    sizes = msgspec.structs.replace(made, partition_slope=0.05)
    plan = msgspec.structs.replace(_plan(), declared=200, paid=32, partition=sizes)
    cuts = partition(plan, Addresses(PhaseKey(bytes([seed] * 32)), 2))
    assert len(cuts) == 33
    assert (cuts[0], cuts[-1]) == (0, 200)
    assert (np.diff(cuts) >= 0).all()
    assert ((cuts >= 0) & (cuts <= 200)).all()
    assert (np.diff(cuts) == 0).any(), "the noise is so wide that raw cuts cross"


def test_rows_are_those_of_the_theorem():
    """The larger one of two terms."""
    plan = _plan()
    model = DistributionModel(
        name="d", predictor="distribution", epsilon=1.0, examples=1, alpha=0.1, features=(Feature(name="v"),)
    )
    assert paper_rows(model) == plan.examples
