"""Trees of many teachers, evaluated together.

A query is a bit here: each comparison of any tree is made once for a block of queries and packed, and what a node says
is `right ^ ((left ^ right) & goes_left)`, of 64 queries at a time, for all nodes of one height together. A tree reads
float32, as scikit-learn's do, and ties of a leaf go to the least class, as there: so votes are scikit-learn's own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from oracle.predictors.ensemble.learner import qualified_name

__all__ = ["Forest", "is_small_tree"]

_KINDS: Final = ("sklearn.tree._classes.DecisionTreeClassifier", "sklearn.tree._classes.ExtraTreeClassifier")

_LARGEST: Final = 1_023
"""Nodes of a tree up to which this is quicker than scikit-learn, which walks each query down."""

_BLOCK: Final = 4_096
"""Queries of a block; a multiple of 64."""

_NODES: Final = 8_192
"""Nodes that are evaluated together, so that their bits stay near the processor."""

_ADDED: Final = 255
"""Votes of 0 or 1 that a byte can hold the sum of."""

_ONES: Final = np.uint64(2**64 - 1)


@dataclass(frozen=True)
class _Level:
    """Nodes of one height, and the numbers of their comparisons and of their children."""

    nodes: slice
    tests: NDArray[np.intp]
    left: NDArray[np.intp]
    right: NDArray[np.intp]


def is_small_tree(classifier: Any) -> bool:  # noqa: ANN401 -- scikit-learn has no types
    """Tell whether a fitted classifier is what a `Forest` may hold."""
    return qualified_name(classifier) in _KINDS and classifier.tree_.node_count <= _LARGEST


class Forest:
    """Decision trees, each of which votes for one class of a query.

    Args:
        trees: Small ones (`is_small_tree`), whose classes are numbers of classes.
        classes: C.
    """

    def __init__(self, trees: Sequence[Any], classes: int) -> None:
        ends = np.cumsum([tree.tree_.node_count for tree in trees])
        cuts = np.flatnonzero(np.diff(ends // _NODES)) + 1
        starts, stops = [0, *cuts.tolist()], [*cuts.tolist(), len(trees)]
        self._groves = [_Grove(trees[start:stop], classes) for start, stop in zip(starts, stops, strict=True)]
        self._classes = classes

    def parts(self) -> Iterator[NDArray[np.generic]]:
        """Yield all that votes follow from."""
        for grove in self._groves:
            yield from grove.parts()

    def votes(self, code: NDArray[np.float64]) -> NDArray[np.int32]:
        """Return how many trees vote for each class: int32[n, C] of float64[n, E]."""
        votes = np.zeros((len(code), self._classes), dtype=np.int32)
        for start in range(0, len(code), _BLOCK):
            some = code[start : start + _BLOCK]
            columns = np.zeros((code.shape[1], -len(some) % 64 + len(some)), dtype=np.float32)
            columns[:, : len(some)] = some.astype(np.float32).T
            for grove in self._groves:
                votes[start : start + _BLOCK] += grove.counted(columns)[:, : len(some)].T
        return votes


class _Grove:
    """Trees that are evaluated together (see `Forest`)."""

    def __init__(self, trees: Sequence[Any], classes: int) -> None:
        nodes = _Nodes(trees)
        nodes.prune()
        self._classes = classes
        plain = nodes.settled[nodes.roots]
        self._constant = np.bincount(nodes.classes[nodes.roots[plain]], minlength=classes).astype(np.int32)
        places = np.where(nodes.settled, nodes.classes, -1)
        order, sizes = nodes.by_height()
        places[order] = classes + np.arange(len(order))
        self._tests, which = _distinct(nodes.features[order], nodes.thresholds[order])
        self._levels = [
            _Level(
                slice(classes + stop - size, classes + stop),
                which[stop - size : stop],
                places[nodes.left[order[stop - size : stop]]],
                places[nodes.right[order[stop - size : stop]]],
            )
            for size, stop in zip(sizes.tolist(), np.cumsum(sizes).tolist(), strict=True)
        ]
        self._roots = places[nodes.roots[~plain]]
        self._rows = classes + len(order)

    def parts(self) -> Iterator[NDArray[np.generic]]:
        """Yield all that votes follow from."""
        yield self._constant
        yield self._roots
        for feature, thresholds in self._tests:
            yield np.array([feature])
            yield thresholds
        for level in self._levels:
            yield np.stack((level.tests, level.left, level.right))

    def counted(self, columns: NDArray[np.float32]) -> NDArray[np.int32]:
        """Return how many trees vote for each class: int32[C, n] of float32[E, n]; n is a multiple of 64."""
        tests = self._compared(columns)
        planes = [self._walked(tests, plane) for plane in range((self._classes - 1).bit_length())]
        counts = np.repeat(self._constant[:, None], columns.shape[1], axis=1)
        counts[0] += len(self._roots)
        for name in range(1, self._classes):
            chosen = np.full((), _ONES)
            for plane, bits in enumerate(planes):
                chosen = chosen & (bits if name >> plane & 1 else ~bits)
            added = _added(chosen)
            counts[name] += added
            counts[0] -= added
        return counts

    def _compared(self, columns: NDArray[np.float32]) -> NDArray[np.uint64]:
        """Return whether each comparison goes left: uint64[tests, n / 64]."""
        count = sum(len(thresholds) for _, thresholds in self._tests)
        bits = np.empty((count, columns.shape[1] // 8), dtype=np.uint8)
        done = 0
        for feature, thresholds in self._tests:
            less = columns[feature] <= thresholds[:, None]
            bits[done : done + len(thresholds)] = np.packbits(less, axis=1, bitorder="little")
            done += len(thresholds)
        return bits.view(np.uint64)

    def _walked(self, tests: NDArray[np.uint64], plane: int) -> NDArray[np.uint64]:
        """Return one bit of the number of the class that each tree votes for: uint64[trees, n / 64]."""
        values = np.empty((self._rows, tests.shape[1]), dtype=np.uint64)
        names = np.arange(self._classes, dtype=np.uint64)[:, None]
        values[: self._classes] = (names >> np.uint64(plane) & np.uint64(1)) * _ONES
        for level in self._levels:
            right = values[level.right]
            chosen = values[level.left]
            chosen ^= right
            chosen &= tests[level.tests]
            np.bitwise_xor(chosen, right, out=values[level.nodes])
        said: NDArray[np.uint64] = values[self._roots]
        return said


class _Nodes:
    """The nodes of all trees, one after the other.

    Args:
        trees: Fitted trees.

    Attributes:
        left: int64[N], each node's child where its comparison goes left; itself, of a leaf.
        right: As `left`.
        features: int64[N].
        thresholds: float32[N]: a float32 number is at most it where it is at most the tree's own, a float64.
        classes: int64[N], the class of a leaf.
        settled: bool[N], whether all leaves below a node have one class.
        roots: int64[T].
    """

    def __init__(self, trees: Sequence[Any]) -> None:
        parts = [tree.tree_ for tree in trees]
        sizes = np.array([part.node_count for part in parts])
        self.roots = np.cumsum(sizes) - sizes
        first, nodes = np.repeat(self.roots, sizes), np.arange(sizes.sum())
        left, right = (
            np.concatenate([getattr(part, f"children_{side}") for part in parts]) for side in ("left", "right")
        )
        self.settled = left < 0
        self.left, self.right = (np.where(self.settled, nodes, first + child) for child in (left, right))
        self.features = np.concatenate([part.feature for part in parts])
        self.thresholds = _rounded_down(np.concatenate([part.threshold for part in parts]))
        self.classes = np.concatenate(
            [tree.classes_[part.value[:, 0].argmax(axis=1)] for tree, part in zip(trees, parts, strict=True)]
        )

    def prune(self) -> None:
        """Make leaves of the nodes below which all leaves have one class."""
        while True:
            left, right = self.left, self.right
            alike = self.settled[left] & self.settled[right] & (self.classes[left] == self.classes[right])
            alike &= ~self.settled
            if not alike.any():
                return
            self.classes[alike] = self.classes[left[alike]]
            self.settled |= alike

    def by_height(self) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Return the nodes that are no leaves, children before their parents, and how many there are of each height."""
        height = np.zeros(len(self.left), dtype=np.int64)
        inner = np.flatnonzero(~self.settled)
        while True:
            higher = 1 + np.maximum(height[self.left[inner]], height[self.right[inner]])
            if (higher == height[inner]).all():
                return inner[np.argsort(higher, kind="stable")], np.bincount(higher)[1:] if len(inner) else higher
            height[inner] = higher


def _rounded_down(numbers: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the largest float32 that is at most each number."""
    near = numbers.astype(np.float32)
    return np.where(near > numbers, np.nextafter(near, np.float32(-np.inf)), near)


def _distinct(
    features: NDArray[np.int64], thresholds: NDArray[np.float32]
) -> tuple[list[tuple[int, NDArray[np.float32]]], NDArray[np.intp]]:
    """Return the thresholds of each feature that has any, and the number of each comparison among all of them."""
    order = np.lexsort((thresholds, features))
    features, thresholds = features[order], thresholds[order]
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (features[1:] != features[:-1]) | (thresholds[1:] != thresholds[:-1])
    which = np.empty(len(order), dtype=np.intp)
    which[order] = np.cumsum(new) - 1
    features, thresholds = features[new], thresholds[new]
    return [(name, thresholds[features == name]) for name in np.unique(features).tolist()], which


def _added(bits: NDArray[np.uint64]) -> NDArray[np.int32]:
    """Return how many of uint64[trees, n / 64] have each query's bit: int32[n]."""
    total = np.zeros(bits.shape[1] * 64, dtype=np.int32)
    for start in range(0, len(bits), _ADDED):
        some = bits[start : start + _ADDED].view(np.uint8)
        total += np.unpackbits(some, axis=1, bitorder="little").sum(axis=0, dtype=np.uint8)
    return total
