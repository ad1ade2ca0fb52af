"""The learner of a plan, and the window of queries that it may need before, to find a basis."""

import numpy as np
from numpy.typing import NDArray

from oracle.mechanisms.noise.laws import NoiseLaw, named_law
from oracle.mechanisms.sums import dots
from oracle.planning.bisection.model import BisectionPlan
from oracle.predictors.base import StateArrays
from oracle.predictors.bisection.basis import BasisFinder
from oracle.predictors.bisection.hypercube import OnlineBisection
from oracle.predictors.bisection.learner import Ask, Learner, clipped
from oracle.predictors.bisection.newton import StochasticNewton

__all__ = ["WarmedUp", "new_learner"]


def new_learner(plan: BisectionPlan) -> Learner:
    """Return the learner of a plan's profile, as it is before the first query."""
    return WarmedUp(plan) if plan.warmup else _over(plan, np.array(plan.basis))


def _over(plan: BisectionPlan, basis: NDArray[np.float64]) -> Learner:
    law: NoiseLaw = named_law(plan.noise, plan.scale)
    if plan.profile == "paper":
        return OnlineBisection(basis, law, plan.phases[0].rounds)
    return StochasticNewton(basis, law)


class WarmedUp:
    """Finds a basis of the first usable queries, which it answers as if all of w* were 1/2; then learns over it.

    Args:
        plan: The plan, with a window.
    """

    def __init__(self, plan: BisectionPlan) -> None:
        self._plan = plan
        self._dimension = len(plan.features)
        self._finder = BasisFinder(self._dimension, plan.directions, plan.warmup)
        self._basis = np.eye(plan.directions, self._dimension)  # until it is found
        self._inner = _over(plan, self._basis)

    def learn(self, queries: NDArray[np.float64], usable: NDArray[np.bool_], ask: Ask) -> NDArray[np.float64]:
        """Answer queries in order (see `Learner.learn`)."""
        used = np.flatnonzero(usable)[: self._finder.missing]
        if not self._finder.missing:
            return self._inner.learn(queries, usable, ask)
        self._finder.add(queries[used])
        head = len(queries)
        if not self._finder.missing:
            head = int(used[-1]) + 1
            self._basis = self._finder.basis()
            self._inner = _over(self._plan, self._basis)

        def ask_later(rows: NDArray[np.intp], thresholds: NDArray[np.float64]) -> NDArray[np.bool_]:
            return ask(rows + head, thresholds)

        first = clipped(queries[:head], dots(queries[:head], np.full((1, self._dimension), 0.5))[0])
        return np.concatenate([first, self._inner.learn(queries[head:], usable[head:], ask_later)])

    def hypothesis(self) -> NDArray[np.float64]:
        """Return w."""
        return np.full(self._dimension, 0.5) if self._finder.missing else self._inner.hypothesis()

    def export(self) -> StateArrays:
        """Return the state."""
        return {**self._finder.export(), "basis": self._basis.copy(), **self._inner.export()}

    def restore(self, arrays: StateArrays) -> None:
        """Take a state back."""
        self._finder.restore(arrays)
        self._basis = np.array(arrays["basis"], dtype=np.float64)
        self._inner = _over(self._plan, self._basis)
        self._inner.restore(arrays)
