"""The methods that are compared, what each promises, and how often each was wrong."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tests.experiments.comparison.boxes import best_box, box_from_few, quantile_box
from tests.experiments.comparison.classifiers import forest, logistic, naive_bayes
from tests.experiments.comparison.everlasting import perpetua, short_phases
from tests.experiments.comparison.nonprivate import majority, tightest_box, tree
from tests.experiments.comparison.setting import Setting
from tests.experiments.comparison.task import Task

EPSILONS: Final = (0.5, 1.0, 1.5, 2.0, 4.0, 8.0)

_ROWS: Final = "training rows"
_BOTH: Final = "training rows and queries"
_RELEASE: Final = "for ever (one release)"


@dataclass(frozen=True, slots=True)
class Method:
    """A method and what it promises.

    Attributes:
        key: Short name.
        name: What it is.
        at: From a task and an epsilon to a setting.
        protects: What its epsilon covers.
        lasts: How long its guarantee does; empty where each outcome's `rounds` says it.
        keeps: Whether it keeps queries.
        epsilons: Those it is run at; None is a method without privacy.
        repeats: Whether its answers vary with the seed.
    """

    key: str
    name: str
    at: Callable[[Task, float], Setting]
    protects: str
    lasts: str = ""
    keeps: bool = False
    epsilons: tuple[float | None, ...] = EPSILONS
    repeats: bool = True


METHODS: Final = (
    Method("majority", "always the more frequent label", majority, "nothing", "-", epsilons=(None,), repeats=False),
    Method("box", "tightest box, NumPy", tightest_box, "nothing", "-", epsilons=(None,), repeats=False),
    Method("tree", "decision tree, scikit-learn", tree, "nothing", "-", epsilons=(None,), repeats=False),
    Method("best-box", "private best box, OpenDP", best_box, _ROWS, _RELEASE),
    Method("best-box-few", "the same, on no more rows than it wants", box_from_few, _ROWS, _RELEASE),
    Method("quantile-box", "private quantiles as edges, OpenDP", quantile_box, _ROWS, _RELEASE),
    Method("forest", "random forest, diffprivlib", forest, _ROWS, _RELEASE),
    Method("logistic", "logistic regression, diffprivlib", logistic, _ROWS, _RELEASE),
    Method("naive-bayes", "Gaussian naive Bayes, diffprivlib", naive_bayes, _ROWS, _RELEASE),
    Method("perpetua", "Perpetua", perpetua, _BOTH, keeps=True),
    Method("perpetua-short", "Perpetua, the demo's short phases", short_phases, _BOTH, keeps=True, epsilons=(4.0,)),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one method did at one epsilon.

    Attributes:
        method: The method's key.
        epsilon: Per record that it protects; None without privacy.
        errors: The error on the queries, one for each seed; empty where the method refused.
        wanted: See `Setting`.
        rounds: See `Setting`.
        first_phase: See `Setting`.
    """

    method: str
    epsilon: float | None
    errors: tuple[float, ...]
    wanted: int | None
    rounds: int | None
    first_phase: int | None

    @property
    def refused(self) -> bool:
        """Whether the method refused to run on so few rows."""
        return not self.errors

    @property
    def mean(self) -> float:
        """The mean error."""
        return statistics.fmean(self.errors)

    @property
    def spread(self) -> float:
        """The standard deviation of the error over the seeds."""
        return statistics.pstdev(self.errors)


def compare(
    task: Task,
    seeds: Sequence[int],
    tell: Callable[[str], None] = lambda _what: None,
    methods: Sequence[Method] = METHODS,
) -> list[Outcome]:
    """Run every method at every epsilon with every seed.

    Args:
        task: What all are given.
        seeds: For the methods that repeat; the others run with the first one.
        tell: Called with the method's name after each epsilon.
        methods: What to run.
    """
    outcomes = []
    for method in methods:
        for epsilon in method.epsilons:
            setting = method.at(task, epsilon or 0.0)
            chosen = seeds if method.repeats else seeds[:1]
            errors = () if setting.answer is None else tuple(task.error(setting.answer(seed)) for seed in chosen)
            outcomes.append(Outcome(method.key, epsilon, errors, setting.wanted, setting.rounds, setting.first_phase))
            tell(method.name)
    return outcomes
