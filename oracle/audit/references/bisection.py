"""A plain re-implementation of OnlineBisection, round by round.

Written from PRIVACY.md, Theorem 12, and Choromanski, Rostamizadeh and Syed (2015), Algorithms 1 and 2.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from oracle.accounting.ledger import PhaseStarted
from oracle.audit.references.phased import Phased
from oracle.audit.references.values import Row, numbers_of
from oracle.mechanisms.addresses import Purpose
from oracle.planning.bisection.model import BisectionPlan

__all__ = ["PlainBisection"]

_UNIT: Final = 1 << 30
"""A row's values are rounded to parts of 1."""

_REACH: Final = {"laplace": 40.0, "gaussian": 8.0}
"""Scales that a threshold is away from the exact answer at most."""

_LONGEST, _PART = 256, 8
"""Queries of a block of the `efficient` profile: a part of those before it, up to so many."""

Floats = NDArray[np.float64]


class PlainBisection(Phased):
    """A hidden vector, learned from one noisy bit a query.

    Args:
        plan: The plan.
        secret: The genesis key.
        rows: As many as the plan declares.
        labels: Their labels.
    """

    def __init__(self, plan: BisectionPlan, secret: bytes, rows: Sequence[Row], labels: Sequence[bool]) -> None:
        super().__init__(plan, secret)
        self._plan = plan
        learned = [numbers_of(plan.features, row) for row, label in zip(rows, labels, strict=True) if label]
        sums = [sum(round(Fraction(row[column]) * _UNIT) for row in learned) for column in range(len(plan.features))]
        self._vector = np.array([float(Fraction(one, _UNIT * plan.declared)) for one in sums])
        self._window: list[Floats] = []
        self._learner: _Cube | _Newton | None = None if plan.warmup else self._over(np.array(plan.basis))
        self._known = np.zeros(len(sums))
        self._bits, self._cost = 0, 0.0
        self._start()

    def _start(self) -> None:
        plan, phase = self._plan, self._phases[self._phase]
        self._begin(
            PhaseStarted(
                round=self.round,
                phase=phase.phase,
                rounds=phase.rounds,
                epsilon=plan.epsilon,
                delta=phase.delta,
                delta_spent=plan.declared * plan.phases[0].delta,
                covers="training",
            )
        )

    def _over(self, basis: Floats) -> "_Cube | _Newton":
        learner = _Cube if self._plan.profile == "paper" else _Newton
        return learner(self._plan, basis)

    def answer(self, query: Row | None) -> float | None:
        """Answer a round."""
        hashed, value = self._hash(query), None
        if query is not None and hashed is not None:
            row = np.array(numbers_of(self._features, query))
            value = self._asked(row, hashed) if self._phase == 1 else float(row @ self._known)
            value = (_clipped(row, value) if self._plan.profile == "efficient" else value) + 0.0
        if self._took(hashed) and self._phase < len(self._phases):
            self._known = np.full(len(self._known), 0.5) if self._learner is None else self._learner.known()
            self._start()
        return value

    def _asked(self, row: Floats, hashed: int) -> float:
        """Answer by what is known, and ask the oracle, if the query can be learned from."""
        learner = self._learner
        if learner is None:
            if _usable(row):
                self._window.append(row)
                if len(self._window) == self._plan.warmup:
                    self._learner = self._over(_axes(np.array(self._window), self._plan.directions))
            return _clipped(row, float(row.sum()) / 2.0)
        value = float(row @ learner.known())
        threshold = learner.threshold(row) if _usable(row) else None
        if threshold is not None:
            learner.told(row, self._bit(row, threshold, hashed))
        return value

    def _bit(self, row: Floats, threshold: float, hashed: int) -> bool:
        """Return whether w.q + D E is above a threshold; the bits decide which side of the less likely one."""
        dimension, scale = len(row), self._plan.scale
        at = (threshold - float(row @ self._vector)) / dimension
        away = min(abs(at) / scale, _REACH[self._plan.noise])
        tail = math.exp(-away) / 2.0 if self._plan.noise == "laplace" else math.erfc(away / math.sqrt(2.0)) / 2.0
        word = self._keyed.word(Purpose.BIT, self._phase_round, 0, hashed)
        rare = Fraction(word, 1 << 128) < Fraction(tail)
        self._bits += 1
        self._cost += (float(row.max()) / dimension / scale) ** 2 / 2.0
        return rare == (at >= 0.0)

    def state(self) -> Mapping[str, Any]:
        """Return what a state must hold; numbers are as near as rounding leaves them."""
        state: dict[str, Any] = {
            "key": self._keyed.secret,
            "counters": (self.round, self._phase, self._phase_round),
            "bits": (self._bits,),
            "cost": (self._cost,),
        }
        if self._phase > 1:
            return state | {"hypothesis": tuple(self._known.tolist())}
        learned = (
            self._over(np.eye(self._plan.directions, len(self._vector))) if self._learner is None else self._learner
        )
        return {**state, "database": tuple(self._vector.tolist()), **learned.state()}


def _usable(row: Floats) -> bool:
    return bool(((row >= 0.0) & (row <= 1.0)).all())


def _clipped(row: Floats, value: float) -> float:
    """Return a value that w.q can have, of a query that is usable."""
    return min(max(value, 0.0), float(row.sum())) if _usable(row) else value


def _axes(window: Floats, count: int) -> Floats:
    """Return the principal axes of a window's second moments, each pointing to where its queries are."""
    _, vectors = np.linalg.eigh(window.T @ window)
    axes = vectors.T[::-1][:count]
    towards: Floats = np.where(axes @ window.sum(axis=0) < 0.0, -1.0, 1.0)[:, None] * axes
    return towards


def _above(plan: BisectionPlan, at: float) -> float:
    """Return P(E > at)."""
    if plan.noise == "gaussian":
        return math.erfc(at / (plan.scale * math.sqrt(2.0))) / 2.0
    tail = math.exp(-abs(at) / plan.scale) / 2.0
    return tail if at >= 0.0 else 1.0 - tail


class _Cube:
    """Algorithms 1 and 2, with m the minimum: as printed the threshold would be half the width."""

    def __init__(self, plan: BisectionPlan, basis: Floats) -> None:
        self._plan, self._basis = plan, basis
        self._horizon = plan.phases[0].rounds
        reach = math.sqrt(basis.shape[1])
        self._low, self._high = [-reach] * len(basis), [reach] * len(basis)
        self._votes = {True: [0] * len(basis), False: [0] * len(basis)}
        self._cone = 0

    def known(self) -> Floats:
        """Return the cube's centre."""
        centre: Floats = (
            np.array([(low + high) / 2.0 for low, high in zip(self._low, self._high, strict=True)]) @ self._basis
        )
        return centre

    def threshold(self, row: Floats) -> float | None:
        """Return (m + M)/2, where the query is near to a basis vector and the cube is not small enough."""
        count = len(self._basis)
        final = math.log(self._horizon) / math.sqrt(self._horizon * count)
        if all(high - low <= final for low, high in zip(self._low, self._high, strict=True)):
            return None
        length = float(np.linalg.norm(row))
        near = 2.0 * math.asin(1.0 / (64.0 * math.sqrt(count)))
        along = self._basis @ row
        cones = [i for i in range(count) if length > 0.0 and math.acos(min(max(along[i] / length, -1.0), 1.0)) <= near]
        if not cones:
            return None
        self._cone = cones[0]
        ends = [(low * one, high * one) for low, high, one in zip(self._low, self._high, along, strict=True)]
        return float(sum(min(pair) for pair in ends) + sum(max(pair) for pair in ends)) / 2.0

    def told(self, _row: Floats, bit: bool) -> None:  # noqa: FBT001 -- it is one
        """Count a vote, and shrink the cube if every direction has enough."""
        self._votes[bit][self._cone] += 1
        reach = (self._high[0] - self._low[0]) / (8.0 * self._basis.shape[1])
        above = _above(self._plan, reach)
        between = _above(self._plan, -reach) - above
        all_votes = [plus + minus for plus, minus in zip(self._votes[True], self._votes[False], strict=True)]
        if min(all_votes) < 30.0 * math.log(self._horizon) / between**2:
            return
        for i, votes in enumerate(all_votes):
            kept = 0.75 * (self._high[i] - self._low[i])
            if self._votes[True][i] > votes * above + votes * between / 2.0:
                self._low[i] = self._high[i] - kept
            else:
                self._high[i] = self._low[i] + kept
        self._votes = {True: [0] * len(all_votes), False: [0] * len(all_votes)}

    def state(self) -> Mapping[str, Any]:
        """Return what a state must hold of it."""
        return {
            "low": tuple(self._low),
            "high": tuple(self._high),
            "votes": (tuple(self._votes[True]), tuple(self._votes[False])),
        }


class _Newton:
    """Averaged stochastic Newton steps, as `oracle.predictors.bisection.newton` says in words."""

    def __init__(self, plan: BisectionPlan, basis: Floats) -> None:
        self._basis, self._dimension = basis, basis.shape[1]
        density = 0.5 / plan.scale if plan.noise == "laplace" else 1.0 / (plan.scale * math.sqrt(2.0 * math.pi))
        self._slope = self._dimension / density
        self._median = _above(plan, 0.0)
        self._ridge = 3.0 * self._dimension / density**2
        self._last = self._mean = basis @ np.full(self._dimension, 0.5)
        self._weight = 0.0
        self._squares = np.zeros((len(basis), len(basis)))
        self._pending: list[Floats] = []
        self._asked = 0

    def known(self) -> Floats:
        """Return the average of the iterates."""
        mean: Floats = self._mean @ self._basis
        return mean

    def threshold(self, row: Floats) -> float:
        """Return what the last iterate says."""
        return float(self._last @ (self._basis @ row))

    def told(self, row: Floats, bit: bool) -> None:  # noqa: FBT001 -- it is one
        """Add a bit to the block, and take a step at its end."""
        along = self._basis @ row
        length = min(max((self._asked - len(self._pending)) // _PART, 1), _LONGEST)
        self._squares = self._squares + np.outer(along, along)
        self._pending.append(along * (bit - self._median))
        self._asked += 1
        if len(self._pending) < length:
            return
        ridge = max(self._ridge, 2.0**-40 * float(self._squares.diagonal().max()))
        step = np.linalg.solve(self._squares + ridge * np.eye(len(along)), np.sum(self._pending, axis=0))
        gain = min(self._asked**0.25, max(self._asked / (2.0 * length), 1.0))
        slope = max(self._slope, self._dimension / math.sqrt(self._asked))
        reach = math.sqrt(self._dimension)
        self._last = np.clip(self._last + gain * slope * step, -reach, reach)
        self._weight += length * self._asked
        self._mean = self._mean + length * self._asked / self._weight * (self._last - self._mean)
        self._pending = []

    def state(self) -> Mapping[str, Any]:
        """Return what a state must hold of it."""
        return {
            "raw": tuple(self._last.tolist()),
            "mean": tuple(self._mean.tolist()),
            "asked": (self._asked, len(self._pending)),
        }
