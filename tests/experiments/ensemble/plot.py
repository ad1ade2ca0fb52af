"""The plot: errors and shares of the classes, phase by phase."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from tests.experiments.ensemble.runs import Phases
from tests.support.plots import BLUE, GREY, STYLE, VERMILION, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLORS: Final = (BLUE, VERMILION, "#009E73", "#CC79A7")
_TENTH: Final = 0.1
_POINTS: Final = 2.0


def draw(title: str, runs: Sequence[Phases], path: Path) -> None:
    """Draw errors on the left, shares on the right.

    Args:
        title: What is asked.
        runs: Under keys of their own.
        path: Where to write the SVG; the same input gives the same bytes.
    """
    with mpl.rc_context({**STYLE, "font.size": 10.0}):
        figure = Figure(figsize=(10.0, 3.4), dpi=110, layout="constrained")
        left, right = figure.subplots(1, 2)
        left.set_title(title, loc="left", fontweight="bold")
        _errors(left, runs)
        _shares(right, runs)
        for axes in (left, right):
            axes.set_xticks(np.arange(1, len(runs[0].wrong) + 1))
            axes.set_ylim(0.0, 1.15 * axes.get_ylim()[1])
            axes.set_xlabel("phase", loc="left")
        save(figure, path, f"An ensemble, phase by phase: {title}")


def _errors(axes: "Axes", runs: Sequence[Phases]) -> None:
    wrong = 100.0 * np.array([run.wrong for run in runs])
    phases = np.arange(1, wrong.shape[1] + 1)
    axes.axhspan(*(wrong[:, 0].mean() + _POINTS * np.array([-1.0, 1.0])), color=GREY, alpha=0.12, linewidth=0.0)
    axes.annotate("two points about phase 1", (phases[-1], wrong[:, 0].mean() + _POINTS), ha="right", va="bottom")
    for line in wrong:
        axes.plot(phases, line, color=BLUE, marker="o", markersize=4.0, linewidth=1.2, alpha=0.8)
    axes.set_ylabel("wrong answers (percent)")


def _shares(axes: "Axes", runs: Sequence[Phases]) -> None:
    phases = np.arange(1, len(runs[0].wrong) + 1)
    for number in range(1, runs[0].said.shape[1]):
        color = _COLORS[(number - 1) % len(_COLORS)]
        truth = 100.0 * np.mean([run.true[:, number].mean() for run in runs])
        low, high = truth * (1.0 - _TENTH), truth * (1.0 + _TENTH)
        axes.axhspan(low, high, color=color, alpha=0.12, linewidth=0.0)
        axes.annotate("a tenth about the truth", (phases[-1], high), ha="right", va="bottom")
        for run in runs:
            line = 100.0 * run.shares[:, number]
            axes.plot(phases, line, color=color, marker="o", markersize=4.0, linewidth=1.2, alpha=0.8)
    axes.set_ylabel("share of the answers (percent)")
