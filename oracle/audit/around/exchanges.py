"""Checks that no noise answers two queries where a log is exchanged behind a snapshot."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, islice, pairwise
from typing import Final, NamedTuple

import numpy as np

from connectors.base import Committed
from oracle.audit.around.rows import NEAR, Log, Told, drawn, log_of, opened, predictor_of, query_of, snapshot_of
from oracle.audit.findings import Seen
from oracle.audit.randomness import Draws, Randomness
from oracle.audit.recording.neighbours import worlds_of
from oracle.audit.recording.replays import World
from oracle.errors import LogDivergedError, MisplacedError, SourceError
from oracle.mechanisms.addresses import Purpose
from oracle.planning.features import columns_of
from oracle.planning.plan import Plan
from oracle.predictors.kinds import restore_predictor
from oracle.runtime.recovery import catch_up, repeat_in_doubt
from oracle.state.format import Snapshot

__all__ = ["exchanged"]

_WORLDS: Final = 3
_ROUNDS: Final = 32
_TIMES: Final = 8
_OF_QUERIES: Final = frozenset({Purpose.DEPTH, Purpose.QUESTION, Purpose.BIT})
"""What bits are for that compare something of one query."""

_TAKEN: Final = {True: "refused", False: "taken for the one that was answered"}

_Bodies = Sequence[bytes | None]


class _Case(NamedTuple):
    """A daemon that starts again.

    Attributes:
        says: What is wrong with what it finds; None where nothing is.
        snapshot: The newest one.
        bodies: The log.
        committed: Where the sink's last commit is.
        in_doubt: What may have left beyond it.
    """

    says: str | None
    snapshot: Snapshot
    bodies: _Bodies
    committed: Committed | None
    in_doubt: Committed | None = None


def exchanged(plan: Plan, randomness: Randomness) -> Seen:
    """Behind a snapshot only the log that was answered is answered again, and another query has other bits.

    Else one noise answers two queries, and the difference of these has none.
    """
    cases = 0
    for number, whole in enumerate(islice(worlds_of(plan, randomness), _WORLDS)):
        draws = Draws(randomness, 128 + number)
        count, world = min(_ROUNDS, len(whole.queries), whole.plan.rounds - 1), _with_near(whole)
        shard, bodies = opened(world, snapshot_of(world, predictor_of(world))), log_of(world, count)
        snapshots, marks = [shard.snapshot()], [Committed(0, shard.mark.pack())]
        for start, stop in pairwise((0, count // 3, 2 * count // 3, count)):
            shard.process(shard.decode(Log(bodies).part(start, stop)))
            snapshots.append(shard.snapshot())
            marks.append(Committed(stop, shard.mark.pack()))
        for case in _cases(world, snapshots, marks, bodies, draws):
            if asyncio.run(_goes_on(world, case)) != (case.says is None):
                return False, f"run {number}: {case.says or 'the log that was answered'} is {_TAKEN[case.says is None]}"
            cases += 1
        if any(_one_for_two(world, one, draws) for one in snapshots):
            return False, f"run {number}: a round's bits are the same for two queries"
    return cases > 0, f"{cases} restarts: the log that was answered is answered again, and no other"


def _with_near(world: World) -> World:
    """Return a world with as many queries more: each with its first number, if it has one, moved by its last bit."""
    plan, near = world.plan, world.queries.copy()
    for feature, start in zip(plan.features, columns_of(plan.features), strict=False):
        if feature.kind == "number":
            near[:, start] = np.nextafter(near[:, start], 0.5)
            break
    return world._replace(queries=np.concatenate([world.queries, near]))


def _cases(
    world: World, snapshots: Sequence[Snapshot], marks: Sequence[Committed], bodies: _Bodies, draws: Draws
) -> Iterator[_Case]:
    """Yield restarts: with what is there in order, and with each kind of what is not."""
    _, middle, late = snapshots[:3]
    yield _Case(None, middle, bodies, marks[-1])
    yield _Case(None, middle, bodies, marks[1])
    yield _Case(None, middle, bodies, marks[2], marks[-1])
    yield _Case("a snapshot whose answers are not committed", middle, bodies, None)
    yield _Case("a snapshot ahead of what is committed", late, bodies, marks[1])
    first, count = middle.round, len(bodies)
    for says, exchange in _EXCHANGES.items():
        for row in {first, count - 1, *(first + one for one in draws.some(_TIMES, count - first))}:
            other = exchange(list(bodies), row)
            if _said(world, other[first:]) != _said(world, bodies[first:]):
                yield _Case(says, middle, other, marks[-1])
                if row >= marks[2].position:
                    yield _Case(f"{says}, where answers may have left,", middle, other, marks[2], marks[-1])


def _another(bodies: list[bytes | None], row: int) -> _Bodies:
    given = bodies[row]
    bodies[row] = next((one for one in bodies if one not in {None, given}), None)
    return bodies


def _near(bodies: list[bytes | None], row: int) -> _Bodies:
    given = bodies[row]
    bodies[row] = given and given + NEAR
    return bodies


def _none(bodies: list[bytes | None], row: int) -> _Bodies:
    bodies[row] = None if bodies[row] is not None else next(one for one in bodies if one is not None)
    return bodies


def _swapped(bodies: list[bytes | None], row: int) -> _Bodies:
    bodies[row], bodies[row - 1] = bodies[row - 1], bodies[row]
    return bodies


def _once_more(bodies: list[bytes | None], row: int) -> _Bodies:
    return [*bodies[: row + 1], *bodies[row:-1]]


_EXCHANGES: Final[Mapping[str, Callable[[list[bytes | None], int], _Bodies]]] = {
    "a log with another query": _another,
    "a log with a query whose last bit is another one": _near,
    "a log without a query, or with one more, in its round": _none,
    "a log with two queries in another order": _swapped,
    "a log with a query twice": _once_more,
}


def _said(world: World, bodies: _Bodies) -> list[bytes | None]:
    """Return what messages ask."""
    return [None if body is None else (query_of(world, body) + 0.0).tobytes() for body in bodies]


async def _goes_on(world: World, case: _Case) -> bool:
    """Return whether a daemon goes on; one that does not has answered nothing."""
    shard, source, sink = opened(world, case.snapshot), Log(case.bodies), Told(case.in_doubt)
    try:
        _, behind = await catch_up(shard, source, case.committed)
        await repeat_in_doubt(shard, source, sink, behind)
    except (LogDivergedError, MisplacedError, SourceError):
        return bool(sink.commits)
    return True


def _one_for_two(world: World, snapshot: Snapshot, draws: Draws) -> bool:
    """Return whether two queries are compared with the same bits, one of them in the other one's place."""
    half = len(world.queries) // 2
    row = min(snapshot.round, half - 1)
    given = world.queries[[row, half + row, draws.below(half)]] + 0.0
    bits = []
    for query in np.unique(given, axis=0):
        predictor = restore_predictor(world.plan, snapshot.arrays)
        with drawn() as found:
            predictor.answer(query[None], np.ones(1, dtype=np.bool_))
        bits.append(set().union(*(one for purpose, one in found if purpose in _OF_QUERIES)))
    return any(one & other for one, other in combinations(bits, 2))
