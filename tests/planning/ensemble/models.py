"""Models of ensembles that tests vary."""

from typing import Any

from oracle.planning.ensemble.model import EnsembleModel
from oracle.planning.model_file import parse_model


def ensemble_model(**settings: Any) -> EnsembleModel:
    """Return the model of a file with these settings."""
    table = {
        "name": "late",
        "predictor": "ensemble",
        "learner": "sklearn.tree.DecisionTreeClassifier",
        "parameters": {"max_depth": 2},
        "epsilon": 4.0,
        "examples": 20_000,
        "contested": 0.03,
        "features": [{"name": "distance"}, {"name": "carrier", "categories": ["AA", "UA"]}],
    }
    model = parse_model({"model": {key: value for key, value in (table | settings).items() if value is not None}})
    assert isinstance(model, EnsembleModel)
    return model
