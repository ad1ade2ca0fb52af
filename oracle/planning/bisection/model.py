"""The model of OnlineBisection, and its plan."""

import math
from itertools import combinations
from typing import Annotated, Final, Literal

from msgspec import Meta

from oracle.errors import InputError
from oracle.planning.features import Feature, refuse_types
from oracle.planning.model import Limits, Model, check_features
from oracle.planning.plan import PLAN_VERSION, Phase, Plan

__all__ = ["BisectionModel", "BisectionPlan", "check_bisection_model", "is_orthonormal", "unit_vector"]

_DIRECTION_LIMIT: Final = 32
_WARMUP_FEATURES: Final = 64
"""Features at most where the basis is found by PCA: its memory grows with their square, its time with their cube."""

_WARMUP: Final = "from directions to rounds - 1 queries"
_HONEST: Final = "1: bisection promises nothing beside queries of others"
_Basis = Annotated[
    tuple[tuple[float, ...], ...],
    Meta(min_length=1, max_length=_DIRECTION_LIMIT, extra_json_schema={"unit": "vectors"}),
]
_ORTHOGONAL: Final = 1e-6


class BisectionModel(Model, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[model]` table of `predictor = "bisection"`: averages, as dot products.

    The database vector is made of the labelled rows: w*_j is the mean over all declared rows of feature j, where rows
    with label 0 count as zeros. Features are from 0 to 1, in the rows and in the queries; `sides` are not used.

    Attributes:
        profile: "efficient" learns from every query, "paper" is Algorithms 1 and 2 as written.
        examples: Training rows that `init` will have; declared, not counted from private data.
        gamma: Share of the stream that is honest: all of it.
        rounds: T, rounds in which it learns; after them it answers from what it knows, for ever and at no cost.
        noise: The law of the oracle's noise. (Uniform noise has no finite epsilon, and hardly a useful delta.)
        basis: Orthogonal vectors that span the query space, at most as many as features, each with a number for every
            feature; their lengths do not matter. Left out, and `directions` too, the features' own axes are taken.
        directions: d, where the basis is to be found by PCA of a warm-up window; at most as many as features.
        warmup: Queries of that window. For at most 64 features.
        alpha: Average error over the T rounds, in units of the number of features D, as w*.q is from 0 to D.
    """

    profile: Literal["efficient", "paper"] = "efficient"
    examples: Annotated[int, Meta(ge=1, le=2**32, extra_json_schema={"unit": "rows"})]
    rounds: Annotated[int, Meta(ge=2, le=2**40)]  # ln T must be above 0
    noise: Literal["laplace", "gaussian"] = "laplace"
    basis: _Basis | None = None
    gamma: Annotated[float, Meta(ge=1.0, le=1.0, extra_json_schema={"unit": "share of queries", "bound": _HONEST})] = (
        1.0
    )
    directions: Annotated[int, Meta(ge=1, le=_DIRECTION_LIMIT)] | None = None
    warmup: Annotated[int, Meta(ge=1, extra_json_schema={"unit": "queries", "bound": _WARMUP})] | None = None


class BisectionPlan(Plan, frozen=True, kw_only=True):
    """A plan of OnlineBisection. `Plan` explains the shared fields.

    Attributes:
        noise: Law of E; the oracle adds D E.
        scale: Its scale.
        basis: float[d, D], orthonormal; empty where it is to be found.
        directions: d.
        warmup: Queries from which the basis is found; 0 where it is given.
        epsilon: Of one training row (nats). Queries are not protected.
        delta: Bound on the sum of delta over the training rows.
        expected_error: Average error over the learning rounds, in units of D. Under `efficient` an estimate that
            simulations support; under `paper` Theorem 2.1's bound with its constants, where each of the d cones gets
            its share of the queries.
        phases: Two: the T rounds that learn, and those after them, at no cost.
    """

    version: int = PLAN_VERSION
    name: str
    predictor: str
    profile: Literal["efficient", "paper"]
    features: tuple[Feature, ...]
    noise: Literal["laplace", "gaussian"]
    scale: float
    basis: tuple[tuple[float, ...], ...]
    directions: int
    warmup: int
    epsilon: float
    delta: float
    alpha: float
    beta: float
    gamma: float
    examples: int
    declared: int
    expected_error: float
    limits: Limits
    phases: tuple[Phase, ...]
    memory_bytes: int

    @property
    def nominal(self) -> bool:
        """False: both profiles' epsilon is proved."""
        return False

    @property
    def protects_queries(self) -> bool:
        """False: what a query is decides what later ones are answered."""
        return False

    @property
    def answers(self) -> Literal["label", "value"]:
        """Numbers."""
        return "value"

    @property
    def working_bytes(self) -> int:
        """Beside what every plan counts, coordinates along the directions and their products, several times."""
        return super().working_bytes + 64 * self.directions * (self.directions // 2 + 2)

    def delta_spent(self, phase: int, rounds: int) -> float:  # noqa: ARG002 -- the signature is every plan's
        """Return the sum of delta over the training rows: all of it is spent from the start."""
        return self.declared * self.phases[0].delta


def check_bisection_model(model: BisectionModel) -> None:
    """Check what the types of a model file's table do not say.

    Raises:
        InputError: A value is outside its bound, or two do not go together.
    """
    check_features(model)
    refuse_types(model.features, ("number",), 'must be "number" for predictor = "bisection": its answers are sums')
    for index, feature in enumerate(model.features):
        if feature.bounds not in {None, (0.0, 1.0)}:
            where = f"model.features[{index}].bounds"
            raise InputError(where, list(feature.bounds or ()), "must be [0.0, 1.0], or left out")
    _check_basis(model)


def _check_basis(model: BisectionModel) -> None:
    dimension = len(model.features)
    most = min(dimension, _DIRECTION_LIMIT)
    if model.directions is not None or model.warmup is not None:
        if model.basis is not None:
            raise InputError("model.basis", "...", "cannot be set beside directions and warmup")
        if model.directions is None or not 1 <= model.directions <= most:
            raise InputError("model.directions", model.directions, f"must be from 1 to {most}")
        if model.warmup is None or not model.directions <= model.warmup < model.rounds:
            raise InputError("model.warmup", model.warmup, f"must be {_WARMUP}")
        if dimension > _WARMUP_FEATURES:
            raise InputError("model.features", dimension, f"must be at most {_WARMUP_FEATURES} beside warmup")
    elif model.basis is None:
        if dimension > _DIRECTION_LIMIT:
            raise InputError("model.basis", None, f"must be set for more than {_DIRECTION_LIMIT} features")
    else:
        _check_vectors(model.basis, dimension, most)


def _check_vectors(basis: tuple[tuple[float, ...], ...], dimension: int, most: int) -> None:
    if not 1 <= len(basis) <= most:
        raise InputError("model.basis", len(basis), f"must be 1 to {most} vectors")
    for index, vector in enumerate(basis):
        if len(vector) != dimension or not (any(vector) and all(map(math.isfinite, vector))):
            raise InputError(f"model.basis[{index}]", "...", f"must be {dimension} finite numbers, not all 0")
    for (i, first), (j, second) in combinations(enumerate(map(unit_vector, basis)), 2):
        if not abs(math.fsum(a * b for a, b in zip(first, second, strict=True))) <= _ORTHOGONAL:
            raise InputError(f"model.basis[{j}]", "...", f"must be orthogonal to basis[{i}]")


def is_orthonormal(basis: tuple[tuple[float, ...], ...], dimension: int) -> bool:
    """Return whether all vectors have so many entries, length 1, and right angles, about as a model's must."""
    if not all(len(vector) == dimension and all(map(math.isfinite, vector)) for vector in basis):
        return False
    products = (
        (math.fsum(a * b for a, b in zip(first, second, strict=True)), float(i == j))
        for i, first in enumerate(basis)
        for j, second in enumerate(basis[: i + 1])
    )
    return all(abs(product - due) <= _ORTHOGONAL for product, due in products)


def unit_vector(vector: tuple[float, ...]) -> tuple[float, ...]:
    """Return the vector at length 1, also where squares of its entries are too large or too small for float64.

    Args:
        vector: Finite, not all 0.

    >>> unit_vector((3.0 * 2.0**700, -(2.0**702)))
    (0.6, -0.8)
    """
    _, exponent = math.frexp(max(map(abs, vector)))
    scaled = tuple(math.ldexp(entry, -exponent) for entry in vector)  # by a power of 2, which rounds no large one
    length = math.hypot(*scaled)
    return tuple(entry / length for entry in scaled)
