"""Linear models of many teachers, evaluated together.

A score is defined as the sum of its terms in the order of the columns, each product and each sum rounded. A product of
matrices is quicker, but how it rounds depends on its shape: so it only tells which scores are further from a tie than
rounding can take them, and the rest, which are next to none, are summed in order. scikit-learn's own votes may differ
from these within rounding of a tie.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.predictors.ensemble.learner import qualified_name

__all__ = ["Coefficients", "Linears", "coefficients"]

_BLOCK: Final = 1_024
"""Queries of a block."""

_TEACHERS: Final = 240
"""Teachers that are asked at once: their votes fit into a byte."""

_SUMS: Final = 8_192
"""Scores that are summed in order at once."""

_PREDICTS: Final = ("LinearClassifierMixin.predict", "_RidgeClassifierMixin.predict")
"""Methods by which scikit-learn's linear classifiers predict."""

_SCALER: Final = "sklearn.preprocessing._data.StandardScaler"


class Coefficients(NamedTuple):
    """A teacher's linear model.

    Attributes:
        weights: float64[s, 1 + E], the first of a column of ones; s is 1 for two classes, of which a score above 0
            means the second, else one for each.
        classes: Of it, ascending.
    """

    weights: NDArray[np.float64]
    classes: tuple[int, ...]


def coefficients(steps: Sequence[Any], classifier: Any) -> Coefficients | None:  # noqa: ANN401 -- they have no types
    """Return a linear classifier's coefficients, as of what goes into its steps.

    Args:
        steps: Fitted transformers: none, or a `StandardScaler`, which is folded in.
        classifier: Fitted classifier.

    Returns:
        None of any other kind, and where a coefficient is not finite.
    """
    known = classifier.predict.__qualname__ in _PREDICTS and type(classifier).__module__.startswith("sklearn.")
    if not known or len(steps) > 1 or any(qualified_name(step) != _SCALER for step in steps):
        return None
    weights = np.array(classifier.coef_, dtype=np.float64)
    intercepts = np.zeros(len(weights)) + classifier.intercept_
    for step in steps:
        weights = weights / step.scale_ if step.with_std else weights
        intercepts = intercepts - (weights * step.mean_).sum(axis=1) if step.with_mean else intercepts
    together = np.column_stack((intercepts, weights))
    return Coefficients(_scaled(together), tuple(classifier.classes_.tolist())) if np.isfinite(together).all() else None


def _scaled(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weights with the largest between 1/2 and 1: a power of two changes no comparison of scores."""
    if not weights.any():  # all scores tie, so the first class is chosen, and there is no need to sum them
        weights[0, 0] = -1.0 if len(weights) == 1 else 1.0
    shift: np.int32 = np.frexp(np.abs(weights).max())[1]
    return np.ldexp(weights, -shift)


class Linears:
    """Linear models, each of which votes for one class of a query.

    Args:
        models: Of the teachers.
        classes: C.
    """

    def __init__(self, models: Sequence[Coefficients], classes: int) -> None:
        self._classes = classes
        self._groups = []
        for names in sorted({model.classes for model in models}):
            same = [model for model in models if model.classes == names]
            for start in range(0, len(same), _TEACHERS):
                self._groups.append(_Group(same[start : start + _TEACHERS]))

    def parts(self) -> Iterator[NDArray[np.generic]]:
        """Yield all that votes follow from."""
        for group in self._groups:
            yield np.array(group.names)
            yield group.weights

    def votes(self, code: NDArray[np.float64]) -> NDArray[np.int32]:
        """Return how many models vote for each class: int32[n, C] of float64[n, E]."""
        votes = np.zeros((len(code), self._classes), dtype=np.int32)
        for start in range(0, len(code), _BLOCK):
            some = code[start : start + _BLOCK]
            some = np.column_stack((np.ones(len(some)), some))
            for group in self._groups:
                for name, count in group.counted(some):
                    votes[start : start + _BLOCK, name] += count
        return votes


class _Group:
    """Models with the same classes.

    Attributes:
        names: Their classes.
        weights: float64[T, s, 1 + E] (see `Coefficients`).
    """

    def __init__(self, models: Sequence[Coefficients]) -> None:
        self.names = models[0].classes
        self.weights = np.stack([model.weights for model in models])

    def counted(self, code: NDArray[np.float64]) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """Yield each class and how many vote for it, of float64[n, 1 + E]: uint8[n]."""
        models, sums, columns = self.weights.shape
        scores = (self.weights.reshape(-1, columns) @ code.T).reshape(models, sums, -1)
        # Rounding moves a sum of k products by at most 1.01 k 2^-53 times the sum of their sizes, whatever the order
        # (Higham, 2002, "Accuracy and Stability of Numerical Algorithms", section 3.1): twice that for the two sums
        # that are compared, and twice again to be safe.
        slack = 4.0 * (columns + 1) * 2.0**-53 * np.abs(code).sum(axis=1)
        chosen, near = _chosen(scores, slack)
        close = np.flatnonzero(near)
        for start in range(0, len(close), _SUMS):
            teachers, rows = np.divmod(close[start : start + _SUMS], len(code))
            chosen[teachers, rows] = _chosen(self._summed(teachers, code[rows]), slack[rows])[0]
        for number, name in enumerate(self.names):
            yield name, (chosen == number).sum(axis=0, dtype=np.uint8)

    def _summed(self, teachers: NDArray[np.intp], code: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return scores as they are defined: float64[s, n] of n teachers and a row of each."""
        scores = np.zeros((self.weights.shape[1], len(code)))
        for weights, column in zip(self.weights[teachers].T, code.T, strict=True):
            scores += weights * column
        return scores


def _chosen(scores: NDArray[np.float64], slack: NDArray[np.float64]) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Return the number of the class chosen, and whether rounding may have chosen it.

    Args:
        scores: float64[..., s, n].
        slack: float64[n], how far rounding may have moved a score.

    Returns:
        uint8[..., n] and bool[..., n].
    """
    if scores.shape[-2] == 1:
        only = scores[..., 0, :]
        return (only > 0.0).view(np.uint8), np.abs(only) <= slack
    best = scores.max(axis=-2, keepdims=True)
    return scores.argmax(axis=-2).astype(np.uint8), (scores >= best - 2.0 * slack).sum(axis=-2) > 1
