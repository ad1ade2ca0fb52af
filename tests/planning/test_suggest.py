"""What n rows buy: the planner accepts each figure, and refuses one that is a tenth better."""

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.errors import PlanError
from oracle.planning.boxes.model import side_names
from oracle.planning.ensemble.model import EnsembleModel
from oracle.planning.model import Model
from oracle.planning.model_file import parse_model
from oracle.planning.planner import plan_model, quick_examples
from oracle.planning.schemas import range_of
from oracle.planning.suggest import Offer, lines_of, nearest, offer_of, with_sides
from tests.planning.ensemble.models import ensemble_model


def model(sides: str = "both", features: int = 1, **changes: object) -> Model:
    """Return a model whose features have these sides."""
    columns = [{"name": f"f{number}", "sides": sides, "bounds": [0.0, 1.0]} for number in range(features)]
    table = {"name": "m", "predictor": "rectangles", "epsilon": 4.0, "examples": 40_000, "features": columns}
    return parse_model({"model": {**table, **changes}})


def planned(line: Model, **changes: float) -> bool:
    """Return whether the planner makes a plan of it."""
    try:
        plan_model(msgspec.structs.replace(line, **changes))
    except PlanError:
        return False
    return True


def check(line: Model, field: str, better: float) -> None:
    """Assert that the figure on offer has a plan, and that what is `better` times it has none."""
    figure = getattr(offer_of(line), field)
    assert figure is not None
    assert planned(line, **{field: figure})
    beyond = int(figure * better) if field == "examples" else figure * better
    assert beyond < range_of(Model, field)[0] or not planned(line, **{field: beyond})


@pytest.mark.parametrize("field", ["epsilon", "alpha", "examples"])
@pytest.mark.parametrize(
    "line",
    [
        model(),
        model(features=3, slicing="sequential", epsilon=2.0, examples=400_000),
        model("upper", features=2, epsilon=20.0, examples=1_800, alpha=0.3, gamma=0.3),
        model(predictor="stumps", features=5),
    ],
    ids=["faces", "sequential", "few rows", "stumps"],
)
def test_a_searched_figure_has_a_plan_and_a_tenth_better_has_none(line: Model, field: str) -> None:
    """Never more optimistic than the planner, and not far from the least that it accepts."""
    check(line, field, 0.9)


@settings(max_examples=4)
@given(
    epsilon=st.floats(2.0, 30.0),
    alpha=st.floats(0.05, 0.5),
    rows=st.floats(math.log(500), math.log(1e7)),
    features=st.integers(1, 4),
    slicing=st.sampled_from(["faces", "sequential"]),
)
def test_any_box_that_is_enough_without_a_search_has_a_plan(
    epsilon: float, alpha: float, rows: float, features: int, slicing: str
) -> None:
    """Whatever the model: as many rows as `quick_examples` asks for are never refused."""
    line = model(features=features, slicing=slicing, epsilon=epsilon, alpha=alpha, examples=round(math.exp(rows)))
    wanted = quick_examples(line)
    if quick_examples(msgspec.structs.replace(line, examples=wanted)) <= wanted:
        assert planned(line, examples=wanted)


@given(
    epsilon=st.floats(0.05, 50.0),
    alpha=st.floats(1e-3, 0.5),
    rows=st.integers(1_000, 10**7),
    field=st.sampled_from(["epsilon", "alpha", "examples"]),
    concept=st.sampled_from(["box", "stump"]),
)
def test_a_classical_figure_is_within_one_percent(
    epsilon: float, alpha: float, rows: int, field: str, concept: str
) -> None:
    """Its planner takes no time, so the figure is the least but for the last of three digits."""
    line = model(predictor="classical", concept=concept, epsilon=epsilon, alpha=alpha, examples=rows)
    if getattr(offer_of(line), field) is None:
        assert not planned(line, **{field: range_of(Model, field)[1]})
    else:
        check(line, field, 1.0 / 1.011)


def test_the_first_shares_are_tried_where_the_search_finds_none() -> None:
    """A search that runs into sizes beyond what noise tables can be was an error, where the shares it began with do."""
    line = model("upper", epsilon=0.12, alpha=0.4, examples=2_500_000)
    assert planned(line)


@pytest.mark.parametrize(
    ("count", "sides"), [(4, ["both", "both"]), (3, ["both", "lower"]), (2, ["both", "none"]), (1, ["lower", "none"])]
)
def test_fewer_sides_are_the_first_ones(count: int, sides: list[str]) -> None:
    """Features that have none left stay as columns."""
    line = with_sides(model(features=2), count)
    assert [feature.sides for feature in line.features] == sides
    assert side_names(line) == side_names(model(features=2))[:count]


def offers(of: Model, *, near: bool = False) -> list[Offer]:
    """Return all offers."""
    return [offer_of(line) for line in lines_of(of, near=near)]


def test_every_predictor_and_slicing_is_there_once() -> None:
    """With all sides, with as many as the rows buy, and with one; stumps choose among all."""
    found = offers(model(features=2, examples=90_000))
    places = {(offer.predictor, offer.concept, offer.slicing) for offer in found}
    assert places == {
        ("rectangles", "", "faces"),
        ("rectangles", "", "sequential"),
        ("stumps", "", ""),
        ("classical", "box", "faces"),
        ("classical", "box", "whole"),
        ("classical", "stump", ""),
    }
    assert len(found) == len({(o.predictor, o.concept, o.slicing, len(o.sides)) for o in found})
    faces = [offer for offer in found if offer.slicing == "faces" and offer.predictor == "rectangles"]
    assert [len(offer.sides) for offer in faces] == [4, 3, 2, 1]  # 3 are what the rows buy
    assert [offer.enough for offer in faces] == [False, True, True, True]
    for offer in found:
        assert offer.enough == (offer.epsilon is not None and offer.epsilon <= 4.0 * 1.01)


def test_what_cannot_be_says_why() -> None:
    """Strings have no faces and no finite grid; epsilon 0.05 has no tables."""
    found = offers(_with({"name": "word", "type": "string"}, slicing="sequential"))
    refused = {(o.predictor, o.slicing): o.refused for o in found if o.refused}
    assert set(refused) == {("rectangles", "faces"), ("classical", "faces"), ("classical", "whole"), ("classical", "")}
    assert 'has no scale for slicing = "faces"' in refused["rectangles", "faces"]
    assert "strings have none" in refused["classical", "whole"]
    small = offer_of(model(epsilon=0.05))
    assert "too small" in small.refused
    assert small.epsilon is not None


def _with(*features: dict[str, object], **changes: object) -> Model:
    table = {"name": "m", "predictor": "rectangles", "epsilon": 4.0, "examples": 40_000, "features": list(features)}
    return parse_model({"model": {**table, **changes}})


def test_the_nearest_three_change_one_thing_each() -> None:
    """All sides with more epsilon or alpha, fewer sides as declared, and the classical learner."""
    own, fewer, classical = nearest(offers(model(features=2, examples=90_000), near=True))
    assert (own.slicing, len(own.sides), own.enough) == ("faces", 4, False)
    assert (fewer.slicing, len(fewer.sides), fewer.enough) == ("faces", 3, True)
    assert (classical.predictor, len(classical.sides), classical.enough) == ("classical", 4, True)


@pytest.mark.parametrize(
    "line",
    [
        model(predictor="bisection", rounds=10_000, epsilon=1.0, alpha=0.02, examples=1_000),
        model(profile="paper", slicing="rsc"),
        model(predictor="stumps", profile="paper"),
        model(predictor="classical", examples=500),
    ],
    ids=["bisection", "paper", "stumps of the paper", "classical"],
)
def test_other_models_have_offers_too(line: Model) -> None:
    """The first is the model's own; its rows would do."""
    first = offers(line)[0]
    assert (first.predictor, first.profile) == (line.predictor, line.profile)
    assert first.examples is not None
    assert planned(line, examples=first.examples) or line.profile == "paper"
    assert 1 <= len(nearest(offers(line, near=True))) <= 3


def test_an_ensemble_may_have_other_teachers():
    """Each with figures of its own; fewer rows a teacher take fewer rows. Whoever is refused sees only the own line."""
    several = ensemble_model(epsilon=4.0, examples=12_000, teacher_rows=50)
    lines = lines_of(several)
    assert [line.teacher_rows for line in lines if isinstance(line, EnsembleModel)] == [50, 10, 25, 100]
    assert lines_of(several, near=True) == [several]
    few, many = (offer_of(lines[number]) for number in (2, 0))
    assert (few.teacher_rows, few.enough, many.enough) == (25, True, False)
    assert (few.examples or 0) < 12_000 < (many.examples or 0)
    for figure in ("epsilon", "examples"):
        assert planned(lines[0], **{figure: getattr(many, figure)})
