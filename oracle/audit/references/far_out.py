"""What short runs never come to: choices and draws far out, late rounds and long streams of bits, compared exactly.

Everything here is a property of the shipped functions for all plans, so it is asked once in a process.
"""

from collections import Counter
from collections.abc import Sequence
from functools import cache, partial
from itertools import accumulate, pairwise, product
from typing import Final

import mpmath
import numpy as np

from oracle.audit.due.exactness import ALLOWED, exact_geometric, exact_questions, exact_sample, exact_stopper
from oracle.audit.references.choices import Run, cut_runs, side_runs
from oracle.audit.references.keyed import Bits, Keyed
from oracle.mechanisms.addresses import MAX_ROUNDS, MAX_SIDES, Addresses, Purpose
from oracle.mechanisms.choice.edges import best_cuts, cut_candidates, side_candidates
from oracle.mechanisms.choice.exponential import CHOICE_WORDS, Candidates, KeyedBits, choose, choose_exactly
from oracle.mechanisms.keys import PhaseKey
from oracle.mechanisms.noise.exact import discrete_laplace
from oracle.mechanisms.noise.tables import geometric, sample
from oracle.mechanisms.thresholds.paid import PaidQuestions
from oracle.mechanisms.thresholds.stopper import Stopper

__all__ = ["exact_choice", "wrong_far_out"]

_NATS: Final = (0.0, 0.7, 3.0, 9.0, 21.0, 40.0, 60.0, 80.0)
"""How far losses are from the least one."""

_DIGITS: Final = 1_200
_APART: Final = 300
"""Digits behind the point by which uniform numbers pass an edge of an exact choice: more than it looks at first."""

_SCALES: Final = (0.011, 0.37, 6.3)
_COLUMNS: Final = 19
_ROWS: Final = 700
_TAKES: Final = (1, 63, 64, 65, 128, 300, 512, 7, 2048, 129)
_WIDE: Final = np.uint64(40)
"""Digits by which records' places are apart."""

_WIDTHS: Final = (2, 0, 3, 1 << 40)
"""Of groups of one loss: how many candidates each has."""


class _Stream:
    """The digits of a number below 1, then others.

    Args:
        number: Of `_DIGITS` digits.
        behind: What comes next, so many digits.
    """

    def __init__(self, number: int, *behind: tuple[int, int]) -> None:
        self._left = f"{number:0{_DIGITS}b}" + "".join(f"{value:0{digits}b}" for value, digits in behind)

    def take(self, count: int) -> int:
        """Return the next digits; zeros behind the last."""
        taken, self._left = self._left[:count], self._left[count:]
        return int(taken.ljust(count, "0") or "0", 2)


@cache
def exact_choice(scale: float) -> str | None:
    """Return what of the exponential mechanism at a rate is not its law, to 2^-128 or exactly, if anything."""
    losses = [round(nats / scale) + more for nats in _NATS for more in (0, 0, 1)]
    placed = [losses[7 * at % len(losses)] for at in range(len(losses))]
    known = sorted(range(len(placed)), key=placed.__getitem__)
    with mpmath.workprec(_DIGITS + 64):
        ends = _ends([mpmath.exp(-mpmath.mpf(scale) * placed[at]) for at in known])
    off = 1 << (_DIGITS - 127)
    for at, (start, stop) in zip(known, pairwise(ends), strict=True):
        for number in (start + off, (start + stop) // 2, stop - off):
            if not start + off <= number <= stop - off:
                continue
            words = (number >> (_DIGITS - 64 * CHOICE_WORDS)).to_bytes(8 * CHOICE_WORDS, "little")
            if choose(scale, np.array(placed), np.frombuffer(words, dtype=np.uint64)) != at:
                return f"choice: a candidate of loss {placed[at]} is chosen at other odds"
    return _exactly(scale, sorted({*losses}))


def _ends(weights: Sequence[mpmath.mpf]) -> list[int]:
    """Return where each candidate's part of all numbers below 1 begins, and the last one's end."""
    whole = mpmath.fsum(weights)
    return [int(mpmath.floor(mpmath.ldexp(one / whole, _DIGITS))) for one in accumulate([mpmath.mpf(0), *weights])]


def _exactly(scale: float, losses: Sequence[int]) -> str | None:
    """Return the same of a choice that looks at more digits where it must."""
    widths = [1 + 5 * (place % 3) for place in range(len(losses))]

    def near(reach: int) -> Candidates:
        inside = [place for place, loss in enumerate(losses) if loss <= losses[0] + reach]
        starts = np.cumsum([0, *widths])[inside].astype(np.uint64)
        owners, sizes = np.zeros(len(inside), dtype=np.intp), np.array(widths, dtype=np.uint64)[inside]
        return Candidates(owners, starts, sizes, np.array(losses)[inside], sum(widths))

    with mpmath.workprec(_DIGITS + 64):
        weights = [mpmath.exp(-mpmath.mpf(scale) * loss) for loss in losses]
        ends = _ends([width * weight for width, weight in zip(widths, weights, strict=True)])
    firsts = np.cumsum([0, *widths])
    for level, (start, stop) in enumerate(pairwise(ends)):
        for number in (start + (1 << (_DIGITS - _APART)), stop - (1 << (_DIGITS - _APART))):
            _, position = choose_exactly(scale, near, _Stream(number))
            if not firsts[level] <= position < firsts[level + 1]:
                return f"exact choice: a candidate of loss {losses[level]} is chosen at other odds"
    return None


def _among_equals() -> str | None:
    """Return that candidates of one loss are not equally likely, if so."""
    starts = np.cumsum([0, *_WIDTHS])[:-1].astype(np.uint64) * np.uint64(3)
    widths = np.array(_WIDTHS, dtype=np.uint64)
    group = Candidates(np.arange(4), starts, widths, np.full(4, 5), sum(_WIDTHS))
    size = (sum(_WIDTHS) - 1).bit_length()
    for wanted in (0, 1, 2, 4, 5, 1 << 39, sum(_WIDTHS) - 1):
        bits = _Stream(0, ((1 << size) - 1, size), (wanted, size))  # the first is none of them, so there is a second
        bits.take(_DIGITS - 256)  # what is left is what says the loss
        owner, position = choose_exactly(1.0, lambda _reach: group, bits)
        begun = int(np.cumsum([0, *_WIDTHS])[owner])
        if begun + position - int(starts[owner]) != wanted:
            return "exact choice: of equal candidates some are chosen more often"
    return None


def _coins() -> str | None:
    """Return that exact discrete Laplace noise is not made of a sign and coins of its rate, if so."""
    for scale in _SCALES:
        with mpmath.workprec(_DIGITS):
            edge = int(mpmath.floor(mpmath.ldexp(mpmath.exp(-mpmath.mpf(scale)), 256)))
        off, last = 1 << 60, (1 << 256) - 1
        for sign, coins, wanted in (
            (0, (edge - off, edge - off, edge + off), 2),
            (1, (edge - off, edge + off), -1),
            (0, (edge + off,), 0),
            (1, (last,), 1),  # -0 is drawn again
        ):
            bits = _Stream(0, (sign, 1), *((coin, 256) for coin in coins), (0, 1), (0, 256), (last, 256))
            bits.take(_DIGITS)
            if discrete_laplace(scale, bits) != wanted:
                return "exact noise: a size or a sign comes at other odds"
    return None


def _words() -> str | None:
    """Return whose bits are not those of their address, of late rounds, high sides and long streams."""
    secret = bytes(range(7, 39))
    mine, its = Keyed(secret), Addresses(PhaseKey(secret), _COLUMNS)
    powers = [1 << power for power in range(MAX_ROUNDS.bit_length() - 1)]
    rounds = sorted({MAX_ROUNDS - 1, *(power + more for power in powers for more in (-1, 0, 1))})
    sides = sorted({0, MAX_SIDES - 1, *(1 << power for power in range(10)), 255, 257})
    queries = [(7919 * number << 40) ^ (number << 63 >> 7) ^ number for number in range(len(rounds))]
    numbers, hashes = np.array(rounds, dtype=np.uint64), np.array([one % 2**64 for one in queries], dtype=np.uint64)
    for purpose in Purpose:
        for given in (None, hashes):
            found = its.words(purpose, numbers, np.array(sides, dtype=np.uint64), given)
            for place, side in enumerate(sides):
                asked = [0] * len(rounds) if given is None else hashes.tolist()
                due = [mine.halves(purpose, *one) for one in zip(rounds, [side] * len(rounds), asked, strict=True)]
                if [tuple(one) for one in found[place].tolist()] != due:
                    return f"{purpose.name}: words of side {side} are not those of their addresses"
    for number, hashed in zip(rounds, hashes.tolist(), strict=True):
        for there in (False, True):
            row = np.array([number], dtype=np.uint64), np.array([hashed * there], dtype=np.uint64), np.array([there])
            if int.from_bytes(its.tag(*row).tobytes(), "little") != mine.tag(number, hashed if there else None):
                return f"the running tag of round {number}"
    return _streams(mine, its) or _hashes(mine, its)


def _streams(mine: Keyed, its: Addresses) -> str | None:
    """Return that bits of a choice come twice, if so."""
    for side in (0, 3, MAX_SIDES - 1):
        plain, keyed = Bits(mine, side), KeyedBits(its, side)
        if any(plain.take(count) != keyed.take(count) for count in _TAKES):
            return "the bits of a choice are not those of their addresses, one after the other"
    return None


def _hashes(mine: Keyed, its: Addresses) -> str | None:
    """Return that hashes of queries are not of all of their numbers, if so."""
    rows = np.zeros((_ROWS, _COLUMNS))
    rows[np.arange(_ROWS), np.arange(_ROWS) % _COLUMNS] = np.geomspace(1e-300, 1e300, _ROWS)
    found = its.hashes(rows, np.ones(_ROWS, dtype=np.bool_))
    if found.tolist() != [mine.hash(row) for row in rows.tolist()]:
        return "hashes of queries"
    return None


def _laws() -> str | None:
    """Return what noise has another law at some scale, by 2^-128."""
    for scale in _SCALES:
        for law in ("logistic", "discrete-laplace", "laplace", "gumbel"):
            if exact_sample(partial(sample, law, scale), law, scale) > ALLOWED:
                return f"{law} noise at {scale:g}"
        if exact_geometric(partial(geometric, scale), scale) > ALLOWED:
            return f"one-sided noise at {scale:g}"
        if exact_stopper(Stopper(scale, 70), "discrete-laplace", scale, 70) > ALLOWED:
            return f"Stoppers at {scale:g}"
        for mechanism in (PaidQuestions("gumbel", scale, 3), PaidQuestions("exponential", scale, 3, 0.5 * scale)):
            if exact_questions(mechanism) > ALLOWED:
                return f"paid questions with {mechanism.law} noise at {scale:g}"
    return None


def _candidates() -> str | None:
    """Return whose losses are others than a plain count says, of few records and of many, many of which are equal."""
    for records, (rank, reach) in product((0, 1, 9, 500), ((1, 0), (4, 6), (30, 200))):
        spread = (np.arange(records, dtype=np.uint64) * np.uint64(7919) % np.uint64(max(records * 2 // 3, 1))) << _WIDE
        labels = np.arange(records) % 5 > 1
        plain = side_runs(spread.tolist(), rank)
        if _unlike(side_candidates(spread, rank, reach), plain, reach):
            return f"the edges of {records} records cost others than they do"
        ordered = np.sort(spread)
        cuts = [cut_candidates(ordered, labels, owner) for owner in (0, 1)]
        runs = [
            run for owner in (0, 1) for run in cut_runs(owner, [*zip(ordered.tolist(), labels.tolist(), strict=True)])
        ]
        if _unlike(best_cuts(cuts, reach), runs, reach):
            return f"the cuts of {records} records cost others than they do"
    return None


def _unlike(found: Candidates, plain: Sequence[Run], reach: int) -> bool:
    """Return whether candidates within a reach of the best are others, or are said to cost others."""
    least = min(run.loss for run in plain)
    due, told = Counter[int](), Counter[int]()
    for run in plain:
        due[run.loss] += run.width
    for loss, width in zip(found.losses.tolist(), found.widths.tolist(), strict=True):
        told[loss] += width
    wrong = found.whole != sum(due.values()) or any(told[loss] != due[loss] for loss in due if loss <= least + reach)
    costs = {(run.owner, place): run.loss for run in plain for place in (run.start, run.start + run.width - 1)}
    groups = np.column_stack([found.owners, found.starts, found.losses])[found.widths > 0].tolist()
    return wrong or any(costs.get((owner, start), loss) != loss for owner, start, loss in groups)


@cache
def wrong_far_out() -> str | None:
    """Return what is not as the proofs have it, if anything."""
    choices = (exact_choice(scale) for scale in _SCALES)
    return _words() or _laws() or next(filter(None, choices), None) or _candidates() or _among_equals() or _coins()
