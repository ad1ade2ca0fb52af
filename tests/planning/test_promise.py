import json
import re

import msgspec
import pytest

from oracle.planning.ensemble.sizes import terms_of
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


def test_an_ensemble_promises_what_noise_changes():
    """An estimate, beyond what the teachers err, resting on what is declared of queries and of strangers."""
    tree = {"learner": "sklearn.tree.DecisionTreeClassifier", "contested": 0.04, "gamma": 0.95, "examples": 10**6}
    promise, plan = _promise("ensemble", bounds=None, **tree)
    assert (promise.bound, promise.kind, promise.missed) == (plan.changed, "estimate", plan.beta)
    assert plan.changed <= plan.alpha
    assert "teachers" in promise.beyond
    assert "0.04 of the honest queries" in promise.conditions[0]
    assert promise.conditions[1].startswith(f"and at most {terms_of(plan).later:.3g} where teachers were fitted")
    assert "finds their rule again" in promise.conditions[2]
    assert "a class of a fifth" in promise.conditions[3]
    assert promise.conditions[-1].startswith("at least 0.95 of the stream is honest")


def test_an_ensemble_says_how_far_thresholds_may_be_steered():
    """At the least number of rows hardly beyond the middle, with more of them further; of the rarest class declared."""
    tree = {"learner": "sklearn.tree.DecisionTreeClassifier", "contested": 0.03, "shares": [0.75, 0.25]}
    lows = []
    for examples in (1, 20_000, 60_000):
        said = _promise("ensemble", bounds=None, **tree, examples=examples)[0].conditions[3]
        assert said.startswith("a class of 0.25 of the rows")
        lows.append(float(re.findall(r"from (0\.\d\d) to", said)[0]))
    assert 0.4 < lows[0] <= 0.5
    assert lows[0] > lows[1] > lows[2]
    assert lows[2] < 0.25
