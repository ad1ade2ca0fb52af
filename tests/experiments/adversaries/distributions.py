"""`python -m tests.experiments.adversaries.distributions`: who asks a distribution where it errs most, at real sizes.

Prints, for each kind of data and each adversary, the largest errors as a part of what is promised.
"""

import argparse
import itertools
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from oracle.planning.distribution.model import DistributionModel, DistributionPlan
from oracle.planning.distribution.tight import plan_distribution
from oracle.planning.features import Feature
from tests.predictors.distribution.adversaries import ADVERSARIES, DATA, Found, play
from tests.predictors.distribution.values import FEATURES


class Cell(NamedTuple):
    """What one adversary found in all runs against one kind of data.

    Attributes:
        data: Name of the data.
        adversary: Name of the adversary.
        runs: How many.
        broken: Runs in which a verified answer, or quantile, missed its promise.
        error: The largest error of a share, as a part of the promise.
        missed: By how much a quantile was missed, as a part of the promise.
        paid: The most answers that were paid for.
        comparisons: The most comparisons.
    """

    data: str
    adversary: str
    runs: int
    broken: int
    error: float
    missed: float
    paid: int
    comparisons: int


def planned(alpha: float, epsilon: float, of: Feature) -> DistributionPlan:
    """Return a plan for the fewest rows, at delta = 1e-6, beta = 0.05 and a million questions."""
    model = DistributionModel(
        name="d", predictor="distribution", epsilon=epsilon, alpha=alpha, examples=1, features=(of,)
    )
    return plan_distribution(model, lambda _step: None)


def run(plan: DistributionPlan, seeds: Sequence[int]) -> Iterator[Cell]:
    """Yield what each adversary finds in each kind of data, in one run for each seed."""
    for data, adversary in itertools.product(DATA, ADVERSARIES):
        yield _cell(data, adversary, [play(plan, data, adversary, seed) for seed in seeds])


def _cell(data: str, adversary: str, found: list[Found]) -> Cell:
    return Cell(
        data,
        adversary,
        len(found),
        sum(max(one.error, one.missed) > 1.0 for one in found),
        max(one.error for one in found),
        max(one.missed for one in found),
        max(one.paid for one in found),
        max(one.comparisons for one in found),
    )


def table(cells: Sequence[Cell]) -> str:
    """Return a table of them."""
    lines = [
        f"{'data':10}{'adversary':12}{'runs':>6}{'broken':>8}{'error':>8}{'quantile':>10}{'paid':>6}{'compared':>10}"
    ]
    lines += [
        f"{cell.data:10}{cell.adversary:12}{cell.runs:6}{cell.broken:8}{cell.error:8.3f}{cell.missed:10.3f}"
        f"{cell.paid:6}{cell.comparisons:10,}"
        for cell in cells
    ]
    return "\n".join(lines)


def main() -> int:
    """Run all, print the table; 1 if more runs broke than beta allows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--alpha", type=float, default=0.1)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=10, help="of each pair")
    parser.add_argument("--type", choices=list(FEATURES), default="number")
    settings = parser.parse_args()
    plan = planned(settings.alpha, settings.epsilon, FEATURES[settings.type])
    cells = list(run(plan, range(settings.runs)))
    runs, broken = sum(cell.runs for cell in cells), sum(cell.broken for cell in cells)
    sys.stdout.write(f"{plan.declared:,} rows, K = {plan.paid}, error {plan.error:.4f}\n{table(cells)}\n")
    sys.stdout.write(f"{runs} runs, {broken} broken\n")
    return 1 if broken > plan.beta * runs else 0


if __name__ == "__main__":
    sys.exit(main())
