"""Model files: what is accepted, and messages that name field, value and bound."""

import math
from typing import Any

import pytest

from oracle.errors import InputError
from oracle.planning.boxes.model import BoxModel
from oracle.planning.model import Limits
from oracle.planning.model_file import parse_model

FEATURE = {"name": "a", "bounds": [0.0, 1.0]}


def document(**fields: Any) -> dict[str, object]:
    """Return a valid model document with some fields replaced."""
    return {
        "model": {
            "name": "m",
            "predictor": "rectangles",
            "epsilon": 1.0,
            "examples": 9,
            "features": [FEATURE],
            **fields,
        }
    }


def test_defaults_are_filled_in() -> None:
    """A short file is a whole model."""
    model = parse_model(document())
    assert (model.delta, model.alpha, model.beta, model.gamma) == (1e-3, 0.1, 0.05, 1.0)
    assert isinstance(model, BoxModel)
    assert (model.slicing, model.profile, model.trim) == ("faces", "tight", 0)
    assert model.limits == Limits()
    assert model.features[0].sides == "both"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"epsilon": 0.0}, "model.epsilon = 0.0: must be from 0.05 to 50"),
        ({"epsilon": math.nan}, "model.epsilon = nan: must be from 0.05 to 50"),
        ({"epsilon": 51.0}, "model.epsilon = 51.0: must be from 0.05 to 50"),
        ({"delta": 0.2}, "model.delta = 0.2: must be from 1e-18 to 0.1"),
        ({"delta": 1e-280}, "model.delta = 1e-280: must be from 1e-18 to 0.1"),
        ({"alpha": 0.6}, "model.alpha = 0.6: must be from 1e-06 to 0.5"),
        ({"beta": 0.0}, "model.beta = 0.0: must be from 1e-12 to 0.5"),
        ({"gamma": 1.5}, "model.gamma = 1.5: must be from 1e-06 to 1"),
        ({"gamma": 1e-9}, "model.gamma = 1e-09: must be from 1e-06 to 1"),
        ({"examples": 0}, "model.examples = 0: must be from 1 to 281474976710656"),
        ({"share": 0.0}, "model.share = 0.0: must be from 1e-06 to 1"),
        ({"first_share": 1.0}, "model.first_share = 1.0: must be at least 1e-06 and below 1"),
        ({"trim": 10}, "model.trim = 10: must be from 0 to examples (9)"),
        ({"trim": -1}, "model.trim = -1: must be from 0 to examples"),
        ({"limits": {"rows": 0}}, "model.limits.rows = 0: must be from 1 to 16777216"),
        ({"limits": {"body_bytes": 63}}, "model.limits.body_bytes = 63: must be from 64 to 1073741824"),
        ({"name": "a b"}, "model.name = 'a b': must be 1 to 64 letters, digits, '-', '_' or '.'"),
        ({"name": ""}, "model.name = '': must be 1 to 64 letters"),
        ({"features": []}, "model.features = 0: must be 1 to 512 features"),
        ({"features": [FEATURE, FEATURE]}, "model.features[1].name = 'a': must not be used twice"),
        ({"features": [{"name": "label", "bounds": [0, 1]}]}, "model.features[0].name = 'label': must be 1 to 64"),
        ({"features": [{"name": "a", "bounds": [1, 1]}]}, "model.features[0].bounds = [1.0, 1.0]: must be two finite"),
        ({"features": [{"name": "a", "bounds": [0, math.inf]}]}, "model.features[0].bounds = [0.0, inf]: must be two"),
        ({"features": [{"name": "a", "sides": "none"}]}, "model.features = 'none': at least one feature must have a"),
        ({"predictor": "oracle"}, "model.predictor = 'oracle': must be one of rectangles"),
        (
            {"predictor": "rectangle"},
            "stumps, classical, bisection, statistics, sparse-vector, distribution, ensemble; did you mean rectangles?",
        ),
        (
            {"slicing": "sequental"},
            "model.slicing = 'sequental': must be one of faces, sequential, rsc; did you mean seq",
        ),
        (
            {"features": [{"name": "a", "sides": "uper"}]},
            "must be one of lower, upper, both, none; did you mean upper?",
        ),
        ({"features": [{"name": "a", "type": "String"}]}, "number, string, date, decimal; did you mean string?"),
        ({"epsilon": "much"}, "model.epsilon = 'much': must be a number, not text"),
        ({"examples": 1.5}, "model.examples = 1.5: must be a whole number, not a number"),
        ({"share": True}, "model.share = true: must be a number, not true or false"),
        ({"features": "a"}, "model.features = 'a': must be a list, not text"),
        (
            {"features": [{"name": "a", "bounds": [1]}]},
            "model.features[0].bounds: must be a list of length 2, not ",
        ),
        ({"profile": "paper", "slicing": "faces"}, 'model.slicing = \'faces\': must be "rsc" for profile = "paper"'),
        ({"concept": "box"}, "model.concept: unknown setting of a model file; it is for predictor classical"),
        ({"epsylon": 1.0}, "model.epsylon: unknown setting of a model file; did you mean epsilon?"),
        (
            {"features": [{"name": "a", "side": "both"}]},
            "model.features[0].side: unknown setting of a model file; did you mean sides?",
        ),
    ],
)
def test_a_wrong_field_is_named_with_its_bound(fields: dict[str, object], message: str) -> None:
    """Every refusal says which field, what it was and what it may be."""
    with pytest.raises(InputError) as caught:
        parse_model(document(**fields))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "model is not set: the table [model] is missing"),
        (document() | {"modle": {}}, "modle: unknown table"),
        ({"state": {}, "source": {}}, "this is a configuration; name the model file"),
    ],
)
def test_a_wrong_table_is_named(content: dict[str, object], message: str) -> None:
    """A model file holds one table."""
    with pytest.raises(InputError) as caught:
        parse_model(content)
    assert message in str(caught.value)


def test_slicing_goes_by_the_profile() -> None:
    """Where none is named, it is the one that the profile has."""
    for profile, slicing in (("tight", "faces"), ("paper", "rsc")):
        model = parse_model(document(profile=profile))
        assert isinstance(model, BoxModel)
        assert model.slicing == slicing


def test_bounds_may_be_left_out_where_no_face_is_scaled() -> None:
    """Sequential slices need no bounds, nor does a feature without sides."""
    assert parse_model(document(features=[{"name": "a"}], slicing="sequential")).features[0].bounds is None
    assert parse_model(document(features=[FEATURE, {"name": "b", "sides": "none"}])).features[1].bounds is None
