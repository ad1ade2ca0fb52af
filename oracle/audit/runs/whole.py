"""Whole runs of boxes, stumps, classical learners and OnlineBisection beside plain re-implementations of them.

A run is played four ways, from messages to replies and a ledger: in one batch; in batches that end right before, at
and behind every event (a re-arm, a phase's end); restored from a snapshot at each of these; and killed there and
elsewhere, so that what lies behind an older snapshot is answered again. Replies, the ledger, the running tag, and the
state at each cut must be those of the re-implementation.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple, Protocol

import msgspec
import numpy as np

from oracle.accounting.ledger import LedgerEvent
from oracle.audit.randomness import Draws
from oracle.audit.references.values import Row, numbers_of
from oracle.audit.runs.served import Served
from oracle.audit.runs.unique_noise import all_drawn, recorded
from oracle.planning.plan import Plan
from oracle.predictors.base import Predictor, StateArrays
from oracle.predictors.kinds import new_trainer, points_beyond

__all__ = ["Plain", "Played", "Run", "begins", "body_of", "differs", "train"]


_CUTS: Final = 12
_BEYOND: Final = 2
"""Rows more than are declared, which must not matter."""

_OTHERS: Final = {"weight", "sums", "basis", "moments", "seen"}
"""Sums of the bisection learners, of which the state that is compared follows."""


class Plain(Protocol):
    """A plain re-implementation; its class takes a plan, the genesis key, rows and labels."""

    events: list[LedgerEvent]
    round: int
    tag: int
    margin: int | None

    @property
    def drawn(self) -> Sequence[tuple[int, int]]:
        """All words that were drawn."""

    def answer(self, query: Row | None) -> float | None:
        """Answer a round."""

    def state(self) -> Mapping[str, Any]:
        """Return what a state must hold."""


class Run(NamedTuple):
    """What is played.

    Attributes:
        plan: The plan.
        plain: The re-implementation.
        rows: As many as the plan declares, and some more.
        labels: Their labels.
        messages: Queries, None for a round with no query, and () for a message that is none, and takes no round.
    """

    plan: Any
    plain: Callable[[Any, bytes, Sequence[Row], Sequence[bool]], Plain]
    rows: Sequence[Row]
    labels: Sequence[bool]
    messages: Sequence[Row | None]


class Played(NamedTuple):
    """What the re-implementation did.

    Attributes:
        rounds: How many.
        events: What it says of the ledger.
        ones: How many answers were 1.
        drawn: Words, which are the predictor's where nothing differs.
    """

    rounds: int
    events: Sequence[LedgerEvent]
    ones: int
    drawn: Sequence[tuple[int, int]]


def train(run: Run, secret: bytes, draws: Draws) -> tuple[Predictor, int | None]:
    """Return a predictor whose rows came in several batches, and what was released of its points."""
    rows = np.array([numbers_of(run.plan.features, row) for row in run.rows])
    labels = np.array(run.labels, dtype=np.bool_)
    trainer = new_trainer(run.plan, secret)
    cuts = [0, *draws.some(min(3, len(rows)), len(rows)), len(rows)]
    for start, stop in pairwise(cuts):
        trainer.add(rows[start:stop], labels[start:stop])
    predictor = trainer.finish()
    return predictor, points_beyond(trainer)


def begins(run: Run, secret: bytes, draws: Draws) -> tuple[str | None, Sequence[tuple[int, int]]]:
    """Return what of a run's first state is not as the re-implementation says, if anything, and the words drawn.

    Args:
        run: Whose rows and plan.
        secret: The genesis key.
        draws: Where batches of rows are cut.
    """
    predictor, margin = train(run, secret, draws)
    declared = run.plan.declared
    plain = run.plain(run.plan, secret, run.rows[:declared], run.labels[:declared])
    return _unlike_start(predictor, margin, plain.state(), plain.margin), plain.drawn


def _unlike_start(
    predictor: Predictor, margin: int | None, state: Mapping[str, Any], expected: int | None
) -> str | None:
    wrong = "what is released of the points" if margin != expected else _unlike(predictor.export(), state)
    return None if wrong is None else f"at the start, {wrong}"


class _Expected:
    """All that a run must show, round by round."""

    def __init__(self, run: Run, secret: bytes) -> None:
        declared = run.plan.declared
        plain = run.plain(run.plan, secret, run.rows[:declared], run.labels[:declared])
        self.margin = plain.margin
        self.states, self.tags, self.told = [plain.state()], [plain.tag], [len(plain.events)]
        self.answers: list[float | None] = []
        self.message_ends = [0]
        for place, message in enumerate(run.messages, 1):
            if message == ():
                continue
            self.answers.append(plain.answer(message))
            self.states.append(plain.state())
            self.tags.append(plain.tag)
            self.told.append(len(plain.events))
            self.message_ends.append(place)
        self.events, self.drawn = plain.events, plain.drawn
        last = len(self.answers)
        near = {event.round + step for event in plain.events for step in (-1, 0, 1)}
        self.cuts = sorted(cut for cut in near if 0 < cut < last)


def differs(run: Run, secret: bytes, draws: Draws) -> tuple[str | None, Played]:
    """Play a run in all ways; return what is not as the re-implementation says, if anything.

    Args:
        run: What is played.
        secret: The genesis key.
        draws: Where batches are cut.
    """
    expected = _Expected(run, secret)
    rounds = len(expected.answers)
    played = Played(rounds, expected.events, sum(answer == 1 for answer in expected.answers), expected.drawn)
    some = sorted({*expected.cuts[:: 1 + draws.below(2)], *draws.some(min(_CUTS, rounds - 1), rounds - 1)} - {0})
    for name, cuts, way in (
        ("in one batch", [], _on),
        ("in batches", expected.cuts, _on),
        ("restored at every event", expected.cuts, _restored),
        ("killed", some, _killed),
    ):
        with recorded() as words:
            predictor, margin = train(run, secret, draws)
            wrong = _unlike_start(predictor, margin, expected.states[0], expected.margin)
            wrong = wrong or next(_played(run, expected, Served(run.plan, predictor), cuts, way), None)
        if wrong is None and not all_drawn(expected.drawn, words):
            wrong = "the words that are drawn"
        if wrong is not None:
            return f"{name}, {wrong}", played
    return None, played


def _on(_served: Served, _turn: int) -> None:
    """Go on."""


def _restored(served: Served, _turn: int) -> None:
    served.checkpoint()
    served.restart()


def _killed(served: Served, turn: int) -> None:
    """Start again from the last snapshot; write one every third time."""
    served.restart()
    if turn % 3 == 0:
        served.checkpoint()


def _played(
    run: Run, expected: _Expected, served: Served, cuts: Sequence[int], way: Callable[[Served, int], None]
) -> Iterator[str]:
    """Play one way; yield what is wrong."""
    bodies = [body_of(run.plan, place, message) for place, message in enumerate(run.messages)]
    last = len(expected.answers)
    done = 0
    for turn, (start, stop) in enumerate(pairwise([0, *cuts, last])):
        until = expected.message_ends[stop] if stop < last else len(bodies)
        replies = served.send(bodies[done:until])
        place = _wrong_reply(run.messages[done:until], replies, expected.answers[start:stop], start)
        if place is not None:
            yield f"the reply to message {done + place}"
        done = until
        events = [msgspec.json.decode(line, type=LedgerEvent) for line in served.ledger]
        if events != expected.events[: expected.told[stop]]:
            yield f"the ledger up to round {stop}"
        if served.mark != (stop, expected.tags[stop]):
            yield f"the running tag at round {stop}"
        way(served, turn)
        if way is not _on or stop == last:
            wrong = _unlike(served.state(), expected.states[stop])
            if wrong is not None:
                yield f"round {stop}: {wrong}"


def body_of(plan: Plan, place: int, message: Row | None) -> bytes | None:
    """Return a message: features by their names or in order; or one that is none."""
    if message is None:
        return None
    if message == ():
        return b'{"id":"w","x":[true]}'
    names = [feature.name for feature in plan.features]
    said = dict(zip(names, message, strict=True)) if place % 2 else {"x": list(message)}
    return json.dumps({"id": str(place), **said}).encode()


def _wrong_reply(
    messages: Sequence[Row | None], replies: Sequence[bytes], answers: Sequence[float | None], first: int
) -> int | None:
    """Return the first message whose reply is not right."""
    given = iter(enumerate(answers, first))
    for place, (message, body) in enumerate(zip(messages, replies, strict=True)):
        reply = json.loads(body)
        said = reply.get("label", reply.get("value"))
        if message == ():
            if "error" not in reply or said is not None:
                return place
            continue
        number, answer = next(given)
        if not _close(said, answer) or reply["round"] != number:
            return place
    return None


def _close(one: Any, other: Any) -> bool:  # noqa: ANN401 -- numbers, or several of these
    """Return whether two are the same, or numbers that rounding tells apart."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(_close(*pair) for pair in zip(one, other, strict=True))
    if isinstance(one, float) and isinstance(other, float):
        return one == other or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return bool(one == other)


def _unlike(arrays: StateArrays, expected: Mapping[str, Any]) -> str | None:
    """Return the name of an array that does not hold what it must, or must not be there."""
    held = _read(arrays)
    surplus = held.keys() - expected.keys() - (_OTHERS if "database" in expected else set())
    for name in [*expected, *surplus]:
        mine, its = expected.get(name), held.get(name)
        if not _close(its, mine):
            return name
    return None


def _read(arrays: StateArrays) -> dict[str, Any]:
    """Return a state as plain tuples, without padding."""
    read: dict[str, Any] = {"key": arrays["key"].tobytes()}
    for name, array in arrays.items():
        if name.endswith("_counts"):
            window = name.removesuffix("_counts")
            read[window] = tuple(
                tuple(
                    zip(
                        _keys(arrays[f"{window}_keys_{side}"])[:count],
                        arrays[f"{window}_records_{side}"].tolist()[:count],
                        strict=True,
                    )
                )
                for side, count in enumerate(array.tolist())
            )
        elif name == "points":
            read[name] = tuple(_unpadded(_keys(side)) for side in array)
        elif "_keys_" not in name and "_records_" not in name and name != "key":
            read[name] = _tuple(array.tolist())
    return read


def _tuple(value: Any) -> Any:  # noqa: ANN401 -- lists in lists
    return tuple(_tuple(one) for one in value) if isinstance(value, list) else value


def _keys(array: Any) -> list[float | bytes]:  # noqa: ANN401 -- an array of numbers, or of bytes
    return array.tolist() if array.dtype == np.float64 else [row.tobytes() for row in array]


def _unpadded(keys: list[float | bytes]) -> tuple[float | bytes, ...]:
    return tuple(key for key in keys if key not in {math.inf, b"\xff" * (len(key) if isinstance(key, bytes) else 0)})
