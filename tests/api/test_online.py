import numpy as np
import pytest

import oracle
from oracle.errors import InputError
from tests.api.test_predictor import FEATURES, KEY, rows, short_plan, table


def test_it_learns_then_predicts_one_at_a_time():
    """It answers as the predictor trained on the same rows in one piece; until it has the declared rows, nothing."""
    features, labels = rows()
    plan = oracle.plan(table(concept="stump", alpha=0.3, examples=500))
    model = oracle.OnlineClassifier(plan, key=KEY)
    named = [dict(zip(FEATURES, row, strict=True)) | {"other": 0.0} for row in features.tolist()]
    for x, y in zip(named[:500], labels[:500], strict=True):
        assert model.predict_one(x) is None
        assert model.learn_one(x, bool(y)) is model
    expected = oracle.train(plan, features[:500], labels[:500], key=KEY).answer(features[500:])
    predicted = []
    for x, y in zip(named[500:], labels[500:], strict=True):
        predicted.append(model.predict_one(x))
        model.learn_one(x, bool(y))  # changes nothing any more
    assert predicted == expected.astype(bool).tolist()
    assert np.mean(predicted == labels[500:]) > 0.8


def test_what_is_missing_is_named():
    """A feature that is not there, and a predictor that gives numbers."""
    model = oracle.OnlineClassifier(oracle.plan(table(concept="stump", alpha=0.3)))
    with pytest.raises(InputError, match="mean texture"):
        model.learn_one({"mean radius": 1.0}, y=True)
    with pytest.raises(InputError, match="answers are labels"):
        oracle.OnlineClassifier(short_plan("bisection"))
