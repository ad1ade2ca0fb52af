"""What the owner of a model declares before a plan is made, as far as all predictors have it in common.

Nothing here is taken from private data. Each predictor has a model class of its own (`oracle.planning.kinds`).
"""

from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta

from oracle.errors import InputError
from oracle.planning.features import BOUNDS, NAME_LIMIT, NAMES, Feature, check_types

__all__ = [
    "BOX_FEATURES",
    "Feature",
    "FirstShare",
    "Limits",
    "Model",
    "Share",
    "Truth",
    "check_data",
    "check_features",
    "check_model_name",
    "check_truth",
    "promises_of",
    "without_truth",
]

_RESERVED = frozenset({"id", "x", "label"})

BOX_FEATURES: Final = 512
"""Most features of a box."""

_LEAST_EPSILON: Final = 0.05
_ROUNDED_DOWN: Final = 1.0 - 1e-9
"""Below the rounding of a difference of epsilons."""

_MODEL_NAMES: Final = f"1 to {NAME_LIMIT} letters, digits, '-', '_' or '.'"

Share = Annotated[float, Meta(ge=1e-6, le=1.0, extra_json_schema={"unit": "part of a stripe"})]
"""A part of a stripe; less than the least one is too small for any plan."""

FirstShare = Annotated[float, Meta(ge=1e-6, lt=1.0, extra_json_schema={"unit": "part of alpha"})]
"""The first phase's part of alpha."""


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a message may be at most, to count as a query.

    Attributes:
        body_bytes: Most bytes of a JSON message.
        batch_bytes: Most bytes of an Arrow message, as it comes and unpacked.
        id_bytes: Most bytes of an id, UTF-8.
        rows: Most rows of one Arrow message; most cells of one question about a table (then 4,096 by default).
    """

    body_bytes: Annotated[int, Meta(ge=64, le=2**30)] = 65_536
    batch_bytes: Annotated[int, Meta(ge=1024, le=2**30)] = 67_108_864
    id_bytes: Annotated[int, Meta(ge=1, le=4096)] = 256
    rows: Annotated[int, Meta(ge=1, le=2**24)] = 131_072


class Truth(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is counted of labels that come later (PRIVACY.md, Theorem 32).

    Attributes:
        epsilon: The part of a query's epsilon that pays for the two noisy counts of its period (nats); it must leave
            0.05 of the model's.
        rounds: Rounds of a period: one noisy count of the answers that were right, and one of those that were wrong.
        lag: Rounds behind its end that a period waits for labels; what comes later is not counted.
    """

    epsilon: Annotated[float, Meta(ge=0.01, le=10.0, extra_json_schema={"unit": "nats"})]
    rounds: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    lag: Annotated[int, Meta(ge=0, le=1_000_000, extra_json_schema={"unit": "rounds"})] = 10_000


# Outside these ranges a plan would be absurd or its numbers too coarse: below the least epsilon no noise table is wide
# enough, below the least delta noise of 128 bits is too coarse for two phases.
class Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[model]` table: what all predictors have in common.

    Attributes:
        name: The model's name, in answers, metrics and the names that topics get by default.
        predictor: What answers: boxes, stumps, classical hypotheses, averages, tables, distributions or ensembles.
        epsilon: Privacy loss of a record, for ever.
        examples: Training rows that `init` will have; declared, not counted from private data.
        features: The features of a query, in the order of its values.
        profile: Whose constants the plan is made with.
        delta: Bound on the sum of delta over all records, for ever.
        alpha: Error wanted on honest queries.
        beta: Probability of missing `alpha`.
        gamma: Share of the stream that is honest; anybody may have chosen the rest. 1: no adversary.
        limits: What a message may be at most; see `[model.limits]`.
        data: The owner's name for the data set that the examples are of; several models may name one.
        data_epsilon: What a row of the data set may pay for all of these together (nats); `init` refuses more.
        data_delta: The same, of a row's delta.
        data_ledger: Where `init` keeps what they pay, from the model file's folder on; by default NAME.budget.jsonl
            beside the labelled rows.
    """

    name: Annotated[str, Meta(extra_json_schema={"bound": _MODEL_NAMES})]
    predictor: str
    epsilon: Annotated[float, Meta(ge=0.05, le=50.0, extra_json_schema={"unit": "nats"})]
    examples: Annotated[int, Meta(ge=1, le=2**48, extra_json_schema={"unit": "rows"})]
    features: Annotated[
        tuple[Feature, ...], Meta(min_length=1, max_length=1024, extra_json_schema={"unit": "features"})
    ]
    profile: str = "tight"
    delta: Annotated[float, Meta(ge=1e-18, le=0.1, extra_json_schema={"unit": "probability"})] = 1e-3
    alpha: Annotated[float, Meta(ge=1e-6, le=0.5, extra_json_schema={"unit": "share of answers"})] = 0.1
    beta: Annotated[float, Meta(ge=1e-12, le=0.5, extra_json_schema={"unit": "probability"})] = 0.05
    gamma: Annotated[float, Meta(ge=1e-6, le=1.0, extra_json_schema={"unit": "share of queries"})] = 1.0
    limits: Limits = Limits()
    data: Annotated[str, Meta(extra_json_schema={"bound": _MODEL_NAMES})] | None = None
    data_epsilon: Annotated[float, Meta(gt=0.0, le=1e6, extra_json_schema={"unit": "nats"})] | None = None
    data_delta: Annotated[float, Meta(gt=0.0, le=1.0, extra_json_schema={"unit": "probability"})] | None = None
    data_ledger: str | None = None


ModelT = TypeVar("ModelT", bound=Model)


def promises_of(model: Model) -> dict[str, Any]:
    """Return the declarations that a model's plan repeats, and models of other predictors with the same promises."""
    names = ("name", "predictor", "features", "epsilon", "delta", "alpha", "beta", "gamma", "limits")
    return {name: getattr(model, name) for name in names}


def check_data(model: Model) -> None:
    """Refuse a data set's name that no file could have, and what is said of none.

    Raises:
        InputError: One is.
    """
    for field in ("data_epsilon", "data_delta", "data_ledger"):
        if getattr(model, field) is not None and model.data is None:
            raise InputError("model.data", None, f"must name the data set that {field} is of")
    if model.data is not None and (not model.data.strip(".") or not _is_plain(model.data)):
        raise InputError("model.data", model.data, f"must be {_MODEL_NAMES}")


def check_truth(model: Model) -> None:
    """Refuse an epsilon of true labels that leaves too little for answers, and one beside a nominal epsilon.

    Raises:
        InputError: It is one.
    """
    truth: Truth | None = getattr(model, "truth", None)
    if truth is None:
        return
    if model.profile == "paper":
        raise InputError("model.truth", "...", 'cannot be set for profile = "paper"')
    if not model.epsilon - truth.epsilon >= _LEAST_EPSILON:
        most = f"must leave {_LEAST_EPSILON} of epsilon = {model.epsilon:g} for answers"
        raise InputError("model.truth.epsilon", truth.epsilon, most)


def without_truth(model: ModelT) -> ModelT:
    """Return the model that answers alone are planned for: what true labels cost a query is taken off its epsilon.

    Raises:
        InputError: Too little is left.
    """
    truth: Truth | None = getattr(model, "truth", None)
    if truth is None:
        return model
    check_truth(model)
    left = (model.epsilon - truth.epsilon) * _ROUNDED_DOWN
    return msgspec.structs.replace(model, epsilon=left, truth=None)


def check_model_name(name: str) -> None:
    """Refuse a name that no file or topic could have.

    Raises:
        InputError: It is one.
    """
    if not _is_plain(name):
        raise InputError("model.name", name, f"must be {_MODEL_NAMES}")


def _is_plain(name: str) -> bool:
    return 0 < len(name) <= NAME_LIMIT and all(c.isalnum() or c in "-_." for c in name)


def _check_name(where: str, name: str) -> None:
    fits = 0 < len(name) <= NAME_LIMIT and name.isprintable() and name not in _RESERVED
    if not fits or '"' in name or "\\" in name:  # the JSON decoder takes no such name
        column = 'column = "..." names the data\'s column where it is another'
        raise InputError(f"{where}.name", name, f"must be {NAMES}; {column}")


def check_features(model: Model, *, categories: bool = False) -> None:
    """Refuse names that no query could use, and bounds that are none.

    Args:
        model: The model.
        categories: Whether features may have categories.

    Raises:
        InputError: One is.
    """
    check_model_name(model.name)
    seen: set[str] = set()
    for index, feature in enumerate(model.features):
        where = f"model.features[{index}]"
        _check_name(where, feature.name)
        if feature.name in seen:
            raise InputError(f"{where}.name", feature.name, "must not be used twice")
        seen.add(feature.name)
        if feature.kind == "category" and not categories:
            raise InputError(
                f"{where}.categories", "...", f"must be left out: predictor = {model.predictor!r} has none"
            )
        if feature.bounds is not None:
            low, high = feature.bounds
            if not (low < high and abs(low) < 1e150 and abs(high) < 1e150):  # noqa: PLR2004 -- squares must stay finite
                if feature.kind == "date":
                    raise InputError(f"{where}.bounds", "...", "must be two dates, the earlier one first")
                raise InputError(f"{where}.bounds", [low, high], f"must be {BOUNDS}")
    check_types(model.features)
    if all(feature.sides == "none" for feature in model.features):
        raise InputError("model.features", "none", "at least one feature must have a side")
