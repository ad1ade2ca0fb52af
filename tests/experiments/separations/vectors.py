"""Correlated vectors: one randomized response for all questions that are set beforehand, and the adaptive attack.

Bun, Steinke and Ullman (2017), Section 4: a question is a set of vectors of signs, and an answer y is right if
<y - alpha x, v> is within gamma alpha^2 n of 0 for x itself and for each of them.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Signs = NDArray[np.int8]


class Correlated(NamedTuple):
    """What questions ask for.

    Attributes:
        alpha: Correlation of an answer with the secret.
        gamma: What answers may be off, in alpha^2 n.
    """

    alpha: float
    gamma: float


def response_epsilon(alpha: float) -> float:
    """Return the exact epsilon of one randomized response: ln((1 + alpha)/(1 - alpha))."""
    return 2.0 * math.atanh(alpha)


def respond(secret: Signs, alpha: float, random: np.random.Generator) -> Signs:
    """Tell each sign right with probability (1 + alpha)/2 (Figure 5)."""
    kept = random.random(len(secret), dtype=np.float32) < (1.0 + alpha) / 2.0
    return np.where(kept, secret, -secret)


def is_right(answer: Signs, secret: Signs, vectors: list[Signs], asked: Correlated) -> bool:
    """Return whether an answer is right, in whole numbers but for alpha."""
    allowed = asked.gamma * asked.alpha**2 * len(secret)
    wide, hidden = answer.astype(np.int32), secret.astype(np.int32)
    products = [(int(wide @ one), int(hidden @ one)) for one in (secret, *vectors)]
    return all(abs(mine - asked.alpha * true) <= allowed for mine, true in products)


def answers_needed(asked: Correlated) -> float:
    """Return how many right answers give three quarters of the signs away: 1/((4/3) a^2 - b) (Proposition 5)."""
    alpha, gamma = asked
    a, b = alpha - gamma * alpha**2, alpha**2 + gamma * alpha**3 + gamma * alpha**2
    return 1.0 / (4.0 / 3.0 * a * a - b)


@dataclass(frozen=True)
class Conversation:
    """Questions that are the answers before, as many as were asked.

    Attributes:
        answers: int8[k, n].
        right: How many of the answers were.
    """

    answers: Signs
    right: int


def attack(secret: Signs, asked: Correlated, times: int, random: np.random.Generator, *, fresh: bool) -> Conversation:
    """Ask for something as correlated with the answers before as they are with the secret, each time with all of them.

    Args:
        secret: int8[n].
        asked: What each question asks for.
        times: k.
        random: Noise.
        fresh: Whether the answerer draws anew each time, or repeats what it has.
    """
    given = [respond(secret, asked.alpha, random)]
    right = int(is_right(given[0], secret, [], asked))
    for _ in range(times - 1):
        answer = respond(secret, asked.alpha, random) if fresh else given[0]
        right += is_right(answer, secret, given, asked)
        given.append(answer)
    return Conversation(np.array(given), right)
