"""Runs of the majority attack and of medians."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from oracle.audit.attacks.coins import cap, judge
from oracle.audit.attacks.majority import agreement_bound, correlations, majority
from oracle.planning.attributes import Attribute
from oracle.predictors.base import Predictor
from tests.experiments.separations.median import (
    Search,
    hard_rows,
    laplace_rows,
    laplace_shares,
    median,
    median_fails,
    packing_epsilon,
    rows_needed,
)
from tests.experiments.separations.ours import (
    DELTA,
    KINDS,
    TablePlan,
    ask,
    copies,
    middle,
    ordered,
    planned,
    prefixes,
    trained,
)
from tests.experiments.separations.vectors import Correlated, attack, is_right, respond, response_epsilon

_RARE: Final = 1e-3
_FEW: Final = 60
"""Rows: too few for any pure epsilon of 1."""
_ALMOST_NONE: Final = 1e6
"""Epsilon of noise that changes nothing."""


@dataclass(frozen=True)
class Step:
    """The majority of so many answers.

    Attributes:
        answers: k.
        share: Of the signs that it gets right.
        bound: The least share, by Proposition 5 and the correlations that were seen.
        chebyshev: The same by the paper's Lemma 4.1.
        proved: Epsilon of all answers is at least this.
        claimed: By basic composition.
    """

    answers: int
    share: float
    bound: float
    chebyshev: float
    proved: float
    claimed: float


@dataclass(frozen=True)
class Vectors:
    """Both ways to answer correlated vectors.

    Attributes:
        rows: n.
        asked: What questions ask for.
        beforehand: How many sets that were chosen beforehand one response was right for, and how many there were.
        repeated: How many answers were right where the attack gets one response again and again.
        fresh: How many were right where each is drawn anew.
        steps: The attack on fresh answers.
        same: Share that the majority of repeated answers gets right.
    """

    rows: int
    asked: Correlated
    beforehand: tuple[int, int]
    repeated: int
    fresh: int
    steps: list[Step]
    same: float


def vectors(rows: int, asked: Correlated, times: Sequence[int], seed: int) -> Vectors:
    """Answer 60 sets that are fixed, and then the attack's."""
    random = np.random.default_rng(seed)
    secret = np.where(random.random(rows) < 0.5, 1, -1).astype(np.int8)
    answer, right, sets = respond(secret, asked.alpha, random), 0, 60
    for number in range(sets):
        fixed = respond(secret, 0.7, random) if number % 2 else respond(secret, 0.0, random)
        right += is_right(answer, secret, [fixed], asked)
    most = max(times)
    fresh = attack(secret, asked, most, random, fresh=True)
    same = attack(secret, asked, 2, random, fresh=False)
    bits = (fresh.answers + 1) / 2.0
    coins = secret > 0
    steps = []
    for count in times:
        judged = judge(majority(bits[:count]), coins, 0.0, _RARE)
        found = correlations(bits[:count], coins)
        a, b = found.least, found.most
        steps.append(
            Step(
                count,
                judged.share,
                agreement_bound(found, count),
                1.0 - (1.0 / (a * a * count) + (b - a * a) / (a * a)),
                judged.lowest,
                count * response_epsilon(asked.alpha),
            )
        )
    again = float((np.sign(same.answers.sum(axis=0)) == secret).mean())
    return Vectors(rows, asked, (right, sets), same.right, fresh.right, steps, again)


@dataclass(frozen=True)
class Copied:
    """Bits that were asked for again and again, each time in other words.

    Attributes:
        name: Who answered.
        epsilon: Of all answers; of fresh responses that of each.
        composed: Of all answers together; of fresh responses by basic composition.
        shares: Of the bits, right by the majority of the first answers, by their number.
        cap: What the composed epsilon allows.
        proved: Of epsilon by all answers.
    """

    name: str
    epsilon: float
    composed: float
    shares: dict[int, float]
    cap: float
    proved: float


def copied(people: int, counts: Sequence[int], epsilons: Sequence[float], seed: int) -> list[Copied]:
    """Ask Perpetua's own predictors, and fresh responses, at growing epsilon; those without a plan are left out."""
    random = np.random.default_rng(seed)
    bits = random.random(people) < 0.5
    found = []
    for epsilon in epsilons:
        right = 1.0 / (1.0 + math.exp(-epsilon))
        responses = np.where(random.random((max(counts), people)) < right, bits, ~bits).astype(np.float64)
        answers = {"fresh responses": responses}
        for kind in KINDS:
            told = copies(kind, epsilon, bits, max(counts), f"{seed} {epsilon}")
            if told is not None:
                answers[kind] = told
        for name, given in answers.items():
            judged = [judge(majority(given[:count]), bits, DELTA, _RARE) for count in counts]
            by_count = {count: one.share for count, one in zip(counts, judged, strict=True)}
            composed = epsilon * max(counts) if given is responses else epsilon
            found.append(Copied(name, epsilon, composed, by_count, cap(composed, DELTA), judged[-1].lowest))
    return found


@dataclass(frozen=True)
class Told:
    """Medians of one answerer of hard rows.

    Attributes:
        name: Who answers.
        values: T.
        rows: n.
        epsilon: Of all answers.
        failures: Share of the medians that were none.
    """

    name: str
    values: int
    rows: int
    epsilon: float
    failures: float


@dataclass(frozen=True)
class Medians:
    """Medians of values from 1 to T.

    Attributes:
        search: What was looked for.
        needed: Least rows of any pure epsilon of 1 (Proposition 6).
        enough: Rows at which Laplace noise is proved to do.
        told: Laplace noise of epsilon 1, by rows.
        packed: Rows and epsilon that few failures of too little noise prove.
        ours: Perpetua's own beside Laplace noise, by epsilon; those without a plan are left out.
        least: What no failure at all would prove of these (Proposition 6).
    """

    search: Search
    needed: float
    enough: float
    told: list[Told]
    packed: tuple[int, float]
    ours: list[Told]
    least: float


class Own(NamedTuple):
    """Medians that Perpetua's own predictors are asked for.

    Attributes:
        search: What is looked for.
        rows: n.
        runs: At each epsilon.
        epsilons: Of all answers together.
    """

    search: Search
    rows: int
    runs: int
    epsilons: Sequence[float]


def medians(search: Search, rows: Sequence[int], runs: int, own: Own, seed: int) -> Medians:
    """Search for medians of hard rows.

    Args:
        search: Of the runs with Laplace noise.
        rows: Of these.
        runs: Of these, for each number of rows.
        own: Of Perpetua's own predictors.
        seed: Of targets and noise.
    """
    random = np.random.default_rng(seed)
    told = []
    for count in rows:
        failures = _laplace(search, (count, 1.0), runs, random)
        told.append(Told("Laplace noise", search.values, count, 1.0, failures / runs))
    worst = max(_laplace(search, (_FEW, _ALMOST_NONE), runs, random, target) for target in (None, search.values))
    ours = [one for epsilon in own.epsilons for one in _ours(own, epsilon, random)]
    packed = _FEW, packing_epsilon(search, _FEW, worst, runs)
    least = packing_epsilon(own.search, own.rows, 0, own.runs)
    return Medians(search, rows_needed(search, 1.0), laplace_rows(search, 1.0), told, packed, ours, least)


def _laplace(
    search: Search, sizes: tuple[int, float], runs: int, random: np.random.Generator, target: int | None = None
) -> int:
    """Count failures of so many rows and epsilon; the target is drawn from 1 to T - 1 unless it is given."""
    rows, epsilon = sizes
    failures = 0
    for _ in range(runs):
        hard = hard_rows(search, rows, target or int(random.integers(1, search.values)))
        answer = median(laplace_shares(hard, epsilon, search.values, random), search.values)
        failures += median_fails(hard, answer, search.alpha)
    return failures


def _ours(own: Own, epsilon: float, random: np.random.Generator) -> Iterator[Told]:
    """Yield the failures of all who have a plan, on the same rows."""
    search, count, runs, _ = own
    attributes = (Attribute(name="number", bounds=(0.0, float(search.values)), bins=search.values),)
    table, order = planned("statistics", epsilon, count, attributes), ordered(epsilon, count)
    failures: dict[str, int] = {}
    for number in range(runs):
        rows = hard_rows(search, count, int(random.integers(1, search.values)))
        found = {"Laplace noise": float(median(laplace_shares(rows, epsilon, search.values, random), search.values))}
        key = f"median {epsilon} {number}"
        if table is not None:
            found["statistics"] = median(partial(_share, trained(table, rows - 1, key), table), search.values)
        if order is not None:
            found["distribution"] = middle(trained(order, rows, key))
        for name, answer in found.items():
            failures[name] = failures.get(name, 0) + median_fails(rows, answer, search.alpha)
    for name, failed in failures.items():
        yield Told(name, search.values, count, epsilon, failed / runs)


def _share(predictor: Predictor, plan: TablePlan, value: int) -> float:
    return float(ask(predictor, prefixes(plan, value)).values[0])
