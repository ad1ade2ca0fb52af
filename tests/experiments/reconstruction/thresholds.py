"""How much noise hides bits, and how little of it epsilon asks for: the attack at growing noise and growing epsilon."""

import math
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Final, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from oracle.audit.attacks.coins import cap, judge
from oracle.audit.randomness import Draws, Randomness
from oracle.audit.reconstruction.decoders import Equations, least_squares, linear_program, predicted_share
from oracle.audit.reconstruction.functions import summed, table_of
from oracle.audit.reconstruction.people import alone
from oracle.audit.reconstruction.releases import Table, Terms, equations_of, release
from tests.support.plots import BLUE, GREY, STYLE, VERMILION, save

_PER_ROW: Final = 5
_DELTA: Final = 1e-6
_MISS: Final = 1e-3


class Threshold(NamedTuple):
    """Shares of bits that are right, of random counts with normal noise of deviation `size` sqrt(n)."""

    size: float
    least_squares: float
    linear_program: float
    theory: float


class Ceiling(NamedTuple):
    """Share of coins that is right of parities with noise of some epsilon; what it may be, and what it proves."""

    release: str
    epsilon: float
    right: float
    allowed: float
    proved: float


def thresholds(rows: int, sizes: Sequence[float], times: int, seed: int) -> list[Threshold]:
    """Attack counts of random sets, five for each of so many rows, with all of `times` secrets."""
    random = np.random.default_rng(seed)
    found, ones = [], np.ones(rows)
    for size in sizes:
        deviation, shares = size * math.sqrt(rows), []
        for _ in range(times):
            secret = random.random(rows) < 0.5
            asked = random.integers(0, 2, (_PER_ROW * rows, rows)).astype(float)
            told = Equations.of(asked, asked @ secret + random.normal(0.0, deviation, len(asked)), deviation)
            both = (least_squares(told, ones, 0.5), linear_program(told, ones))
            shares.append([*(np.mean((one > 0.5) == secret) for one in both), predicted_share(told)])
        found.append(Threshold(size, *np.mean(shares, axis=0).tolist()))
    return found


def ceilings(rows: int, columns: int, epsilons: Sequence[float], seed: int) -> list[Ceiling]:
    """Attack parities of each two of so many columns with noise of some epsilons."""
    random, people = np.random.default_rng(seed), alone(rows)
    bits = random.integers(0, 2, (rows, columns))
    published = summed(table_of("parity", 2), bits, np.array(list(combinations(range(columns), 2))), people.sizes)
    draws, found = Draws(Randomness(seed.to_bytes(16, "big"), "ceilings"), 0), []
    for name in ("gaussian", "laplace"):
        delta = _DELTA if name == "gaussian" else 0.0
        for epsilon in epsilons:
            coins = draws.uniform(rows) < 0.5
            table = Table(people, coins, published, Terms(epsilon=epsilon, delta=_DELTA))
            guessed = least_squares(equations_of(published, release(name, table, coins, draws)), people.sizes, 0.5)
            judged = judge(guessed - 0.5, coins, delta, _MISS)
            found.append(Ceiling(name, epsilon, judged.share, cap(epsilon, delta), judged.lowest))
    return found


def draw(noise: Sequence[Threshold], claims: Sequence[Ceiling], rows: tuple[int, int], path: Path) -> None:
    """Draw both; the same input gives the same bytes.

    Args:
        noise: At growing noise.
        claims: At growing epsilon.
        rows: How many there were, of each.
        path: Where to write the SVG.
    """
    with mpl.rc_context({**STYLE, "font.size": 10.0}):
        figure = Figure(figsize=(11.0, 3.8), dpi=110, layout="constrained")
        left, right = figure.subplots(1, 2)
        sizes = [one.size for one in noise]
        left.plot(sizes, [100 * one.least_squares for one in noise], color=BLUE, marker="o", label="least squares")
        left.plot(
            sizes, [100 * one.linear_program for one in noise], color=VERMILION, marker="^", label="linear program"
        )
        left.plot(sizes, [100 * one.theory for one in noise], color=GREY, linestyle=":", label="theory, least squares")
        left.set_xscale("log", base=2)
        left.set_xticks(sizes, [f"{size:g}" for size in sizes])
        left.set_xlabel("noise: deviation over the root of the rows", loc="left")
        left.set_title(f"{rows[0]} rows, {_PER_ROW * rows[0]:,} random counts", loc="left", fontweight="bold")
        looks = {"gaussian": (BLUE, "o"), "laplace": (VERMILION, "^")}
        for name, (color, marker) in looks.items():
            mine = [one for one in claims if one.release == name]
            label = f"{name} noise"
            right.plot(
                [one.epsilon for one in mine],
                [100 * one.right for one in mine],
                color=color,
                marker=marker,
                label=label,
            )
        epsilons = sorted({one.epsilon for one in claims})
        allowed = [100 * cap(epsilon, _DELTA) for epsilon in epsilons]
        right.plot(epsilons, allowed, color=GREY, linestyle=":", label="epsilon allows at most")
        right.set_xscale("log", base=2)
        right.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
        right.set_xlabel("epsilon, of exchanging a bit, for all numbers together", loc="left")
        right.set_title(f"{rows[1]} rows, all parities of two of 40 attributes", loc="left", fontweight="bold")
        for axes in (left, right):
            axes.xaxis.set_minor_locator(NullLocator())
            axes.set_ylim(45.0, 103.0)
            axes.set_ylabel("bits right (percent)")
            axes.legend(frameon=False, fontsize=8.5)
        save(figure, path, "Reconstruction: bits guessed right, by noise and by epsilon")
