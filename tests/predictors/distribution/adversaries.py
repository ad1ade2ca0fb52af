"""Whoever knows the rows and asks where an answer errs most: data, adversaries, and what they find.

Nobody knows the rows in earnest, so no analyst finds larger errors.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from oracle.mechanisms.orders import Keys, load_keys
from oracle.planning.distribution.model import DistributionPlan, domain_of
from oracle.planning.features import Feature
from oracle.predictors.values import Values
from tests.predictors.distribution.values import Told, ask, at, draw_values, quantiles
from tests.predictors.suite import train

Floats = NDArray[np.float64]
Draws = np.random.Generator


def _normal(of: Feature, count: int, draws: Draws) -> Floats:
    return draw_values(of, count, draws) if of.kind != "number" else draws.normal(size=(count, 1))


def _atoms(of: Feature, count: int, draws: Draws) -> Floats:
    few = draw_values(of, 7, draws)
    return few[draws.choice(7, count, p=draws.dirichlet(np.full(7, 0.5)))]


def _equal(of: Feature, count: int, draws: Draws) -> Floats:
    return np.repeat(draw_values(of, 1, draws), count, axis=0)


def _wide(of: Feature, count: int, draws: Draws) -> Floats:
    """Values of all sizes there are, half of them one."""
    domain = domain_of(of)
    rows = np.array([domain.row(int(part * domain.size)) for part in draws.random(count)])
    rows[: count // 2] = rows[0]
    return rows


DATA: Final[Mapping[str, Callable[[Feature, int, Draws], Floats]]] = {
    "normal": _normal,
    "atoms": _atoms,
    "equal": _equal,
    "wide": _wide,
}
"""What makes so many rows."""


class Rows:
    """The rows, which only the adversary sees, and the predictor that answers about them."""

    def __init__(self, plan: DistributionPlan, rows: Floats, secret: bytes) -> None:
        self.plan, self._values = plan, Values(plan.features)
        self.predictor = train(plan, rows, np.ones(len(rows), dtype=np.bool_), secret)
        self.keys = np.sort(self._key_of(rows))
        self.rows = rows[np.argsort(self._key_of(rows), kind="stable")]
        self.domain = domain_of(plan.feature)

    def _key_of(self, rows: Floats) -> Keys:
        return self._values.column(rows, 0)

    def upto(self, values: Floats) -> Floats:
        """Return the share of the rows at most each value."""
        return np.searchsorted(self.keys, self._key_of(values), side="right") / self.plan.declared

    def before(self, values: Floats) -> Floats:
        """Return the share of the rows below each value."""
        return np.searchsorted(self.keys, self._key_of(values), side="left") / self.plan.declared

    def rank(self, value: Floats) -> int:
        """Return the rank of one value among all there are."""
        return self.domain.rank(self._key_of(value[None])[0].item())

    def between(self, count: int, many: int) -> Floats:
        """Return values up to which so many rows are, ascending: as many as there are, `many` at most."""
        low = self.rank(self.rows[count - 1]) if count else 0
        high = self.rank(self.rows[count]) if count < len(self.rows) else self.domain.size
        ranks = sorted({low + (high - low) * part // many for part in range(many) if high > low})
        return np.array([self.domain.row(rank) for rank in ranks]).reshape(len(ranks), self.plan.feature.width)

    def pivots(self) -> Keys:
        """Return the keys of the pivots."""
        state = self.predictor.export()
        return load_keys(state["below"], self.keys.dtype)[np.asarray(state["values"], dtype=np.int64) >= 0]


def _uniform(table: Rows, draws: Draws) -> Generator[Floats, Told, None]:
    """Any rows' values, and any values at all."""
    yield at(table.rows[draws.integers(0, len(table.rows), 300)])
    yield at(np.array([table.domain.row(int(part * table.domain.size)) for part in draws.random(300)]))


def _hammer(table: Rows, draws: Draws) -> Generator[Floats, Told, None]:
    """Beside every threshold, just where noise of l does harm: upwards for "low", downwards for "high"."""
    ladder = table.plan.thresholds
    for low in draws.permutation(np.array(table.plan.lows)).tolist():
        for beyond in (ladder.margin, ladder.margin + 2 * ladder.gap):
            for count, step in ((low + beyond, 1), (low + ladder.gap - beyond, -1)):
                yield at(table.between(min(max(count, 0), table.plan.declared), 60)[::step])


def _pivots(table: Rows, draws: Draws) -> Generator[Floats, Told, None]:
    """Until thresholds retire, then beside each pivot, next to it and a few rows away."""
    yield from _uniform(table, draws)
    for key in table.pivots():
        counts = int(np.searchsorted(table.keys, key, side="right"))
        reach = table.plan.thresholds.gap + table.plan.thresholds.margin
        near = [count for count in range(counts - reach, counts + reach, 3) if 0 < count <= len(table.rows)]
        yield at(
            np.concatenate(
                [table.rows[np.array(near, dtype=np.int64) - 1], *(table.between(count, 3) for count in near)]
            )
        )


def _bisection(table: Rows, draws: Draws) -> Generator[Floats, Told, None]:
    """Every quantile, by shares of its own choosing, and as it is offered."""
    for share in draws.random(12):
        low, high = 0, table.domain.size
        while high - low > 1:
            middle = (low + high) // 2
            answer = yield at(np.array([table.domain.row(middle)]))
            low, high = (low, middle) if answer.values[0] >= share else (middle, high)
    yield quantiles(table.plan.feature, np.linspace(0.0, 1.0, 201))


def _edges(table: Rows, draws: Draws) -> Generator[Floats, Told, None]:
    """Each value that many rows have, and its neighbours among all there are."""
    values, counts = np.unique(table.rows, axis=0, return_counts=True)
    for value in values[np.argsort(-counts)[:40]]:
        rank = table.rank(value)
        ranks = [near for near in (rank, rank - 1, rank + 1) if 0 <= near < table.domain.size]
        yield at(np.array([table.domain.row(int(near)) for near in draws.permutation(ranks)]))


ADVERSARIES: Final = {
    "uniform": _uniform,
    "hammer": _hammer,
    "pivots": _pivots,
    "bisection": _bisection,
    "edges": _edges,
}
"""Each yields questions, and is sent what was told of them."""


@dataclass(frozen=True)
class Found:
    """What an adversary found in one run.

    Attributes:
        error: Largest error of a verified share, beyond its promise where this is above 1, in units of it.
        missed: By how much the worst verified quantile was missed, in the same units.
        paid: Answers that were paid for.
        comparisons: With noise.
        verified: Whether all were.
    """

    error: float
    missed: float
    paid: int
    comparisons: int
    verified: bool


def play(plan: DistributionPlan, data: str, adversary: str, seed: int) -> Found:
    """Run one adversary against one data set, then all quantiles and all rows' shares."""
    draws = np.random.default_rng([seed, *data.encode(), *adversary.encode()])
    table = Rows(plan, DATA[data](plan.feature, plan.declared, draws), draws.bytes(32))
    game, told, asked = ADVERSARIES[adversary](table, draws), list[Told](), list[Floats]()
    with suppress(StopIteration):
        rows = next(game)
        while True:
            asked.append(rows)
            told.append(ask(table.predictor, rows))
            rows = game.send(told[-1])
    last = np.concatenate(
        [at(table.rows[:: max(len(table.rows) // 500, 1)]), quantiles(plan.feature, np.linspace(0, 1, 41))]
    )
    asked.append(last)
    told.append(ask(table.predictor, last))
    return _found(table, asked, told)


def _found(table: Rows, asked: list[Floats], told: list[Told]) -> Found:
    questions = np.concatenate(asked)
    values, _, verified, found = (np.concatenate([getattr(one, name) for one in told]) for name in Told._fields)
    upto, before, share = table.upto(found), table.before(found), questions[:, -1]
    wrong = np.abs(values - upto)[verified]
    quantile = verified & (share >= 0.0)
    missed = np.maximum(share - upto, before - share)[quantile]
    counters = table.predictor.export()["counters"]
    last = told[-1].values[:-41]
    assert (np.diff(last) >= 0.0).all(), "answers rise with values"
    return Found(
        float(wrong.max(initial=0.0)) / table.plan.error,
        float(missed.max(initial=0.0)) / table.plan.error,
        int(counters[3]),
        int(counters[4]),
        bool(verified.all()),
    )
