"""Reading a model file."""

from pathlib import Path
from typing import Any

from oracle.config.documents import read_toml
from oracle.errors import InputError
from oracle.planning.ensemble.model import EnsembleModel
from oracle.planning.model import Model
from oracle.planning.model_file import parse_model
from oracle.planning.schemas import range_of
from oracle.predictors.ensemble.trial import check_learner

__all__ = ["read_in_range", "read_model"]


def read_model(path: Path) -> Model:
    """Read and check a model file.

    Raises:
        SourceError: It cannot be read.
        InputError: It is not TOML, or a field is wrong, or a learner is none.
    """
    model = parse_model(read_toml(path))
    if isinstance(model, EnsembleModel):
        check_learner(model)
    return model


def read_in_range(path: Path, refusal: InputError) -> Model | None:
    """Read a model file that was refused, with the epsilon or alpha that its range has next to the one declared.

    Returns:
        None where it was refused for another reason, or is refused still.
    """
    _, _, field = refusal.field.partition("model.")
    if field not in {"epsilon", "alpha"} or not isinstance(refusal.value, float) or not refusal.value > 0.0:
        return None
    least, most = range_of(Model, field)
    table: Any = read_toml(path)
    try:
        return parse_model({**table, "model": {**table["model"], field: min(max(refusal.value, least), most)}})
    except InputError:
        return None
