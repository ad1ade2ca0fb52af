"""Runs of prefix questions: who can answer them, what the tracing attack sees, and where it stops."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from oracle.audit.attacks.coins import cap, judge
from oracle.audit.attacks.trace import Design, draw_design, predicted_share, trace
from oracle.audit.games.wealth import Wealth
from oracle.audit.randomness import Draws, Randomness
from oracle.planning.statistics.counts import gaussian_deviation
from tests.experiments.separations.ours import DELTA, KINDS, shares
from tests.experiments.separations.prefix import (
    Asked,
    Batch,
    Offline,
    blr,
    blr_rows,
    mwem,
    questions_allowed,
    separated,
    tell_once,
    trace_sums,
)

Floats = NDArray[np.float64]
Answerer = Callable[[Floats, np.random.Generator], Floats]
"""From the means of columns, in signs, to answers."""

_RARE: Final = 1e-3
"""False alarms of a test that tells rows from others."""

_PARTS: Final = 10
"""Times that what is bet on is chosen afresh."""

_BETA: Final = 0.05
ONLINE: Final = ("exact", "within 0.1", "sign only", "Gaussian noise")


def answerer(name: str, asked: Asked) -> Answerer:
    """Return one that answers each question when it comes, in signs; only the Gaussian one is private."""
    deviation = 2.0 * math.sqrt(asked.questions) / asked.rows * gaussian_deviation(asked.epsilon, asked.delta)
    kinds: dict[str, Answerer] = {
        "exact": lambda means, _: means,
        "within 0.1": lambda means, random: means + random.uniform(-0.1, 0.1, len(means)),
        "sign only": lambda means, _: np.sign(means),
        "Gaussian noise": lambda means, random: means + random.normal(0.0, deviation, len(means)),
    }
    return lambda means, random: kinds[name](means, random).clip(-1.0, 1.0)


@dataclass(frozen=True)
class Online:
    """What the attack saw of one answerer.

    Attributes:
        name: Of `ONLINE`.
        error: Mean error, in signs.
        seen: Standard deviations between rows and others.
        least: The same, at least, by Proposition 2.
        caught: Share of the rows that a test with few false alarms finds.
        allowed: Questions that a private one of this error may have (Proposition 3).
    """

    name: str
    error: float
    seen: float
    least: float
    caught: float
    allowed: float


def _drawn(rows: int, questions: int, random: np.random.Generator) -> tuple[Floats, NDArray[np.int8]]:
    """Draw p, and signs of twice as many people as rows."""
    means = random.uniform(-1.0, 1.0, questions)
    signs = [np.where(random.random(questions, dtype=np.float32) < (1.0 + means) / 2.0, 1, -1) for _ in range(2 * rows)]
    return means, np.array(signs, dtype=np.int8)


def online(asked: Asked, seed: int) -> tuple[list[Online], Floats]:
    """Trace all answerers on one hard instance; return also the exact one's standardized sums, of rows and others."""
    random, rows = np.random.default_rng(seed), asked.rows
    means, signs = _drawn(rows, asked.questions, random)
    truth = signs[:rows].mean(axis=0, dtype=np.float64)
    found, kept = [], np.zeros(0)
    for name in ONLINE:
        answers = answerer(name, asked)(truth, random)
        sums = trace_sums(signs, means, answers) / math.sqrt(float((answers**2 * (1.0 - means**2)).sum()))
        error = float(np.abs(answers - truth).mean())
        found.append(
            Online(
                name,
                error,
                float(sums[:rows].mean() - sums[rows:].mean()),
                separated(means, answers, error, rows),
                float((sums[:rows] > stats.norm.isf(_RARE)).mean()),
                questions_allowed(asked, error),
            )
        )
        kept = sums if name == "exact" else kept
    return found, kept.reshape(2, rows)


@dataclass(frozen=True)
class Game:
    """Many games of both worlds: a row is there, or exchanged for a stranger, and the questions are the same.

    Attributes:
        name: Who answers.
        games: In each world.
        there: Mean of the row's standardized sum where it is there.
        gone: The same where it is not.
        proved: Epsilon is at least this, but with probability 0.001.
        error: Largest error, as a share of the rows, where it was there.
    """

    name: str
    games: int
    there: float
    gone: float
    proved: float
    error: float


def games(name: str, asked: Asked, count: int, seed: int) -> Game:
    """Play; `name` is one of `ONLINE`, or "offline": it knows all questions, which hold the row's signs, beforehand."""
    rows, questions, _ = asked
    random, seen, worst = np.random.default_rng(seed), np.zeros((2, count)), 0.0
    for number in range(count):
        means, signs = _drawn(1, questions, random)
        others = (_drawn_sum(means, rows - 1, random) if name != "offline" else 0.0) + np.zeros(questions)
        for world in range(2):
            if name == "offline":
                answers, error = _told(means, signs, world, asked, random)
            else:
                truth = (others + signs[1 - world]) / rows
                answers = answerer(name, asked)(truth, random)
                error = float(np.abs(answers - truth).max()) / 2.0
            worst = max(worst, error * world)
            scale = math.sqrt(float((answers**2 * (1.0 - means**2)).sum()))
            seen[world, number] = float(answers @ (signs[0] - means)) / max(scale, 1.0)  # 0 where all is answered 0
    wealth = Wealth(asked.epsilon, asked.delta, _RARE)
    for part in np.array_split(np.arange(count), _PARTS):  # all of them: `play_out` stops where the claim is refuted
        wealth.show(seen[0, part, None], seen[1, part, None])
    return Game(name, count, float(seen[1].mean()), float(seen[0].mean()), wealth.lowest, worst)


def _drawn_sum(means: Floats, people: int, random: np.random.Generator) -> Floats:
    """Return the sum of so many people's signs, without any of them."""
    ones = random.binomial(people, (1.0 + means) / 2.0).astype(np.float64)
    return 2.0 * ones - people


def _told(
    means: Floats, signs: NDArray[np.int8], world: int, asked: Asked, random: np.random.Generator
) -> tuple[Floats, float]:
    """Answer by the guess that the batch itself makes (`offline`): questions hold the row's signs in both worlds."""
    rows = asked.rows
    others = _drawn_sum(means, rows - 1, random)
    guess, truth = (others + signs[0]) / rows, (others + signs[1 - world]) / rows
    told = tell_once(guess / 2.0, truth / 2.0, asked, random)
    return (guess if told.passed else np.zeros(len(guess))), float(np.abs(guess - truth).max()) / 2.0


def offline(asked: Asked, seed: int) -> Offline:
    """Answer the hard instance, all of whose questions are known: those behind tell the columns of those before.

    The longest strings hold everybody's signs, so uniform weights on these are a public guess that is right.
    """
    random = np.random.default_rng(seed)
    truth = _drawn_sum(random.uniform(-1.0, 1.0, asked.questions), asked.rows, random) / asked.rows / 2.0
    return tell_once(truth, truth, asked, random)


@dataclass(frozen=True)
class Toy:
    """A batch of prefix questions, answered at once.

    Attributes:
        name: How.
        rows: n.
        questions: k.
        cells: Strings among which rows are told apart.
        promised: Error that is proved; NaN where none is.
        seen: Largest error.
    """

    name: str
    rows: int
    questions: int
    cells: int
    promised: float
    seen: float


def toys(rows: int, questions: int, rounds: Sequence[int], epsilon: float, seed: int) -> list[Toy]:
    """Answer by Blum, Ligett and Roth where that can be run, and by multiplicative weights where it cannot."""
    random = np.random.default_rng(seed)
    alpha, asked = 0.8, [["0", "110"], ["10"], ["01", "111"], ["00", "101"], ["1"]]
    cells = len({text for one in asked for text in one}) + 1
    size, needed = blr_rows(len(asked), cells, alpha, epsilon, _BETA)
    texts = ["".join(one) for one in np.where(random.random((needed, 8)) < 0.6, "1", "0")]
    truth = np.array([np.mean([text.startswith(tuple(one)) for text in texts]) for one in asked])
    error = float(np.abs(blr(texts, asked, size, epsilon, random) - truth).max())
    found = [Toy("all multisets (BLR)", needed, len(asked), cells, alpha, error)]
    batch = Batch.draw(rows, questions, 40, random)
    assert batch.lost < 1e-12, "replacing rows by prefixes changed an answer"
    for turns in rounds:
        error = float(np.abs(mwem(batch, epsilon, DELTA, turns, random) - batch.truth).max())
        name = f"multiplicative weights, {turns} rounds"
        found.append(Toy(name, rows, questions, batch.table.shape[1], math.nan, error))
    return found


@dataclass(frozen=True)
class Guessed:
    """What one release gave away.

    Attributes:
        name: Who answered.
        epsilon: Claimed.
        share: Of the coins, guessed right.
        predicted: By the size of the errors; NaN where they are not independent.
        cap: What epsilon allows.
        proved: Epsilon is at least this.
        error: Mean error, as a share of the rows.
        answered: Questions that were answered.
    """

    name: str
    epsilon: float
    share: float
    predicted: float
    cap: float
    proved: float
    error: float
    answered: int


@dataclass(frozen=True)
class Traced:
    """Releases at growing epsilon.

    Attributes:
        coins: Rows.
        questions: k.
        guessed: In order of names and epsilon; None where the planner makes no plan for so few rows.
        refused: Names and epsilons without a plan.
    """

    coins: int
    questions: int
    guessed: list[Guessed]
    refused: list[tuple[str, float]]


def stops(coins: int, questions: int, epsilons: Sequence[float], seed: bytes) -> Traced:
    """Trace independent Gaussian noise and Perpetua's own predictors at growing epsilon."""
    design = draw_design(Draws(Randomness(seed, "separations"), 0), coins, questions)
    random = np.random.default_rng(list(seed))
    found, refused = [], []
    for epsilon in epsilons:
        deviation = math.sqrt(questions) / coins * gaussian_deviation(epsilon, DELTA)
        answers: dict[str, Floats | None] = {"Gaussian noise": design.exact + random.normal(0.0, deviation, questions)}
        for kind in KINDS:
            answers[kind] = shares(kind, epsilon, design, f"{seed.hex()} {epsilon}")
        found += [_guessed(name, epsilon, design, given) for name, given in answers.items() if given is not None]
        refused += [(name, epsilon) for name, given in answers.items() if given is None]
    return Traced(coins, questions, found, refused)


def _guessed(name: str, epsilon: float, design: Design, answers: Floats) -> Guessed:
    judged = judge(trace(design.bits, answers), design.coins, DELTA, _RARE)
    coins = len(design.coins)
    predicted = predicted_share(design.bits, answers, coins) if name == "Gaussian noise" else math.nan
    asked = np.isfinite(answers)
    return Guessed(
        name,
        epsilon,
        judged.share,
        predicted,
        cap(epsilon, DELTA),
        judged.lowest,
        float(np.abs(answers - design.exact)[asked].mean()),
        int(asked.sum()),
    )
