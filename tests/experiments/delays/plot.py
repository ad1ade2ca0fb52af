"""The plot: error against epsilon."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure

from tests.support.plots import BLUE, GREY, STYLE, VERMILION, save

_LOOKS: Final = {
    "perpetua": ("Perpetua, DecisionPERP", BLUE, "o", "-"),
    "logistic": ("logistic regression (diffprivlib)", VERMILION, "^", "--"),
}


class Point(NamedTuple):
    """One method at one epsilon.

    Attributes:
        method: "perpetua" or "logistic".
        epsilon: In nats.
        errors: Of each run.
        note: What is written beside it.
    """

    method: str
    epsilon: float
    errors: tuple[float, ...]
    note: str = ""

    @property
    def mean(self) -> float:
        """Mean error of the runs."""
        return sum(self.errors) / len(self.errors)


def draw(points: Sequence[Point], levels: Sequence[tuple[str, float]], title: str, path: Path) -> None:
    """Draw the mean errors with their ranges, and the levels of what protects nothing.

    Args:
        points: What was measured.
        levels: Name and error of each line across.
        title: The figure's title.
        path: Where to write the SVG; the same input gives the same bytes.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 5.4), dpi=120, layout="constrained")
        axes = figure.subplots()
        axes.set_title(title, loc="left", fontweight="bold")
        axes.set_xscale("log", base=2)
        for method, (label, color, marker, dashes) in _LOOKS.items():
            mine = [point for point in points if point.method == method]
            places = [point.epsilon for point in mine]
            lowest, highest = ([100.0 * pick(point.errors) for point in mine] for pick in (min, max))
            axes.vlines(places, lowest, highest, color=color, linewidth=1.5, alpha=0.6)
            means = [100.0 * point.mean for point in mine]
            axes.plot(places, means, color=color, marker=marker, linestyle=dashes, linewidth=2.0, label=label)
            for point, mean in zip(mine, means, strict=True):
                axes.annotate(point.note, (point.epsilon, mean), (7, 7), textcoords="offset points", color=color)
        for name, level in levels:
            axes.axhline(100.0 * level, color=GREY, linestyle=(0, (1, 1.5)), linewidth=1.6, zorder=0)
            axes.annotate(name, (0.42, 100.0 * level), (0, -14), textcoords="offset points", color=GREY)
        ticks = sorted({point.epsilon for point in points})
        axes.set_xticks(ticks, [f"{epsilon:g}" for epsilon in ticks])
        axes.set_xlim(0.4, 5.5)
        top = max([level for _, level in levels] + [max(point.errors) for point in points])
        axes.set_ylim(0.0, 110.0 * top)
        axes.minorticks_off()
        axes.set_xlabel("epsilon (for one training row; Perpetua's also for one query)", loc="left")
        axes.set_ylabel("wrong answers (percent of the queries; mean and range)")
        axes.legend(frameon=False, loc="upper right", bbox_to_anchor=(1.0, 0.9))
        save(figure, path, title)
