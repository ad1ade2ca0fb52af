"""The rounds of the periods that are open: what was answered in each, and whether its truth was counted."""

import hashlib
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from oracle.codec.json.truths import NO_ANSWER, Answered
from oracle.codec.json.truths import Truth as TrueLabel
from oracle.errors import StateError
from oracle.mechanisms.truth import NoisyPeriod, noisy_period
from oracle.planning.model import Truth

__all__ = ["Tally"]

_UNCOUNTED, _RIGHT, _WRONG = 0, 1, 2
_SHAPES: Final = {"rounds": "<i8", "hashes": "<u8", "labels": "<i2", "counted": "i1"}
_PLACES: Final = ("newest", "period", "released", "right", "wrong")


class Tally:
    """Counts right and wrong answers of periods, and releases each period once, when a public moment has come.

    Period i has the rounds from i * rounds on. It is released when the answer of a round that is `lag` or more behind
    its end is read; a period that no answer was read of is passed over.

    Formal guarantees:
        * A round is counted once at most: for the first truth that has the id of its answer, while its period is open.
          A round with no query is never counted. So a query, with all that is sent of it, moves one count of one
          period by 1 at most.
        * When a period is released depends on the rounds that were read alone.
        * Its memory is that of `rounds` + `lag` rounds, whatever is sent; the size of `arrays` is always the same.

    Args:
        truth: What the plan declares.
        secret: 32 bytes: of the noise, and of the hashes of ids.
    """

    def __init__(self, truth: Truth, secret: bytes) -> None:
        self._truth = truth
        self._secret = secret
        self._size = truth.rounds + truth.lag
        self._held = {name: np.zeros(self._size, dtype=kind) for name, kind in _SHAPES.items()}
        self._held["rounds"] -= 1
        self._places = dict.fromkeys(_PLACES, -1) | {"period": 0}

    @property
    def newest(self) -> int:
        """The newest round that was read; -1 before the first."""
        return self._places["newest"]

    @property
    def latest(self) -> NoisyPeriod | None:
        """The newest release."""
        at = self._places
        return None if at["released"] < 0 else NoisyPeriod(at["released"], at["right"], at["wrong"])

    def answer(self, answered: Answered) -> Iterator[NoisyPeriod]:
        """Take the next answer, and yield the periods that it closes; exhaust it before anything else is taken."""
        if answered.round <= self.newest:
            return  # it stands in the log twice
        while answered.round >= self._closes(self._places["period"]):
            yield from self._close(answered.round)
        index = answered.round % self._size
        self._held["rounds"][index] = answered.round
        self._held["hashes"][index] = self._hash(answered.identifier)
        self._held["labels"][index] = answered.label
        self._held["counted"][index] = _UNCOUNTED
        self._places["newest"] = answered.round

    def truth(self, told: TrueLabel) -> None:
        """Count a true label, if it is the first of an answer that is held."""
        index = told.round % self._size
        held = {name: array[index] for name, array in self._held.items()}
        if held["rounds"] != told.round or held["labels"] == NO_ANSWER or held["counted"] != _UNCOUNTED:
            return
        if held["hashes"] == self._hash(told.identifier) and told.round >= self._places["period"] * self._truth.rounds:
            self._held["counted"][index] = _RIGHT if held["labels"] == told.label else _WRONG

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return all that is remembered, to be sealed."""
        return {**self._held, "places": np.array([self._places[name] for name in _PLACES], dtype="<i8")}

    def restore(self, arrays: dict[str, NDArray[np.generic]]) -> None:
        """Go on from what `arrays` returned.

        Raises:
            StateError: It is of a plan with other periods.
        """
        if {name: array.shape for name, array in self.arrays().items()} != {n: a.shape for n, a in arrays.items()}:
            raise StateError("truth state: its arrays are not those of the plan's periods")
        self._held = {name: arrays[name].astype(kind) for name, kind in _SHAPES.items()}
        self._places = dict(zip(_PLACES, map(int, arrays["places"]), strict=True))

    def _closes(self, period: int) -> int:
        """Return the first round that closes a period."""
        return (period + 1) * self._truth.rounds + self._truth.lag

    def _close(self, reached: int) -> Iterator[NoisyPeriod]:
        """Close the oldest open period: release it, or pass over it and all others of which nothing is held."""
        period, rounds = self._places["period"], self._truth.rounds
        held = self._held["rounds"]
        inside = (held >= period * rounds) & (held < (period + 1) * rounds)
        if not inside.any():
            later = held[held >= (period + 1) * rounds]
            first = min(int(later.min()), reached) if later.size else reached
            self._places["period"] = max(min(first // rounds, self._first_open(reached)), period + 1)
            return
        counts = [int(np.count_nonzero(self._held["counted"][inside] == kind)) for kind in (_RIGHT, _WRONG)]
        found = noisy_period(self._secret, self._truth.epsilon, period, *counts)
        self._places |= {"period": period + 1, "released": period, "right": found.right, "wrong": found.wrong}
        yield found

    def _first_open(self, reached: int) -> int:
        return max((reached - self._truth.lag) // self._truth.rounds, 0)

    def _hash(self, identifier: bytes) -> int:
        digest = hashlib.blake2b(identifier, digest_size=8, key=self._secret[:32]).digest()
        return int.from_bytes(digest, "little")
