import json

import msgspec
import pytest

from oracle.planning.model_file import parse_model
from oracle.planning.planner import plan_sufficient
from oracle.planning.promise import promise_of

_NAMES = {"name": "m", "epsilon": 4.0, "examples": 200_000}


def _promise(predictor, *, features=2, bounds=(0.0, 1.0), **settings):
    table = {**_NAMES, "predictor": predictor, **settings}
    table["features"] = [
        {"name": f"f{number}", **({"bounds": list(bounds)} if bounds else {})} for number in range(features)
    ]
    plan = plan_sufficient(parse_model({"model": table}))
    return promise_of(plan), plan


@pytest.mark.parametrize(
    ("predictor", "settings", "kind", "beyond", "says"),
    [
        ("rectangles", {}, "estimate", "", ["a box", "no side gets less", "`init` checks", "gamma = 1", "rarer"]),
        ("rectangles", {"slicing": "sequential"}, "estimate", "", ["a box", "gamma = 1"]),
        ("rectangles", {"gamma": 0.5}, "estimate", "", ["at least 0.5 of the stream is honest"]),
        ("rectangles", {"profile": "paper"}, "nominal", "", ["a box"]),
        ("stumps", {}, "estimate", "the best stump's", ["drawn as they are", "rarer"]),
        ("stumps", {"profile": "paper"}, "nominal", "", ["a stump on these features fits every label"]),
        ("rectangles", {"bounds": None}, "estimate", "", ["no side gets less", "edges are learned"]),
        ("classical", {"slicing": "faces"}, "estimate", "", ["a box", "no side gets less"]),
        ("classical", {"bounds": None}, "theorem", "", ["a box"]),
        ("classical", {"concept": "stump"}, "theorem", "the best stump's", ["drawn as they are"]),
        ("bisection", {"rounds": 100_000, "bounds": None}, "estimate", "", ["directions"]),
    ],
)
def test_a_promise_names_what_it_rests_on(predictor, settings, kind, beyond, says):
    """Bound, kind and conditions; bounds only where rows are shared out by them."""
    promise, plan = _promise(predictor, **settings)
    assert (promise.kind, promise.beyond) == (kind, beyond)
    assert promise.bound >= plan.expected_error > 0.0
    assert promise.basis
    text = " ".join(promise.conditions)
    assert all(words in text for words in says)
    assert ("bounds" in text) == (predictor == "classical" and "no side gets less" in says)


def test_one_side_shares_with_none():
    """A box of one side takes nothing for granted of bounds."""
    model = parse_model(
        {
            "model": {
                **_NAMES,
                "predictor": "rectangles",
                "features": [{"name": "a", "sides": "lower", "bounds": [0.0, 1.0]}],
            }
        }
    )
    assert not any("bounds" in condition for condition in promise_of(plan_sufficient(model)).conditions)


def test_it_can_be_read_as_json():
    """Every field of it, for somebody else to look at."""
    found = json.loads(msgspec.json.encode(_promise("stumps")[0]))
    assert set(found) == {"bound", "beyond", "missed", "kind", "basis", "conditions", "on", "questions"}
