"""The plot: average error against T, both profiles, and Theorem 2.1's bound."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from tests.experiments.bisection.runs import DIMENSION, Outcome
from tests.experiments.bisection.streams import KINDS
from tests.support.plots import BLUE, GREY, STYLE, VERMILION, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LOOKS: Final = {
    "efficient": ("every query asked", BLUE, "o", "-"),
    "paper": ("Algorithms 1 and 2 as written", VERMILION, "^", "--"),
}


def draw(outcomes: Sequence[Outcome], path: Path) -> None:
    """Draw one panel for each kind of stream and each d.

    Args:
        outcomes: All runs.
        path: Where to write the SVG; the same input gives the same bytes.
    """
    columns = sorted({outcome.directions for outcome in outcomes})
    with mpl.rc_context({**STYLE, "font.size": 10.0}):
        figure = Figure(figsize=(11.0, 6.4), dpi=110, layout="constrained")
        panels = figure.subplots(len(KINDS), len(columns), sharex=True, sharey=True, squeeze=False)
        for row, kind in enumerate(KINDS):
            for column, directions in enumerate(columns):
                mine = [each for each in outcomes if (each.kind, each.directions) == (kind, directions)]
                _panel(panels[row][column], mine)
                panels[row][column].set_title(f"{kind}, d = {directions}", loc="left")
        for axes in panels[-1]:
            axes.set_xlabel("rounds T")
        for axes in panels[:, 0]:
            axes.set_ylabel("average error")
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
        title = f"OnlineBisection: error of w*.q, D = {DIMENSION}, noise D times Laplace(0.1)"
        figure.suptitle(title, fontweight="bold")
        save(figure, path, title)


def _panel(axes: "Axes", outcomes: Sequence[Outcome]) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    for profile, (label, color, marker, dashes) in _LOOKS.items():
        mine = [outcome for outcome in outcomes if outcome.profile == profile]
        lengths = sorted({outcome.rounds for outcome in mine})
        means = [np.mean([outcome.error for outcome in mine if outcome.rounds == length]) for length in lengths]
        axes.plot(
            lengths, means, color=color, marker=marker, linestyle=dashes, linewidth=1.8, markersize=5, label=label
        )
        if profile == "paper":
            bounds = [next(each.bound for each in mine if each.rounds == length) for length in lengths]
            axes.plot(lengths, bounds, color=GREY, linewidth=1.4, linestyle=":", label="Theorem 2.1's bound")
        else:
            line = [means[-1] * (lengths[-1] / length) ** 0.5 for length in lengths]
            axes.plot(lengths, line, color=GREY, linewidth=0.8, label="slope -1/2")
