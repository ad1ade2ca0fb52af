"""`oracle.plan`: from a model to its plan."""

from collections.abc import Mapping
from pathlib import Path

from oracle.config.documents import read_toml
from oracle.errors import InputError
from oracle.planning.distribution.model import DistributionModel
from oracle.planning.ensemble.model import EnsembleModel
from oracle.planning.model_file import parse_model
from oracle.planning.plan import Plan
from oracle.planning.planner import plan_model
from oracle.predictors.ensemble.trial import check_learner

__all__ = ["plan"]


def plan(model: Mapping[str, object] | Path | str) -> Plan:
    """Plan a model, as `perpetua plan` does; no data is read, and it takes about a second.

    Args:
        model: The `[model]` table as a dictionary (deploy/REFERENCE.md lists its keys), or the path of a model file.

    Raises:
        PlanError: The declared examples are fewer than the least that works.
        InputError: A field is missing, unknown or outside its bound; the model names a data set, whose ledger only
            `perpetua init` keeps; a feature is no number, but of ensembles and distributions; or a learner is none.
        SourceError: The file cannot be read.

    >>> table = {"name": "rain", "predictor": "classical", "epsilon": 4.0, "examples": 40_000}
    >>> plan(table | {"features": [{"name": "pressure"}]}).epsilon
    4.0
    """
    document = {"model": dict(model)} if isinstance(model, Mapping) else read_toml(Path(model))
    parsed = parse_model(document)
    if parsed.data is not None:
        bound = "must be left out: only `perpetua init` enters a state in the data set's ledger"
        raise InputError("model.data", parsed.data, bound)
    for feature in parsed.features:
        if feature.kind != "number" and not isinstance(parsed, EnsembleModel | DistributionModel):
            bound = "must be number: only `perpetua init` and `serve` take others"
            raise InputError(f"feature {feature.name!r}: type", feature.kind, bound)
    if isinstance(parsed, EnsembleModel):
        check_learner(parsed)
    return plan_model(parsed)
