import functools
from dataclasses import replace
from fractions import Fraction

import msgspec
import pytest

from oracle.errors import InputError, PlanError
from oracle.planning.boxes.model import BoxModel
from oracle.planning.boxes.tight import plan_boxes
from oracle.planning.kinds import KINDS
from oracle.planning.sharding import MAX_SHARDS, plan_shards, shard_model
from tests.predictors.plans import feature

_plan_once = functools.cache(plan_boxes)


@pytest.fixture(autouse=True)
def _planned_once(monkeypatch):
    profiles = KINDS["rectangles"].profiles
    once = replace(profiles["tight"], plan=lambda model, _progress: _plan_once(model))
    monkeypatch.setitem(profiles, "tight", once)


def _model(examples, delta=1e-3):
    return BoxModel(
        name="interval",
        predictor="rectangles",
        epsilon=8.0,
        delta=delta,
        alpha=0.4,
        examples=examples,
        first_share=0.5,
        features=(feature("a"),),
    )


def test_deltas_of_all_shards_sum_to_the_models():
    """Never above it, exactly, and at most a rounding below; some quotients had to be rounded down."""
    rounded = 0
    for delta in (1e-3, 0.1, 3e-7, 1e-18):
        for shards in range(1, MAX_SHARDS + 1):
            part = shard_model(_model(10_000, delta), shards)
            assert shards * Fraction(part.delta) <= Fraction(delta)
            assert part.delta == pytest.approx(delta / shards, rel=1e-15)
            assert part.examples == 10_000 // shards
            rounded += part.delta != delta / shards
    assert rounded > 100


def test_one_shard_is_the_model():
    """Nothing changes, so the plan and its digest stay."""
    assert shard_model(_model(6_000), 1) == _model(6_000)


def test_a_shard_plan_keeps_the_whole_models_delta():
    """Training records and rounds of all shards together spend at most the declared delta; epsilon stays."""
    plan = plan_shards(_model(8_001), 2)
    assert (plan.declared, plan.epsilon, plan.alpha) == (4_000, 8.0, 0.4)
    spent = plan.declared * plan.phases[0].delta + sum(phase.rounds * phase.delta for phase in plan.phases)
    assert 0.9e-3 < 2 * spent <= 1e-3


@pytest.mark.parametrize("shards", [0, -1, 1025])
def test_number_of_shards_is_bounded(shards):
    """The bound is told."""
    with pytest.raises(InputError, match=f"--shards = {shards}: must be from 1 to 1024"):
        shard_model(_model(6_000), shards)


def test_more_shards_than_examples():
    """A part would be empty."""
    with pytest.raises(InputError, match=r"--shards = 9: must be at most model.examples"):
        shard_model(_model(8), 9)


def _refusal(examples, shards):
    with pytest.raises(PlanError) as caught:
        plan_shards(_model(examples), shards)
    return str(caught.value).replace(",", "").replace(";", "").split()


@pytest.mark.slow
def test_small_parts_are_refused_with_what_would_do():
    """It says what each shard needs and gets; the examples and the shards it names do, and one shard more does not."""
    examples, shards = 11_000, 200
    words = _refusal(examples, shards)
    assert words[:2] == ["--shards", "="]
    needed, gets = int(words[3]), int(words[words.index("gets") + 1])
    assert gets == examples // shards < needed
    enough = int(words[words.index("declare") + 1])
    assert enough == shards * needed
    assert plan_shards(_model(enough), shards).declared == needed
    most = int(words[words.index("take") + 2])
    assert most == 2
    assert plan_shards(_model(examples), most).declared == examples // most
    assert int(_refusal(examples, most + 1)[-3]) == most


def test_not_enough_for_one_shard():
    """Only examples would help, so no number of shards is named."""
    assert "take" not in _refusal(3_000, 2)
    with pytest.raises(PlanError, match=r"model.examples = 3000: "):
        plan_shards(_model(3_000), 1)


def test_paper_models_are_refused_as_ever():
    """Their own obstacles are found by shard too."""
    model = msgspec.structs.replace(_model(10**14), profile="paper", slicing="rsc", first_share=None)
    with pytest.raises(PlanError, match=r"model.profile = 'paper'|for each shard"):
        plan_shards(model, 2)
