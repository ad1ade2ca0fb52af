"""Plans of classical learners: what they cost, what they need, and what their model files may say."""

import math
from fractions import Fraction

import msgspec
import pytest
from scipy import stats

from oracle.accounting.accountant import delta_at
from oracle.errors import InputError, PlanError
from oracle.mechanisms.grid import EDGES
from oracle.planning.boxes.model import BoxModel
from oracle.planning.classical.model import ClassicalModel, ClassicalPlan
from oracle.planning.classical.tight import (
    ENDLESS,
    box_error,
    classical_event,
    stump_error,
)
from oracle.planning.model import Feature
from oracle.planning.model_file import parse_model
from oracle.planning.planner import as_classical, plan_model, plan_sufficient, verify_plan
from oracle.planning.stumps.model import StumpsModel
from tests.predictors.plans import feature

_KINDS = pytest.mark.parametrize(
    "others", [{}, {"slicing": "whole"}, {"concept": "stump"}], ids=["faces", "whole", "stump"]
)


def model(features: int = 2, **others: object) -> ClassicalModel:
    """Return a model of features that may be bounded on both sides."""
    names = tuple(feature(f"x{number}") for number in range(features))
    fields = {"name": "m", "predictor": "classical", "epsilon": 1.0, "examples": 1, "features": names}
    fields["slicing"] = "faces"
    return ClassicalModel(**(fields | others))  # type: ignore[arg-type]


def planned(features: int = 2, **others: object) -> ClassicalPlan:
    """Return its plan."""
    plan = plan_sufficient(model(features, **others))
    assert isinstance(plan, ClassicalPlan)
    return plan


@_KINDS
@pytest.mark.parametrize("epsilon", [0.05, 0.1, 1.0, 7.3, 50.0])
@pytest.mark.parametrize("features", [1, 3])
def test_all_choices_of_a_record_pay_epsilon_and_no_more(others, epsilon, features):
    """As exact numbers, and by the accountant with delta = 0; a greater e would not fit."""
    plan = planned(features, epsilon=epsilon, **others)
    parts = plan.spread * plan.choices
    assert parts * Fraction(plan.scale) <= Fraction(epsilon)
    assert parts * Fraction(math.nextafter(plan.scale, 99.0)) > Fraction(epsilon)
    assert delta_at(classical_event(plan), plan.epsilon) == 0.0
    assert delta_at(classical_event(plan), math.nextafter(plan.epsilon, 0.0) * 0.999) == 1.0
    assert (plan.delta, plan.delta_spent(1, 10**9), plan.phases[0].rounds) == (0.0, 0.0, ENDLESS)
    assert plan.released
    verify_plan(plan)


@_KINDS
def test_the_least_number_is_the_least(others):
    """That many examples are enough for alpha, one less is not; more of them are all used and err less."""
    plan = planned(**others)
    assert plan.declared == plan.examples
    assert plan.expected_error <= plan.alpha

    def error(rows: int) -> float:
        if plan.concept == "stump":
            return stump_error(plan.scale, len(plan.sides), plan.beta, rows)
        return box_error(plan.rank, len(plan.sides), plan.share, plan.beta, rows)

    assert error(plan.examples) <= plan.alpha < error(plan.examples - 1)
    more = planned(examples=10 * plan.examples, **others)
    assert (more.examples, more.declared) == (plan.examples, 10 * plan.examples)
    assert more.expected_error < plan.expected_error / 2.0
    with pytest.raises(PlanError, match=f"{plan.examples:,} would be enough"):
        plan_model(model(examples=plan.examples - 1, **others))


@pytest.mark.parametrize(
    ("rank", "sides", "share", "rows"), [(99, 4, 1.0, 9_000), (99, 4, 0.8, 20_000), (5, 1, 1.0, 40)]
)
def test_the_error_of_boxes_is_a_binomial_tail(rank, sides, share, rows):
    """With that mass outside, the chance that a side sees 2 rank - 1 examples or fewer of it is beta/2S."""
    error = box_error(rank, sides, share, 0.05, rows)
    tail = stats.binom.cdf(2 * rank - 1, rows, error * share / sides)
    assert tail == pytest.approx(0.05 / (2 * sides), rel=1e-6)
    assert box_error(rank, sides, share, 0.05, 2 * rank - 1) == 1.0


def test_the_rank_keeps_all_edges_there_are_away():
    """2^64 edges that lose `rank` each weigh beta/2S of one that loses nothing; with a rank less they weigh more."""
    plan = planned()
    miss = plan.beta / (2.0 * len(plan.sides))
    assert EDGES * math.exp(-plan.scale * plan.rank) <= miss < EDGES * math.exp(-plan.scale * (plan.rank - 1))


def test_how_many_examples_and_how_they_grow():
    """Two features, alpha = 0.1, epsilon = 1: some ten thousand; `faces` grows with S and `whole` with its square."""
    assert 9_000 < planned().examples < 12_000
    for slicing, least, most in (("faces", 1.8, 2.6), ("whole", 3.6, 4.2)):
        ratio = planned(6, slicing=slicing).examples / planned(3, slicing=slicing).examples
        assert least < ratio < most


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scale": 0.51}, "plan.epsilon = 1.0: the choices' epsilons sum to more"),
        ({"choices": 0}, "plan.choices = 0: must be 2 and 1"),
        ({"spread": 1, "scale": 1.0}, "plan.spread = 1, plan.choices = 1: must be 2 and 1"),
        ({"slicing": "whole"}, "plan.choices = 1: must be 2 and 4"),
        ({"coin": 0.0}, "plan.coin = 0.0: must be above 0, and below 1"),  # each row would be shown to all sides
        ({"coin": 1.0}, "plan.coin = 1.0: must be above 0"),
        ({"slicing": "whole", "choices": 4, "scale": 0.125}, "plan.coin = 0.2: must be 0"),
        ({"rank": 0, "expected_error": 1.0}, "plan.rank = 0: must be at least 1"),
        ({"sides": ("x0:lower",)}, "plan.sides = 1 names: must be those of the features"),
        ({"rank": 98}, "plan.expected_error = .*: only 1.0 is proved"),
        ({"expected_error": 0.05}, "plan.expected_error = 0.05: only 0.0999.* is proved"),
    ],
)
def test_figures_that_do_not_hold_are_refused(change, message):
    """Whoever wrote the plan: each claim is made again from the others."""
    plan = planned()
    assert plan.rank == 99
    with pytest.raises(PlanError, match=message):
        verify_plan(msgspec.structs.replace(plan, **change))


def test_sides_that_would_share_their_noise_are_refused():
    """A draw is addressed by ten bits of its side's number: the 1,025th side of a box would repeat the first one's."""
    plan, names = planned(512, slicing="whole"), tuple(feature(f"x{number}") for number in range(513))
    sides = tuple(f"{one.name}:{side}" for one in names for side in ("lower", "upper"))
    more = {"features": names, "sides": sides, "choices": 1026, "scale": plan.scale / 1.1}
    verify_plan(plan)
    with pytest.raises(PlanError, match=r"plan\.sides = 1026 names: must be .* from 1 to 1024"):
        verify_plan(msgspec.structs.replace(plan, **more))


def test_other_models_know_their_classical_one():
    """It keeps promises, sides and limits; a classical one needs none beside it."""
    features = (feature("a", "lower"), feature("b", "none"))
    common = {
        "name": "m",
        "epsilon": 2.0,
        "examples": 77,
        "features": features,
        "alpha": 0.2,
        "beta": 0.01,
        "gamma": 0.5,
    }
    box = BoxModel(predictor="rectangles", share=0.5, trim=3, **common)  # type: ignore[arg-type]
    stumps = StumpsModel(predictor="stumps", first_share=0.3, **common)  # type: ignore[arg-type]
    for model, concept in ((box, "box"), (stumps, "stump")):
        other = as_classical(model)
        assert isinstance(other, ClassicalModel)
        assert {name: getattr(other, name) for name in common} == common
        assert (other.predictor, other.concept, other.share) == ("classical", concept, None)
        plan_sufficient(other)
        assert as_classical(other) is None
        assert other.slicing == "whole"  # which needs no bounds


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"concept": "tree"}, "model.concept = 'tree': must be one of box, stump"),
        ({"slicing": "sequential"}, "model.slicing = 'sequential': must be one of faces, whole"),
        ({"slicing": "whole", "share": 0.5}, 'model.share = 0.5: is for boxes with slicing = "faces" only'),
        ({"concept": "stump", "share": 0.5}, "model.share = 0.5: is for boxes"),
        ({"share": 1.5}, "model.share = 1.5: must be from 1e-06 to 1"),
        ({"share": 1e-300}, "model.share = 1e-300: must be from 1e-06 to 1"),
        ({"trim": 1}, "model.trim: unknown setting"),
        ({"profile": "paper"}, "model.profile = 'paper': must be one of tight"),
        (
            {"features": [{"name": "a"}], "slicing": "faces"},
            r"model.features\[0\].bounds is not set: must be declared",
        ),
        ({"features": [{"name": "a", "sides": "none"}], "slicing": "whole"}, "at least one feature must have a side"),
    ],
)
def test_wrong_model_files_are_refused(change, message):
    """One line names field, value and bound."""
    table = {"name": "m", "predictor": "classical", "epsilon": 1.0, "examples": 9}
    table |= {"features": [{"name": "a", "bounds": [0.0, 1.0]}]} | change
    with pytest.raises(InputError, match=message):
        parse_model({"model": table})


def test_stumps_and_whole_boxes_take_no_bounds():
    """Nothing is scaled there."""
    for change in ({"concept": "stump"}, {"slicing": "whole"}):
        table = {"name": "m", "predictor": "classical", "epsilon": 1.0, "examples": 9, "features": [{"name": "a"}]}
        assert parse_model({"model": table | change}).features == (Feature(name="a"),)


def test_what_no_number_of_examples_does_is_refused():
    """More than 2^48 examples cannot be declared."""
    with pytest.raises(PlanError, match=r"model\.alpha = 1e-06: .* examples would be needed; at most 2\^48"):
        plan_sufficient(model(400, epsilon=0.05, alpha=1e-6, slicing="whole"))


def test_as_many_features_as_stumps_have():
    """A stump is one choice, whatever it is chosen from; each side of a box is one of its own."""
    assert len(planned(1024, concept="stump").sides) == 2048
    assert len(planned(512).sides) == 1024
    for concept, most in (("box", 512), ("stump", 1024)):
        features = [{"name": f"x{number}", "bounds": [0.0, 1.0]} for number in range(most + 1)]
        table = {"name": "m", "predictor": "classical", "epsilon": 1.0, "examples": 9, "concept": concept}
        with pytest.raises(InputError, match=f"must be 1 to {most} features"):
            parse_model({"model": table | {"features": features}})
