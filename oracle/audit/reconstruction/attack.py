"""The attack: what decoders rebuild of a secret column, beside a noise-free twin and beside what epsilon allows."""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracle.audit.attacks.coins import Guesses, cap, judge
from oracle.audit.randomness import Draws
from oracle.audit.reconstruction.decoders import least_squares, linear_program
from oracle.audit.reconstruction.people import People
from oracle.audit.reconstruction.releases import PRIVATE, Table, Told, equations_of, release, treated
from oracle.errors import PlanError

__all__ = ["POWER", "Line", "Rebuilt", "attack", "without"]

Floats = NDArray[np.float64]
Bits = NDArray[np.bool_]

POWER: Final = 0.99
"""Share of the rows that the attack must rebuild of exact numbers about fair coins, or it cannot judge."""

_MOST_ENTRIES: Final = 150_000
"""That are not 0, of a linear program: more take minutes."""

_MOST_TURNED: Final = 50_000
"""Entries of tables that are put in the basis of their contrasts, where hardly any is 0."""

_HALF: Final = 0.5


class Rebuilt(msgspec.Struct, frozen=True):
    """What came of one decoder.

    Attributes:
        right: Rows whose bit is guessed right: each as most of those that look alike, by what was rebuilt.
        rebuilt: Rows of groups of which the number with the bit was rebuilt exactly.
        exposed: Of these, rows of groups that all have the bit, or all have it not.
    """

    right: int
    rebuilt: int
    exposed: int


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one release.

    Attributes:
        release: How numbers were published.
        numbers: How many.
        error: How far they are off, on average; None where the truth is not known.
        least_squares: Of the table's own column; None where it is not known.
        linear_program: The same; also None where the program would be too large.
        coins: Of fair coins in the column's place, released alike and guessed by least squares: how many are right.
        coins_rebuilt: Rows of groups whose coins were counted right.
        cap: Share of coins that epsilon lets anybody expect to guess right; None where there is none.
        lowest: Epsilon is at least this by one run on coins, but with the stated probability (nats).
        refused: Why there is nothing of all that; else "".
    """

    release: str
    numbers: int = 0
    error: float | None = None
    least_squares: Rebuilt | None = None
    linear_program: Rebuilt | None = None
    coins: int = 0
    coins_rebuilt: int = 0
    cap: float | None = None
    lowest: float = 0.0
    refused: str = ""

    @property
    def best(self) -> Rebuilt | None:
        """The decoder that guessed more right."""
        found = [one for one in (self.least_squares, self.linear_program) if one is not None]
        return max(found, key=lambda one: (one.right, one.rebuilt)) if found else None


def attack(
    table: Table, releases: Sequence[str], draws: Draws, miss: float, done: Callable[[int], object]
) -> tuple[Line, ...]:
    """Attack the exact numbers and each release of them, of the table's own column and of fair coins.

    Formal guarantees:
        * `lowest` exceeds an epsilon that the release keeps with probability at most `miss`, for each release:
          docs/explanation/separations.md, Proposition 1, of coins that are tossed here.

    Args:
        table: What is attacked.
        releases: Some of `RELEASES`; the exact twin comes first in any case.
        draws: Where coins and noise come from.
        miss: Probability of a false alarm.
        done: Told how many releases are done.
    """
    lines = []
    for number, name in enumerate(dict.fromkeys(("exact", *releases)), 1):
        try:
            lines.append(_line(table, name, draws, miss))
        except PlanError as exc:
            lines.append(Line(release=name, refused=str(exc)))
        done(number)
    if table.found is not None:
        name = releases[-1]
        told = treated(name, table.published, table.found, table.terms)
        mine = _mine(table, told, Line(release="published", numbers=int(np.isfinite(table.found).sum())))
        lines.append(mine)
    return tuple(lines)


def without(table: Table) -> Rebuilt | None:
    """Return what is guessed of the share alone."""
    sizes = table.people.sizes
    return None if table.secret is None else _rebuilt(table.people, table.secret, table.share * sizes)


def _decode(table: Table, told: Told, share: float) -> tuple[Floats, Floats | None]:
    """Return the counts by least squares, and those by the linear program: float64[g] each."""
    equations, shapes = equations_of(table.published, told), table.published.shapes
    least = least_squares(equations, table.people.sizes, share)
    if shapes and not equations.slack.any() and equations.matrix.size <= _MOST_TURNED:
        equations = equations.turned(shapes)
    small = np.count_nonzero(equations.matrix) <= _MOST_ENTRIES
    return least, linear_program(equations, table.people.sizes, least) if small else None


def _line(table: Table, name: str, draws: Draws, miss: float) -> Line:
    """Attack one release.

    Raises:
        PlanError: There is no such release of this table.
    """
    private, terms = name in PRIVATE, table.terms
    coins = draws.uniform(len(table.people.group)) < _HALF
    told = release(name, table, coins, draws)
    least, program = _decode(table, told, _HALF)
    counts = table.people.counts(coins)
    found = [one for one in (least, program) if one is not None]
    judged = _judged(table.people, least, coins, terms.delta if name in {"gaussian", "statistics"} else 0.0, miss)
    line = Line(
        release=name,
        numbers=len(told.numbers),
        coins=judged.right,
        coins_rebuilt=max(_exactly(table.people, counts, one) for one in found),
        cap=cap(terms.epsilon, terms.delta if name != "laplace" else 0.0) if private else None,
        lowest=judged.lowest,
    )
    if table.secret is None or (table.found is not None and name != "exact"):
        return line
    return _mine(table, release(name, table, table.secret, draws), line)


def _mine(table: Table, told: Told, line: Line) -> Line:
    """Return a line with what comes of the table's own column."""
    if table.secret is None:
        return line
    people, secret = table.people, table.secret
    counts = people.counts(secret)
    exact = table.published.release(counts, np.zeros(len(told.numbers)))
    least, program = _decode(table, told, table.share)
    return msgspec.structs.replace(
        line,
        error=float(np.abs(told.numbers - exact).mean()),
        least_squares=_rebuilt(people, secret, least),
        linear_program=None if program is None else _rebuilt(people, secret, program),
    )


def _judged(people: People, found: Floats, coins: Bits, delta: float, miss: float) -> Guesses:
    scores = found / people.sizes - _HALF
    return judge(scores[people.group], coins, delta, miss)


def _exactly(people: People, counts: Floats, found: Floats) -> int:
    return int(people.sizes[np.rint(found) == counts].sum())


def _rebuilt(people: People, secret: Bits, found: Floats) -> Rebuilt:
    """Compare with the truth."""
    sizes = people.sizes
    counts = people.counts(secret)
    right = np.where(found > _HALF * sizes, counts, sizes - counts).sum()
    alike = (counts == 0.0) | (counts == sizes)
    exposed = sizes[alike & (np.rint(found) == counts)].sum()
    return Rebuilt(int(right), _exactly(people, counts, found), int(exposed))
