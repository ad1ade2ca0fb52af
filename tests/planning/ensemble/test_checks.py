"""What a model file of an ensemble may say."""

import pytest

from oracle.errors import InputError
from oracle.planning.model_file import parse_model
from tests.planning.ensemble.models import ensemble_model

_TREE = "sklearn.tree.DecisionTreeClassifier"


def test_what_may_be_said_is_taken() -> None:
    """Texts, whole numbers, nested lists, steps before the learner, and columns of other names."""
    model = ensemble_model(
        classes=["late", "early", "on time"],
        shares=[0.2, 0.1, 0.7],
        parameters={"max_depth": 2, "class_weight": "balanced", "sizes": [[1, 2], [3.5]], "warm": False},
        preprocessing=[{"transformer": "sklearn.preprocessing.StandardScaler", "parameters": {"with_mean": False}}],
        features=[
            {"name": "day", "type": "date", "column": "DAY"},
            {"name": "price", "type": "decimal", "places": 2},
            {"name": "carrier", "categories": ["AA", "other", "missing"]},
        ],
    )
    assert model.teacher_rows == 25
    assert [feature.kind for feature in model.features] == ["date", "decimal", "category"]
    assert hash(model) == hash(ensemble_model(name=model.name))  # parameters are no part of it: tables have no hash


def test_what_is_left_out_has_defaults() -> None:
    """Two classes, 0 and 1, and a tenth of the queries contested."""
    model = ensemble_model(contested=None, parameters=None)
    assert (model.classes, model.contested, model.alpha, model.shares) == ((0, 1), 0.1, 0.05, None)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"features": [{"name": "a", "sides": "lower"}]}, "model.features[0].sides = 'lower': must be left out"),
        ({"features": [{"name": "a", "bounds": [0.0, 1.0]}]}, "model.features[0].bounds"),
        ({"features": [{"name": "a", "type": "string"}]}, 'list them: categories = ["a", "b"]'),
        (
            {"features": [{"name": "a", "type": "number", "categories": ["x"]}]},
            "type = 'number': must be left out beside",
        ),
        ({"features": [{"name": "a", "places": 2, "categories": ["x"]}]}, "model.features[0].places = 2: is for type"),
        ({"features": [{"name": "a", "categories": ["x", "y", "x"]}]}, "categories[2] = 'x': must not be there twice"),
        ({"features": [{"name": "a", "categories": ["x", ""]}]}, "that is a missing value"),
        ({"features": [{"name": "a", "categories": []}]}, "model.features[0].categories"),
        ({"classes": ["yes"]}, "model.classes"),
        ({"classes": [str(number) for number in range(33)]}, "model.classes"),
        ({"classes": ["yes", 0]}, "all texts or all whole numbers"),
        ({"classes": ["yes", "no", "yes"]}, "model.classes[2] = 'yes': must be different"),
        ({"classes": ["yes", ""]}, "model.classes[1]"),
        ({"classes": [0, 2**60]}, "model.classes[1]"),
        ({"shares": [0.5, 0.2, 0.3]}, "must be 2: one for each of model.classes"),
        ({"shares": [0.5, 0.4]}, "must sum to 1; they sum to 0.9"),
        ({"shares": [1.0, 0.0]}, "model.shares"),
        ({"learner": "tree"}, "model.learner"),
        ({"learner": "sklearn.tree.plot_tree"}, "such as sklearn.tree.DecisionTreeClassifier"),
        ({"learner": "os.__dict__.X"}, "model.learner"),
        ({"learner": "os; import sys"}, "model.learner"),
        ({"parameters": {"random_state": 1}}, "model.parameters.random_state = 1: must be left out"),
        ({"parameters": {"alpha": float("nan")}}, "model.parameters.alpha = nan: must be finite"),
        ({"parameters": {"sizes": [1.0, [float("inf")]]}}, "model.parameters.sizes[1][0] = inf"),
        ({"parameters": {"base": [{"a": 1}]}}, "model.parameters.base[0]"),
        ({"parameters": {"a b": 1}}, "must be named as a parameter"),
        ({"preprocessing": [{"transformer": "numpy.log"}]}, "model.preprocessing[0].transformer = 'numpy.log'"),
        ({"teacher_rows": 0}, "model.teacher_rows = 0"),
        ({"contested": 0.0}, "model.contested"),
        ({"profile": "paper"}, "model.profile"),
    ],
)
def test_what_may_not_be_said_is_named_with_its_bound(settings: dict[str, object], message: str) -> None:
    """The field, what stood there, and what must."""
    with pytest.raises(InputError) as caught:
        ensemble_model(**settings)
    assert message in str(caught.value)


@pytest.mark.parametrize("predictor", ["rectangles", "stumps", "classical"])
def test_other_predictors_have_no_categories(predictor: str) -> None:
    """They compare values; categories have no order."""
    table: dict[str, object] = {"name": "m", "predictor": predictor, "epsilon": 1.0, "examples": 10**6}
    table["features"] = [{"name": "a"}, {"name": "b", "categories": ["x", "y"]}]
    with pytest.raises(InputError, match=r"model\.features\[1\]\.categories: must be left out"):
        parse_model({"model": table})
