"""Prefix questions: all at once by Bun, Steinke and Ullman's Figure 4, one after the other under the tracing attack.

A string is of 0s and 1s; a question is a set of strings, and its answer the share of the rows that one of them is a
prefix of (Section 3).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Signs = NDArray[np.int8]
_CHUNK: Final = 50_000
_BETA: Final = 0.05
"""Probability that a right guess is called wrong, or a wrong one right."""
BLR_SHARE: Final = 2.0 / 3.0
"""lambda: part of alpha that goes to the multiset, the rest to the choice among these."""


def longest_prefix(known: set[str], text: str) -> str:
    """Return r_S: the longest known string that is a prefix; the empty one always is."""
    return next((text[:end] for end in range(len(text), 0, -1) if text[:end] in known), "")


def prefix_shares(rows: Sequence[str], questions: Sequence[Iterable[str]]) -> Floats:
    """Answer questions exactly: float64[k]."""
    return np.array([np.mean([text.startswith(tuple(one)) for text in rows]) for one in questions])


def hard_questions(signs: Signs) -> tuple[list[str], list[list[str]]]:
    """Return the rows and the questions of Section 3.2 of int8[n, k].

    Row i is binary(i) and its signs; question j holds, of each i, binary(i), its first j signs, and a 1. It asks for
    column j and tells of the columns before.
    """
    width = max((len(signs) - 1).bit_length(), 1)
    bits = ["".join("1" if sign > 0 else "0" for sign in row) for row in signs]
    names = [f"{number:0{width}b}" for number in range(len(signs))]
    questions = [[name + row[:j] + "1" for name, row in zip(names, bits, strict=True)] for j in range(signs.shape[1])]
    return [name + row for name, row in zip(names, bits, strict=True)], questions


def trace_sums(signs: Signs, means: Floats, answers: Floats) -> Floats:
    """Return the paper's statistic, sum_j a_j (c_ij - p_j): float64[n].

    Args:
        signs: int8[n, k].
        means: float64[k], p.
        answers: float64[k], between -1 and 1.
    """
    found = np.zeros(len(signs))
    for start in range(0, len(means), _CHUNK):
        part = slice(start, start + _CHUNK)
        found += signs[:, part].astype(np.float32) @ answers[part].astype(np.float32)
    return found - float(answers @ means)


def separated(means: Floats, answers: Floats, error: float, rows: int) -> float:
    """Return how many standard deviations a row's statistic lies above others', at least on average (Proposition 2)."""
    gained = 2.0 / 3.0 - 2.0 * error
    return max(gained, 0.0) * len(means) / rows / math.sqrt(float((answers**2 * (1.0 - means**2)).sum()))


def questions_allowed(asked: "Asked", error: float) -> float:
    """Return the most questions an online private answerer of this mean error (in signs) can have (Proposition 3)."""
    rows, epsilon, delta = asked.rows, asked.epsilon, asked.delta
    gained = 2.0 / 3.0 - 2.0 * error - 2.0 * rows * delta * (1.0 + math.exp(-epsilon))
    return 2.0 / 3.0 * (math.sinh(epsilon) * rows / gained) ** 2 if gained > 0.0 else math.inf


class Asked(NamedTuple):
    """What the hard instance is.

    Attributes:
        rows: n.
        questions: k.
        epsilon: Of all answers.
    """

    rows: int
    questions: int
    epsilon: float

    @property
    def delta(self) -> float:
        """As the lower bound has it."""
        return 1.0 / (30.0 * self.rows)


@dataclass(frozen=True)
class Offline:
    """What came of one question whether a public guess is right (Proposition 4).

    Attributes:
        passed: Whether the guess stood for all questions.
        window: The error, as a share of the rows, that it cannot have but with probability beta.
    """

    passed: bool
    window: float


def tell_once(guess: Floats, truth: Floats, asked: Asked, random: np.random.Generator) -> Offline:
    """Ask once, purely epsilon-privately, whether any of the public answers is wrong: a sparse vector of one "yes".

    One-sided exponential noise of slope e1 on the threshold and e2 on both signs of each question, e1 + 2 e2 = epsilon
    (oracle/accounting/PRIVACY.md, Theorem 19).

    Args:
        guess: float64[k], shares.
        truth: float64[k], of the rows.
        asked: Of whom, and how privately.
        random: Noise.
    """
    beta, rows, epsilon = _BETA, asked.rows, asked.epsilon
    first, second = math.log(2.0 / beta), 2.0 * math.log(4.0 * len(guess) / beta)
    slope = epsilon * math.sqrt(first) / (math.sqrt(first) + math.sqrt(second))
    other = (epsilon - slope) / 2.0
    threshold = math.log(4.0 * len(guess) / beta) / other + 1.0
    gaps = rows * (guess - truth)
    noise = random.exponential(1.0 / other, (2, len(guess)))
    above = (np.stack([gaps, -gaps]) + noise).max() >= threshold + random.exponential(1.0 / slope)
    return Offline(not above, (threshold + first / slope) / rows)


def blr_rows(questions: int, cells: int, alpha: float, epsilon: float, beta: float) -> tuple[int, int]:
    """Return the size of the multisets and the rows that `blr` needs (Proposition 4)."""
    size = math.floor(math.log(2.0 * questions) / (2.0 * (BLR_SHARE * alpha) ** 2)) + 1
    rows = 2.0 / ((1.0 - BLR_SHARE) * alpha * epsilon) * (size * math.log(cells) + math.log(1.0 / beta))
    return size, math.ceil(rows)


def blr(
    rows: Sequence[str], questions: Sequence[Sequence[str]], size: int, epsilon: float, random: np.random.Generator
) -> Floats:
    """Answer by the exponential mechanism over all multisets of so many strings (Blum, Ligett and Roth): float64[k].

    Figure 4: the strings are those of the questions, and each row is replaced by its longest prefix among them. For
    toys, as the multisets are counted out.
    """
    known = sorted({text for one in questions for text in one} | {""})
    table = np.array([[text.startswith(tuple(one)) for text in known] for one in questions], dtype=np.float64)
    short = [longest_prefix(set(known), text) for text in rows]
    truth = table @ np.bincount([known.index(text) for text in short], minlength=len(known)) / len(rows)
    sets = np.array(list(combinations_with_replacement(range(len(known)), size)))
    told = table[:, sets].mean(axis=2)
    scores = -len(rows) * np.abs(told - truth[:, None]).max(axis=0)
    chosen = int((epsilon / 2.0 * scores + random.gumbel(size=len(sets))).argmax())
    answers: Floats = told[:, chosen]
    return answers


@dataclass(frozen=True)
class Batch:
    """Questions that were all known at once, over the strings that they hold.

    Attributes:
        table: bool[k, X], whether one of a question's strings is a prefix of the string.
        cells: int64[n], of each row the longest of the strings that is its prefix.
        truth: float64[k].
        lost: The largest difference that replacing rows by their longest prefixes makes; 0 (Proposition 4).
    """

    table: NDArray[np.bool_]
    cells: NDArray[np.intp]
    truth: Floats
    lost: float

    @classmethod
    def draw(cls, rows: int, questions: int, strings: int, random: np.random.Generator) -> "Batch":
        """Draw rows of 60 bits and questions of so many strings of 1 to 12 bits."""
        texts = ["".join(one) for one in np.where(random.random((rows, 60)) < random.random(60), "1", "0")]
        asked = [
            ["".join(random.choice(["0", "1"], random.integers(1, 13))) for _ in range(strings)]
            for _ in range(questions)
        ]
        known = sorted({text for one in asked for text in one} | {""})
        place = {text: number for number, text in enumerate(known)}
        table = np.array([[text.startswith(tuple(one)) for text in known] for one in asked])
        every = set(known)
        cells = np.array([place[longest_prefix(every, text[:12])] for text in texts])
        truth = table[:, cells].mean(axis=1)
        some = range(0, questions, 20)
        exact = prefix_shares(texts, [asked[number] for number in some])
        return cls(table, cells, truth, float(np.abs(exact - truth[list(some)]).max()))


def mwem(batch: Batch, epsilon: float, delta: float, rounds: int, random: np.random.Generator) -> Floats:
    """Answer a batch: exponential mechanism for the worst question, multiplicative weights on it (Hardt et al., 2012).

    Each choice has range e and costs e^2/8 in zCDP (Cesar and Rogers, 2021), all of them (epsilon, delta) by rho + 2
    sqrt(rho ln(1/delta)).
    """
    rows, (questions, cells) = len(batch.cells), batch.table.shape
    root = math.sqrt(math.log(1.0 / delta))
    rho = (math.sqrt(root * root + epsilon) - root) ** 2
    each = math.sqrt(8.0 * rho / rounds)
    step = math.sqrt(math.log(cells) / rounds) / 2.0
    table, weights, total = batch.table.astype(np.float64), np.full(cells, 1.0 / cells), np.zeros(questions)
    for _ in range(rounds):
        told = table @ weights
        total += told
        scores = rows * np.concatenate([told - batch.truth, batch.truth - told])
        chosen = int((each / 2.0 * scores + random.gumbel(size=2 * questions)).argmax())
        weights *= np.exp((step if chosen >= questions else -step) * table[chosen % questions])
        weights /= weights.sum()
    return total / rounds
