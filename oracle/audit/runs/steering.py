"""Queries that have sides armed again in each phase of a run, by a plain re-implementation of what it will answer.

Which side a query is medium at follows from its points, which an auditor knows, and its noise, which it works out: so
no run is left to its luck, and where a side is not armed again, that is not the re-implementation's doing.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from oracle.accounting.ledger import SideRearmed
from oracle.audit.randomness import Draws
from oracle.audit.references.boxes import PlainBoxes
from oracle.audit.references.values import Row
from oracle.audit.runs.inputs import row_at
from oracle.audit.runs.whole import Run
from oracle.planning.plan import BoxPlan

__all__ = ["Steered", "not_rearmed", "steered"]

_GRID: Final = 200
"""Values of a feature that a query is chosen from."""

_TRIES: Final = 20
_TURNS: Final = 24
_SPARE: Final = 2
"""So many times the points of a phase's sides are answered 1 before it."""


class Steered(NamedTuple):
    """A run whose sides are armed again in each phase.

    Attributes:
        run: What is played.
        restarts: Messages behind which a restart finds a side, or a phase, that has answered once since it was armed.
    """

    run: Run
    restarts: Sequence[int]


def steered(run: Run, secret: bytes, draws: Draws) -> Steered:
    """Return a run every other query of which is medium, if it can be, until the sides of a phase are armed again.

    Where noise has it that sides of a phase get no points, other queries are tried.

    Args:
        run: Of boxes or stumps; others' stays as it is.
        secret: The genesis key that it is played under.
        draws: Which queries are exchanged, and for which, is drawn.
    """
    if not isinstance(run.plan, BoxPlan):
        return Steered(run, [])
    plain = _plain(run, secret)
    turns = [_turn(run, plain, draws)]
    for _ in range(_TURNS):
        if not_rearmed(run.plan, plain.events) is None:
            break
        plain = _plain(run, secret)
        turns.append(_turn(run, plain, draws))
    return turns[-1]


def _turn(run: Run, plain: PlainBoxes, draws: Draws) -> Steered:
    aims = _Aims(run, plain, draws)
    messages: list[Any] = []
    restarts: list[int] = []
    told = len(plain.events)
    for message in run.messages:
        messages.append(aims.instead(message) if message else message)
        if message != ():
            aims.took(plain.answer(messages[-1]))
        if len(plain.events) > told:
            restarts.append(len(messages) + 1)
            told = len(plain.events)
    return Steered(run._replace(messages=messages), [place for place in restarts if place < len(messages)])


def _plain(run: Run, secret: bytes) -> PlainBoxes:
    declared = run.plan.declared
    plain = run.plain(run.plan, secret, run.rows[:declared], run.labels[:declared])
    if not isinstance(plain, PlainBoxes):
        raise TypeError
    return plain


def not_rearmed(plan: BoxPlan, events: Sequence[object]) -> str | None:
    """Return in which phase no side was armed again, by the ledger's events, if there is one."""
    seen = {event.phase for event in events if isinstance(event, SideRearmed)}
    return next((f"phase {one.phase}: no side is armed again" for one in plan.phases if one.phase not in seen), None)


class _Aims:
    """Chooses queries that are medium at one side of a phase after the other, until it is armed again."""

    def __init__(self, run: Run, plain: PlainBoxes, draws: Draws) -> None:
        self._features, self._plain, self._draws = run.plan.features, plain, draws
        self._phases, self._ones, self._side = run.plan.phases, Counter[int](), -1
        rows = [row_at(self._features, [number / _GRID] * len(self._features)) for number in range(_GRID)]
        self._values = {column: [*dict.fromkeys(row[column] for row in rows)] for column in set(plain.columns)}

    def instead(self, message: Row) -> Row:
        """Return a query in place of one: at times it is medium, or such as the next phase's sides need."""
        left = self._left()
        if left and self._draws.below(2):
            return self._medium(left, message)
        return self._answered_one(message) if self._needed() and self._draws.below(2) else message

    def took(self, label: float | None) -> None:
        """Note what a round was answered."""
        self._ones = Counter({self._plain.phase: self._ones[self._plain.phase] + (label == 1)})

    def _medium(self, left: Sequence[int], message: Row) -> Row:
        if self._side not in left:
            self._side = left[self._draws.below(len(left))]
        found = message
        for query in self._near(self._side):
            side, medium = self._plain.would(query)
            if medium and side == self._side:
                return query
            found = query if medium else found
        self._side = -1  # one before it decides all that it could: have another one
        return found

    def _answered_one(self, message: Row) -> Row:
        queries = (self._inside() if turn % 2 == 0 else self._anywhere() for turn in range(_TRIES))
        return next((one for one in queries if self._plain.would(one)[0] is None), message)

    def _needed(self) -> bool:
        """Return whether the next phase's sides may lack points."""
        following = self._phases[min(self._plain.phase, len(self._phases) - 1)].start
        return self._ones[self._plain.phase] < _SPARE * len(self._plain.columns) * int(following.points)

    def _left(self) -> list[int]:
        """Return the sides that are yet to be armed again in the phase."""
        again = {
            event.side
            for event in self._plain.events
            if isinstance(event, SideRearmed) and event.phase == self._plain.phase
        }
        return [side for side in range(len(self._plain.columns)) if side not in again]

    def _near(self, side: int) -> Iterator[Row]:
        """Yield queries that a side finds between its thresholds, then others the nearer to that, the sooner."""
        column, (low, high) = self._plain.columns[side], self._plain.zone(side)
        inside, values = self._inside(), self._values[column]
        order = []
        for value, chance in zip(values, self._draws.uniform(len(values)).tolist(), strict=True):
            depth = self._plain.depth((*inside[:column], value, *inside[column + 1 :]), side)
            order.append((max(low - depth, depth - high, 0), chance, value))
        for _, _, value in sorted(order)[:_TRIES]:
            inside = self._inside()
            yield (*inside[:column], value, *inside[column + 1 :])

    def _inside(self) -> Row:
        """Return a query that is far inside all sides."""
        return row_at(self._features, (0.35 + 0.3 * self._draws.uniform(len(self._features))).tolist())

    def _anywhere(self) -> Row:
        return row_at(self._features, self._draws.uniform(len(self._features)).tolist())
