"""What a model file may say of an ensemble, beyond what its types say."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import UNSET

from oracle.errors import InputError
from oracle.planning.ensemble.model import PATH, Class, EnsembleModel, Parameter
from oracle.planning.features import NAME_LIMIT, Feature
from oracle.planning.model import check_features, check_truth

__all__ = ["check_ensemble_model"]

_LARGEST: Final = 2**53
"""Classes that are whole numbers lie between this and its negative: JSON's readers know all of these."""

_CLASSES: Final = f"different texts of 1 to {NAME_LIMIT} printable characters, or different whole numbers up to 2^53"

_CLOSE: Final = 1e-6
"""How far from 1 declared shares may sum to: they are decimals."""

_DEPTH: Final = 8
"""How deep lists of parameters may be nested."""

_PATHS: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)

_OURS: Final = {"random_state": "must be left out: it follows from the key"}
"""Parameters that nobody may set."""


def check_ensemble_model(model: EnsembleModel) -> None:
    """Check what the types of a model file's table do not say. The learner is imported elsewhere.

    Raises:
        InputError: A value is outside its bound, or two do not go together.
    """
    check_features(model, categories=True)
    for index, feature in enumerate(model.features):
        _check_feature(f"model.features[{index}]", feature)
    _check_classes(model.classes)
    if model.shares is not None:
        _check_shares(model.shares, len(model.classes))
    _check_learner("model.learner", model.learner, model.parameters)
    for index, step in enumerate(model.preprocessing):
        _check_learner(f"model.preprocessing[{index}].transformer", step.transformer, step.parameters)
    check_truth(model)


def _check_feature(where: str, feature: Feature) -> None:
    if feature.sides != "both":
        raise InputError(f"{where}.sides", feature.sides, "must be left out: an ensemble's features have no sides")
    if feature.bounds is not None:
        raise InputError(f"{where}.bounds", "...", "must be left out: an ensemble's features have no bounds")
    if feature.kind == "string":
        reason = 'must be "number", "date" or "decimal"; for texts leave it out and list them: categories = ["a", "b"]'
        raise InputError(f"{where}.type", "string", reason)
    if feature.kind == "category":
        _check_categories(where, feature)


def _check_categories(where: str, feature: Feature) -> None:
    if feature.type is not UNSET:
        raise InputError(f"{where}.type", feature.type, "must be left out beside categories")
    seen: set[str] = set()
    for number, category in enumerate(feature.categories or ()):
        if not category:
            raise InputError(f"{where}.categories[{number}]", "", "must not be empty: that is a missing value")
        if category in seen:
            raise InputError(f"{where}.categories[{number}]", category, "must not be there twice")
        seen.add(category)


def _check_classes(classes: Sequence[Class]) -> None:
    texts = [isinstance(name, str) for name in classes]
    if any(texts) and not all(texts):
        raise InputError("model.classes", list(classes), "must be all texts or all whole numbers")
    for number, name in enumerate(classes):
        plain = (0 < len(name) <= NAME_LIMIT and name.isprintable()) if isinstance(name, str) else abs(name) <= _LARGEST
        if not plain or name in classes[:number]:
            raise InputError(f"model.classes[{number}]", name, f"must be {_CLASSES}")


def _check_shares(shares: Sequence[float], classes: int) -> None:
    if len(shares) != classes:
        raise InputError("model.shares", list(shares), f"must be {classes}: one for each of model.classes")
    if not abs(math.fsum(shares) - 1.0) <= _CLOSE:
        raise InputError("model.shares", list(shares), f"must sum to 1; they sum to {math.fsum(shares):.9g}")


def _check_learner(where: str, path: str, parameters: Mapping[str, Parameter]) -> None:
    if _PATHS.fullmatch(path) is None:
        raise InputError(where, path, f"must be {PATH}")
    *modules, name = path.split(".")
    if not name[0].isupper() or any(part.startswith("__") for part in modules):
        example = "a class by its import path, such as sklearn.tree.DecisionTreeClassifier"
        raise InputError(where, path, f"must be {example}")
    place = f"{where.rpartition('.')[0]}.parameters"
    for key, value in parameters.items():
        if not key.isidentifier():
            raise InputError(f"{place}.{key}", "...", "must be named as a parameter of the class is")
        if key in _OURS:
            raise InputError(f"{place}.{key}", value, _OURS[key])
        _check_parameter(f"{place}.{key}", value)


def _check_parameter(where: str, value: object, depth: int = 0) -> None:
    """Refuse what does not read back from a plan as it was: no numbers that are none, no dates, no tables."""
    if isinstance(value, list | tuple) and depth < _DEPTH:
        for number, one in enumerate(value):
            _check_parameter(f"{where}[{number}]", one, depth + 1)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InputError(where, value, "must be finite")
    elif not (value is None or isinstance(value, str | int)):
        raise InputError(where, "...", "must be a text, a number, true, false, or a list of these")
