"""The comparison's plot: error against epsilon, one line a method."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure

from tests.experiments.comparison.methods import EPSILONS, Outcome
from tests.support.plots import BLUE, GREY, STYLE, VERMILION, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.typing import LineStyleType

_DARK: Final = "#222222"
"""Of the labels: some of the lines' colours are too light for text."""

_LABEL: "Final[dict[str, Any]]" = {
    "textcoords": "offset points",
    "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1.5},
}


class _Look(NamedTuple):
    """How a method is drawn; `shift` moves it sideways, so that it hides no other."""

    label: str
    color: str
    marker: str
    dashes: "LineStyleType" = "-"
    shift: float = 1.0


_LINES: Final = {
    "best-box": _Look("private best box (OpenDP)", "#009E73", "s"),
    "quantile-box": _Look("private quantiles (OpenDP)", "#E69F00", "D", "--"),
    "forest": _Look("random forest (diffprivlib)", "#CC79A7", "v", (4, (4, 4)), 1.03),
    "logistic": _Look("logistic regression (diffprivlib)", VERMILION, "^", (0, (4, 4))),
    "naive-bayes": _Look("naive Bayes (diffprivlib)", "#56B4E9", "P", "--", 0.97),
    "perpetua": _Look("Perpetua", BLUE, "o"),
}

_GAP: Final = 1.5
"""Factor between the heights of two labels at least."""

_NONE: Final = 0.002
"""Percent at which no wrong answer is drawn, as a logarithmic axis has no zero."""

_TICKS: Final = {_NONE: "none", 0.01: "0.01", 0.1: "0.1", 1.0: "1", 10.0: "10", 100.0: "100"}


def draw(outcomes: Sequence[Outcome], title: str, path: Path) -> None:
    """Draw the mean error of each method over epsilon, with its range over the seeds.

    Args:
        outcomes: What was measured.
        title: The figure's title, also the one that screen readers tell.
        path: Where to write the SVG; the same input gives the same bytes.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10.0, 6.0), dpi=120, layout="constrained")
        axes = figure.subplots()
        _axes(axes, title)
        ends = [_line(axes, [one for one in outcomes if one.method == key]) for key in _LINES]
        _labels(axes, [end for end in ends if end is not None])
        _levels(axes, outcomes)
        _refusals(axes, [one for one in outcomes if one.method == "perpetua" and one.refused])
        save(figure, path, title)


def _axes(axes: "Axes", title: str) -> None:
    axes.set_title(title, loc="left", fontweight="bold")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(0.45, 26.0)
    axes.set_ylim(0.0014, 110.0)
    axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    axes.set_yticks(list(_TICKS), list(_TICKS.values()))
    axes.minorticks_off()
    axes.set_xlabel("epsilon (for one training row; Perpetua's also for one query)", loc="left")
    axes.set_ylabel("wrong answers (percent of the queries; mean and range)")


def _height(error: float) -> float:
    return max(100.0 * error, _NONE)


def _line(axes: "Axes", outcomes: Sequence[Outcome]) -> tuple[float, str] | None:
    """Draw a method's line; return its last height and its key, or None where it never ran."""
    served = [one for one in outcomes if not one.refused and one.epsilon is not None]
    if not served:
        return None
    look = _LINES[served[0].method]
    positions = [look.shift * (one.epsilon or 0.0) for one in served]
    means = [_height(one.mean) for one in served]
    lowest = [_height(min(one.errors)) for one in served]
    highest = [_height(max(one.errors)) for one in served]
    axes.vlines(positions, lowest, highest, color=look.color, linewidth=1.2, alpha=0.6)
    axes.plot(
        positions, means, color=look.color, marker=look.marker, linestyle=look.dashes, linewidth=2.0, markersize=6.0
    )
    return means[-1], served[0].method


def _labels(axes: "Axes", ends: Sequence[tuple[float, str]]) -> None:
    """Name the lines at their ends, each label far enough below the one before."""
    free = float("inf")
    for end, key in sorted(ends, reverse=True):
        height = min(end, free)
        free = height / _GAP
        ours = key == "perpetua"
        axes.annotate(
            _LINES[key].label,
            xy=(EPSILONS[-1], height),
            xytext=(13, 0),
            va="center",
            color=BLUE if ours else _DARK,
            fontweight="bold" if ours else "normal",
            **_LABEL,
        )


def _levels(axes: "Axes", outcomes: Sequence[Outcome]) -> None:
    positions = {
        "majority": ("always the more frequent label", EPSILONS[-1], 0),
        "box": ("tightest box, not private", 1.0, 13),
    }
    for key, (text, position, up) in positions.items():
        for one in outcomes:
            if one.method == key:
                level = _height(one.mean)
                axes.axhline(level, color=GREY, linestyle=(0, (1, 1.5)), linewidth=1.6, zorder=0)
                axes.annotate(text, xy=(position, level), xytext=(13, up), va="center", color=GREY, **_LABEL)


def _refusals(axes: "Axes", refused: Sequence[Outcome]) -> None:
    for one in refused:
        axes.plot([one.epsilon or 0.0], [60.0], color=BLUE, marker="x", markersize=9.0, markeredgewidth=2.5)
        axes.annotate(
            f"Perpetua wants\n{one.wanted:,} rows",
            xy=(one.epsilon or 0.0, 60.0),
            xytext=(9, 0),
            textcoords="offset points",
            va="center",
            color=BLUE,
            fontsize=10.0,
        )
