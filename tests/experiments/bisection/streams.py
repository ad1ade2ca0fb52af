"""Streams of queries in a low-dimensional subspace: uniform in direction, or concentrated around the basis."""

import math
from collections.abc import Iterator
from typing import Final, Literal

import numpy as np
import scipy.special
from numpy.typing import NDArray

StreamKind = Literal["concentrated", "uniform"]
KINDS: Final[tuple[StreamKind, ...]] = ("concentrated", "uniform")

_BATCH: Final = 16_384


def blocks(directions: int, dimension: int) -> NDArray[np.float64]:
    """Return the basis whose vectors are constant on a block of coordinates each: float64[d, D], d dividing D."""
    basis = np.zeros((directions, dimension))
    basis.reshape(directions, directions, -1)[np.diag_indices(directions)] = math.sqrt(directions / dimension)
    return basis


def queries(
    kind: StreamKind, directions: int, dimension: int, rounds: int, generator: np.random.Generator
) -> Iterator[NDArray[np.float64]]:
    """Yield batches of queries in [0, 1]^D, in the span of `blocks`, of length sqrt(D / d).

    Args:
        kind: "uniform": the direction is uniform among those with coordinates of at least 0; "concentrated": close to
            a basis vector drawn at random, well within its cone.
        directions: d.
        dimension: D.
        rounds: How many in all.
        generator: Where they come from.
    """
    basis = blocks(directions, dimension)
    for start in range(0, rounds, _BATCH):
        count = min(_BATCH, rounds - start)
        parts = np.abs(generator.standard_normal((count, directions)))
        if kind == "concentrated":
            chosen = np.eye(directions)[generator.integers(0, directions, count)]
            aside = parts * (1.0 - chosen)
            longest = 0.3 / (64.0 * math.sqrt(directions))
            parts = chosen + longest * aside / np.maximum(np.linalg.norm(aside, axis=1, keepdims=True), 1.0)
        parts *= math.sqrt(dimension / directions) / np.linalg.norm(parts, axis=1, keepdims=True)
        yield np.minimum(parts @ basis, 1.0)


def cone_probability(kind: StreamKind, directions: int) -> float:
    """Return p_D,phi of Choromanski et al. (2015), Definition 2.3: the part of a stream within phi of a basis vector.

    A cap around e^i has a 2^-(d-1) part of itself in the orthant, which is a 2^-d part of the sphere.
    """
    if kind == "concentrated" or directions == 1:
        return 1.0 / directions
    sine = math.sin(2.0 * math.asin(1.0 / (64.0 * math.sqrt(directions))))
    return float(scipy.special.betainc(0.5 * (directions - 1), 0.5, sine * sine))
