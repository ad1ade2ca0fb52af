"""Runs every adversary at every size, and prints how far each stays below its bounds."""

from collections.abc import Collection, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from typing import Final

from oracle.cli.progress import Progress
from tests.experiments.adversaries.figures import PhaseFigures, broken_bounds, worst
from tests.experiments.adversaries.harvest import TailsTooNarrowError
from tests.experiments.adversaries.scenarios import SCENARIOS, Scenario, StumpScenario
from tests.experiments.adversaries.stumps import WrongStumpError

DIMENSIONS: Final = (1, 2, 5)
EPSILONS: Final = (1.0, 4.0)
PREDICTORS: Final = ("rectangles", "stumps")
PHASES: Final = 6

_LONG: Final = frozenset({("rectangles", "correlated features (0.99)", 5, 1.0)})
"""Runs that take far longer than all others together: 9e10 rounds, with a billion points to draw one by one."""

Cell = tuple[int, int, float]
"""Scenario number, d, epsilon."""


@dataclass(frozen=True)
class Row:
    """One run: an adversary at one size.

    Attributes:
        predictor: What is attacked.
        adversary: Its name.
        dimension: d.
        epsilon: Per-record epsilon.
        share: Part of a stripe that each side is planned to get: the planner's estimate, or what the owner declares.
        rounds: Rounds of all phases run.
        rearms: How often sides were armed afresh.
        error: Largest error of a phase or up to a phase's end, of a stump that beyond the best stump's, over alpha.
        expected: The plan's expected error over alpha.
        fill: Least part of M that a side was armed with.
        contamination: Most contamination of a side, over eta M.
        outside_ones: Hostile queries outside the box that got label 1.
        false_ones: Honest ones.
        broken: Names of the bounds that did not hold.
        phases: Every phase's figures.
    """

    predictor: str
    adversary: str
    dimension: int
    epsilon: float
    share: float
    rounds: int
    rearms: int
    error: float
    expected: float
    fill: float
    contamination: float
    outside_ones: int
    false_ones: int
    broken: list[str]
    phases: list[PhaseFigures]

    def as_dict(self) -> dict[str, object]:
        """Return plain data."""
        return asdict(self)


def cells(
    dimensions: Iterable[int],
    epsilons: Iterable[float],
    predictors: Collection[str] = PREDICTORS,
    *,
    long: bool = False,
) -> list[Cell]:
    """Return all runs, the longest first; those of `_LONG` only if asked for."""
    found = [
        (number, dimension, epsilon)
        for dimension in dimensions
        for epsilon in epsilons
        for number, scenario in enumerate(SCENARIOS)
        if scenario.predictor in predictors and dimension >= scenario.dimensions
        if long or (scenario.predictor, scenario.name, dimension, epsilon) not in _LONG
    ]
    return sorted(found, key=lambda cell: (-cell[1], cell[2], -cell[0]))


def run_cell(cell: Cell) -> Row:
    """Run one adversary at one size, with a fixed seed."""
    number, dimension, epsilon = cell
    scenario = SCENARIOS[number]
    seed = 1000 * number + 10 * dimension + int(epsilon)
    try:
        plan, run = scenario.driver(dimension, epsilon, seed)
        figures = run.run(PHASES)
    except TailsTooNarrowError:  # some side's next points are fewer, or further in, than its share of a stripe
        return _broken(scenario, dimension, epsilon, "starved")
    except WrongStumpError:
        return _broken(scenario, dimension, epsilon, "choice")
    error, fill, contamination = worst(figures)
    return Row(
        scenario.predictor,
        scenario.name,
        dimension,
        epsilon,
        plan.share,
        sum(phase.rounds for phase in figures),
        sum(phase.rearms for phase in figures),
        error / plan.alpha,
        plan.expected_error / plan.alpha,
        fill,
        contamination,
        sum(phase.outside_ones for phase in figures),
        sum(phase.false_ones for phase in figures),
        broken_bounds(plan, figures),
        figures,
    )


def _broken(scenario: Scenario | StumpScenario, dimension: int, epsilon: float, bound: str) -> Row:
    """Return the row of a run that did not come to its end."""
    return Row(scenario.predictor, scenario.name, dimension, epsilon, 0.0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0, 0, [bound], [])


def run_all(wanted: list[Cell], workers: int) -> list[Row]:
    """Run cells in parallel, with progress on standard error."""
    rows: dict[Cell, Row] = {}
    with (
        Progress("adversaries", len(wanted), "runs") as progress,
        ProcessPoolExecutor(workers) as pool,
    ):
        futures = {pool.submit(run_cell, cell): cell for cell in wanted}
        for future in as_completed(futures):
            rows[futures[future]] = future.result()
            progress.at(len(rows))
    return [rows[cell] for cell in sorted(rows)]


def table(rows: list[Row]) -> str:
    """Return the rows as text."""
    head = (
        f"{'predictor':<10} {'adversary':<30} {'d':>2} {'eps':>4} {'share':>5} {'phases':>6} {'rounds':>8} "
        f"{'re-arms':>7} {'error/alpha':>11} {'fill':>5} {'contam./eta M':>13} {'wrong 1s':>8}  verdict"
    )
    lines = [head, "-" * len(head)]
    lines += [
        f"{row.predictor:<10} {row.adversary:<30} {row.dimension:>2} {row.epsilon:>4g} {row.share:>5.2f} "
        f"{len(row.phases):>6} {row.rounds:>8.1e} {row.rearms:>7} {row.error:>11.3f} {row.fill:>5.2f} "
        f"{row.contamination:>13.3f} {row.outside_ones + row.false_ones:>8}  "
        f"{'BROKEN: ' + ', '.join(row.broken) if row.broken else 'holds'}"
        for row in rows
    ]
    return "\n".join(lines)
