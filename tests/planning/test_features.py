"""Types of features in a model file: what goes together, and what a plan says of them."""

import datetime as dt

import msgspec
import pytest

from oracle.errors import InputError
from oracle.planning.features import Feature, stand_in
from oracle.planning.kinds import decode_plan
from oracle.planning.model_file import parse_model
from oracle.planning.planner import as_classical, as_paper, plan_sufficient, verify_plan

_STRING = {"name": "s", "type": "string"}
_BOUNDS = [0.0, 1.0]


def _model(*features, **settings):
    table = {"name": "m", "predictor": "rectangles", "epsilon": 8.0, "alpha": 0.4, "examples": 60_000}
    if settings.get("predictor") != "bisection":
        table["slicing"] = "sequential"
    return parse_model({"model": {**table, **settings, "features": list(features)}})


@pytest.mark.parametrize(
    ("feature", "settings", "message"),
    [
        ({**_STRING, "bounds": _BOUNDS}, {}, "features[0].bounds: must be left out"),
        ({**_STRING, "max_bytes": 0}, {}, "features[0].max_bytes = 0: must be from 1 to 256"),
        ({**_STRING, "max_bytes": 257}, {}, "features[0].max_bytes = 257: must be from 1 to 256"),
        ({**_STRING, "places": 2}, {}, 'features[0].places = 2: is for type = "decimal" only'),
        ({"name": "s", "max_bytes": 8}, {}, 'features[0].max_bytes = 8: is for type = "string" only'),
        (
            {"name": "s", "type": "decimal"},
            {},
            "features[0].places is not set: must be set for a decimal, from 0 to 12",
        ),
        ({"name": "s", "type": "decimal", "places": 13}, {}, "features[0].places = 13: must be from 0 to 12"),
        ({"name": "s", "type": "text"}, {}, "features[0].type = 'text': must be one of number, string, date, decimal"),
        ({**_STRING, "max_bytes": "8"}, {}, "features[0].max_bytes = '8': must be a whole number, not text"),
        (_STRING, {"slicing": "faces"}, "features[0].type = 'string': has no scale for slicing = \"faces\"; use"),
        (
            {"name": "s", "type": "date", "bounds": ["2013-01-01", 5]},
            {},
            "features[0].bounds: must be two dates, as YYYY-MM-DD",
        ),
        (
            {"name": "s", "type": "date", "bounds": [dt.datetime(2013, 1, 1), dt.date(2014, 1, 1)]},  # noqa: DTZ001
            {},
            "features[0].bounds: must be two dates, as YYYY-MM-DD",
        ),
        (
            {"name": "s", "type": "date", "bounds": ["2014-01-01", "2013-01-01"]},
            {},
            "features[0].bounds: must be two dates, the earlier one first",
        ),
        (
            {"name": "price", "type": "decimal", "places": 2, "bounds": ["0.00", "9.99"]},
            {},
            (
                "features[0].bounds[0] = '0.00': must be a number, not text; write the bounds of 'price' as two "
                "numbers without quotes, such as bounds = [0.0, 9.99]"
            ),
        ),
        (
            {"name": "s", "bounds": "0 to 10"},
            {},
            (
                "features[0].bounds = '0 to 10': must be a list, not text; write the bounds of 's' as two numbers "
                "without quotes, such as bounds = [0.0, 10.0]"
            ),
        ),
        (
            {"name": "day", "type": "date", "bounds": [20130101, 20131231]},
            {},
            (
                "features[0].bounds: must be two dates, as YYYY-MM-DD; write the bounds of 'day' as two dates, "
                'such as bounds = ["2013-01-01", "2013-12-31"]'
            ),
        ),
        ({**_STRING, "bounds": ["a", "b"]}, {}, "features[0].bounds[0] = 'a': must be left out: strings have an order"),
        (
            _STRING,
            {"predictor": "classical", "slicing": "whole"},
            "features[0].type = 'string': cannot be for predictor = \"classical\": it chooses among all edges of a",
        ),
        (
            {"name": "s", "type": "date"},
            {"predictor": "bisection", "rounds": 100},
            'features[0].type = \'date\': must be "number" for predictor = "bisection"',
        ),
    ],
)
def test_what_does_not_go_together(feature, settings, message):
    """One clear line with the field and the bound."""
    with pytest.raises(InputError) as caught:
        _model(feature, **settings)
    assert str(caught.value).startswith(f"model.{message}")


def test_strings_together_are_bounded():
    """So that a short message cannot unpack to a large one."""
    features = [{"name": f"s{number}", "type": "string", "max_bytes": 256} for number in range(5)]
    assert len(_model(*features[:4]).features) == 4
    with pytest.raises(InputError, match=r"model.features = 1280: max_bytes of all strings must sum to at most 1024"):
        _model(*features)


def test_strings_without_sides_are_allowed_beside_faces():
    """No side looks at them: they only make queries different."""
    model = _model({**_STRING, "sides": "none"}, {"name": "b", "bounds": _BOUNDS}, slicing="faces")
    assert [feature.kind for feature in model.features] == ["string", "number"]


def test_bounds_of_dates_are_days():
    """TOML's own dates or texts, for `faces` and for the classical learner."""
    dates = {"name": "day", "type": "date", "bounds": [dt.date(1970, 1, 2), "2013-12-31"]}
    for settings in ({"slicing": "faces"}, {"predictor": "classical", "slicing": "faces"}):
        assert _model(dates, **settings).features[0].bounds == (1.0, 16070.0)


@pytest.fixture(scope="module")
def planned():
    """Return the plans of one box with a number and of the same one with a string of 20 bytes in its place."""
    features = ({"name": "s", "bounds": _BOUNDS}, {"name": "s", "type": "string", "max_bytes": 20})
    return [plan_sufficient(_model(feature, first_share=0.5)) for feature in features]


def test_plans_of_strings_are_those_of_numbers_with_longer_keys(planned):
    """Privacy, phases and examples are the same; only the memory is more, by the bytes of the keys and of a batch's."""
    number, string = planned
    assert string.examples == number.examples
    for phase, other in zip(number.phases, string.phases, strict=True):
        assert msgspec.structs.replace(other, memory_bytes=0) == msgspec.structs.replace(phase, memory_bytes=0)
        batch = 16_384 * (2 * (25 + 1) + 17)
        assert phase.memory_bytes < other.memory_bytes - batch < 4 * phase.memory_bytes
    assert decode_plan(string.encode()) == string
    assert b'"max_bytes"' not in number.encode()
    assert b'"type"' not in number.encode()


def test_strings_have_no_classical_learner():
    """A box or a stump of strings has none beside it; one of dates and decimals has."""
    ordered = [{"name": "d", "type": "date"}, {"name": "p", "type": "decimal", "places": 2}]
    assert as_classical(_model(*ordered)) is not None
    assert as_classical(_model(*ordered, _STRING)) is None
    stumps = parse_model(
        {"model": {"name": "m", "predictor": "stumps", "epsilon": 8.0, "examples": 60_000, "features": [_STRING]}}
    )
    assert as_classical(stumps) is None


@pytest.mark.parametrize("predictor", ["rectangles", "stumps"])
def test_paper_profile_takes_strings(predictor):
    """Its slices are cut one after another too; its memory knows the longer keys, and its plan verifies."""
    table = {"name": "m", "predictor": predictor, "epsilon": 8.0, "alpha": 0.4, "examples": 60_000}
    memory = []
    for feature in (_STRING, {"name": "s"}):
        slicing = {"slicing": "sequential"} if predictor == "rectangles" else {}
        paper = as_paper(parse_model({"model": {**table, **slicing, "features": [feature]}}))
        assert paper is not None
        plan = plan_sufficient(paper)
        verify_plan(plan)
        memory.append(plan.memory_bytes)
    assert memory[0] > 1.2 * memory[1]


def test_stand_in_has_keys_of_the_longest():
    """For the one feature that a stump will be on."""
    features = [Feature(name="a"), Feature(name="b", type="string", max_bytes=9), Feature(name="c", type="string")]
    assert stand_in(features, "lower").longest == 32
    assert stand_in(features[:1], "both") == Feature(name="stump", sides="both")
