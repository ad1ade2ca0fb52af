"""Runs recorded, and played again on other data with the outputs of all mechanisms frozen.

The idea is that of Re:cord-play (arXiv 2602.17454). A run on D writes down what noise is compared with or added to, and
what came of it. The run on D', which has one record more or less, is given the same outputs; so whatever else differs
between the two is the data's doing: inputs of mechanisms, whose differences the proofs bound, and nothing else.

What bits were for, and so which mechanism it is, follows from their address.
"""

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.mechanisms.addresses import Purpose
from oracle.mechanisms.choice.exponential import Candidates
from oracle.mechanisms.noise.tables import Edges

__all__ = ["Address", "Change", "Divergence", "Tape", "Use"]

Numbers = NDArray[Any]
Words = NDArray[np.uint64]


class Divergence(Exception):  # noqa: N818 -- it is caught in this floor, and is no error of Perpetua's
    """A run on D' did something else than that on D, though all mechanisms said the same."""


class Address(NamedTuple):
    """What bits are for, as they were asked for (`Addresses.words`)."""

    purpose: Purpose
    side: int
    round: int


class Use(NamedTuple):
    """One use of noise.

    Attributes:
        kind: "edge", "bit" or "choice"; "teachers" of what is fitted, which is no mechanism.
        public: What is compared with `is`, or equal: a table, parameters.
        words: uint64[n], the first halves of the bits, by row.
        inputs: [n], what is compared; of a choice its losses.
        given: What came of it.
    """

    kind: str
    public: Any
    words: Words
    inputs: Any
    given: Any


class Change(NamedTuple):
    """How far an input was from that of the run on D.

    Attributes:
        kind: As of `Use`; "sum" where noise was added.
        address: Of its bits; None of a choice, a bit or teachers.
        number: Of a choice or of teachers, which one.
        by: The difference.
    """

    kind: str
    address: Address | None
    number: int
    by: float


class Tape:
    """Writes down the uses of noise; or gives out what another one has written, and compares.

    Args:
        before: What the run on D wrote; None to write.
        own: The round of the phase whose query is another one, which may have bits of its own; None where none is.
        forced: What the own query is answered where it is compared, by purpose and side: 0, 1 or 2 for low, between
            and high; what is not there is as its noise says.
    """

    def __init__(
        self,
        before: "Tape | None" = None,
        own: int | None = None,
        forced: Callable[[Address], int | None] = lambda _: None,
    ) -> None:
        self.uses: list[Use] = []
        self._sums: dict[int, list[tuple[int, int, int]]] = {}
        self._asked: list[tuple[Words, Purpose, Words, Words]] = []
        self._before, self._own, self._forced = before, own, forced
        self._turns: dict[int, int] = {}

    def addressed(self, purpose: Purpose, rounds: Words, sides: Words, words: Words) -> None:
        """Note whose words these are."""
        self._asked.append((words[..., 0], purpose, rounds, sides))

    def address(self, word: int) -> Address:
        """Return what a word was asked for.

        Raises:
            Divergence: For nothing.
        """
        for words, purpose, rounds, sides in self._asked:
            found = np.argwhere(words == np.uint64(word))
            if len(found):
                return Address(purpose, int(sides[found[0, 0]]), int(rounds[found[0, 1]]))
        raise Divergence("noise is made of bits that have no address")

    def heard(self, kind: str, public: Any, words: Words, inputs: Any, live: Callable[[], Any]) -> Any:  # noqa: ANN401
        """Return what noise makes of inputs; in a run on D' what it made before.

        Raises:
            Divergence: It was not used so before, or with other parameters or bits.
        """
        number = len(self.uses)
        if self._before is None:
            given = live()
            self.uses.append(Use(kind, public, words, inputs, given))
            return given
        if number == len(self._before.uses):
            raise Divergence("noise is used once more")
        before = self._before.uses[number]
        if (before.kind, before.words.shape) != (kind, words.shape) or not _alike(before.public, public):
            raise Divergence(f"{kind}: noise is used for something else, or with other public numbers")
        other = np.flatnonzero(before.words != words)
        given = before.given
        if len(other):
            given = given.copy()
            given[other] = [self._of_own(kind, int(words[row]), bool(now)) for row, now in _rows(live(), other)]
        self.uses.append(Use(kind, public, words, inputs, given))
        return given

    def _of_own(self, kind: str, word: int, now: bool) -> bool:  # noqa: FBT001 -- what its noise says
        """Return what a query is answered that was not there before, and may be answered anything."""
        address = self.address(word)
        if address.round != self._own:
            raise Divergence(f"{kind}: its noise is another one, in round {address.round} of the phase")
        outcome = self._forced(address) if kind == "edge" else None
        if outcome is None:
            return now
        self._turns[word] = turn = self._turns.get(word, 0) + 1  # the lower threshold, then the upper one
        return outcome == 0 if turn % 2 else outcome < 2  # noqa: PLR2004 -- as `forced` has it

    def added(self, words: Words, inputs: Numbers, live: Numbers) -> Numbers:
        """Return sums of inputs and noise; in a run on D' what they were before.

        Raises:
            Divergence: Another one is made.
        """
        given, counts = live.copy(), np.broadcast_to(inputs, live.shape).reshape(-1).tolist()
        for row, (word, number) in enumerate(zip(words.tolist(), counts, strict=True)):
            mine = self._sums.setdefault(word, [])
            if self._before is not None:
                were = self._before._sums.get(word, [])  # noqa: SLF001 -- of this class
                if len(mine) < len(were):
                    given.reshape(-1)[row] = were[len(mine)][1]
                elif self.address(word).round != self._own:
                    raise Divergence("a sum is released that was not before")
            mine.append((number, int(given.reshape(-1)[row]), len(self.uses)))
        return given

    def changes(self, halted: AbstractSet[tuple[int, int]]) -> list[Change]:
        """Return all inputs that differ; of what was decided again behind a re-arm, with the same bits, the last ones.

        Args:
            halted: (side, round of the phase) where Stoppers halt: the new life's is asked there last, for nothing.

        Raises:
            Divergence: Not all came that came before, or an upper threshold moved otherwise than the lower one.
        """
        if self._before is None:
            return []
        if len(self.uses) < len(self._before.uses):
            raise Divergence("noise is not used where it was before")
        found, edges = list[Change](), list[tuple[int, Words, Numbers]]()
        for number, (use, before) in enumerate(zip(self.uses, self._before.uses, strict=True)):
            if use.kind == "edge":
                moves = np.where(use.words == before.words, before.inputs - use.inputs, 0)
                edges.append((number, use.words, moves))
            else:
                by = _APART[use.kind](before.inputs, use.inputs)
                found += [Change(use.kind, None, number, by)] if by else []
        return found + self._edges_moved(edges, halted) + self._sums_moved(self._before)

    def _edges_moved(
        self, edges: Sequence[tuple[int, Words, Numbers]], halted: AbstractSet[tuple[int, int]]
    ) -> list[Change]:
        if not any(moves.any() for _, _, moves in edges):
            return []
        numbers = np.repeat([number for number, *_ in edges], [len(one[1]) for one in edges])
        words, moves = (np.concatenate([one[place] for one in edges]) for place in (1, 2))
        changes = []
        for word in np.unique(words[moves != 0]).tolist():
            at, address = np.flatnonzero(words == np.uint64(word)), self.address(word)
            if address.purpose == Purpose.STOPPER and address[1:] in halted and len(at) > 1:
                at = at[:-1]
            if len(at) > 1 and numbers[at[-1]] == numbers[at[-2]] + 1 and abs(moves[at[-1]]) != abs(moves[at[-2]]):
                raise Divergence(f"{address.purpose.name}: thresholds follow from the data")
            if moves[at[-1]]:
                changes.append(Change("edge", address, 0, float(moves[at[-1]])))
        return changes

    def _sums_moved(self, before: "Tape") -> list[Change]:
        changes = []
        for word, were in before._sums.items():  # noqa: SLF001 -- of this class
            mine = self._sums.get(word, [])
            if len(mine) != len(were) and before.address(word).round != self._own:
                raise Divergence("a sum is not released that was before")
            if mine and were and mine[-1][0] != were[-1][0] and not self._asked_again(word, mine[-1][2]):
                changes.append(Change("sum", self.address(word), 0, float(mine[-1][0] - were[-1][0])))
        return changes

    def _asked_again(self, word: int, number: int) -> bool:
        """Return whether the question that a sum answered was decided again behind a re-arm."""
        return any((use.words == np.uint64(word)).any() for use in self.uses[number:] if use.kind == "edge")


def _rows(now: Numbers, rows: Numbers) -> Iterator[tuple[int, Any]]:
    return zip(rows.tolist(), now[rows].tolist(), strict=True)


def _alike(one: Any, other: Any) -> bool:  # noqa: ANN401
    if isinstance(one, Edges):
        return one is other or (one.first, one.high.tobytes(), one.low.tobytes()) == (
            other.first,
            other.high.tobytes(),
            other.low.tobytes(),
        )
    return bool(one == other)


def _spread(before: Any, now: Any) -> float:  # noqa: ANN401 -- losses, or candidates
    """Return how far the changes of a choice's losses lie apart."""
    if isinstance(before, Candidates):
        changes = _losses_apart(before, now)
    else:  # one record more is one more cut
        size = max(len(before), len(now))
        changes = np.pad(now, (0, size - len(now)), "edge") - np.pad(before, (0, size - len(before)), "edge")
    return float(changes.max() - changes.min())


def _losses_apart(before: Candidates, now: Candidates) -> NDArray[np.int64]:
    """Return by how much the loss of candidates changes: of all, as each change is that at some group's start."""
    if before.whole != now.whole:
        raise Divergence("choice: other candidates")
    changes = []
    for owner in np.unique(np.concatenate([before.owners, now.owners])):
        groups = []
        for one in (before, now):
            mine = np.flatnonzero((one.owners == owner) & (one.widths > 0))
            order = mine[np.argsort(one.starts[mine])]
            groups.append((one.starts[order], one.losses[order]))
        starts = np.union1d(groups[0][0], groups[1][0])
        old, new = (losses[np.searchsorted(firsts, starts, side="right") - 1] for firsts, losses in groups)
        changes.append(new - old)
    return np.concatenate(changes)


def _other_teachers(before: Any, now: Any) -> float:  # noqa: ANN401 -- features, labels and owners
    """Return how many teachers have other rows than before."""
    return sum(
        any(
            not np.array_equal(old[before[2] == owner], new[now[2] == owner])
            for old, new in zip(before, now, strict=True)
        )
        for owner in np.union1d(before[2], now[2]).tolist()
    )


def _furthest(before: Numbers, now: Numbers) -> float:
    return float(np.abs(now - before).max(initial=0.0))


_APART: Final[dict[str, Callable[[Any, Any], float]]] = {
    "bit": _furthest,
    "choice": _spread,
    "teachers": _other_teachers,
}
