"""The demo's plot: the error over the weeks."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from oracle.demo.data import INSTALL_HINT
from oracle.demo.score import Score
from oracle.errors import RefusedError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.typing import RcKeyType

__all__ = ["draw"]

# Okabe and Ito (2008), "Color Universal Design": told apart by all kinds of colour vision.
_BLUE: Final = "#0072B2"
_SKY: Final = "#56B4E9"
_VERMILION: Final = "#D55E00"
_GREEN: Final = "#009E73"
_GREY: Final = "#555555"

_TICK_DAYS: Final = (1, 15)
"""Days of the month that are named below the plot."""

_STYLE: Final["dict[RcKeyType, object]"] = {
    "svg.hashsalt": "perpetua",  # names inside the file would be random otherwise
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 11.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(score: Score, alpha: float, path: Path, crashes: Sequence[int] = ()) -> Path:
    """Draw the error over time, the promised bound and the baseline, and mark phase changes and crashes.

    It is .svg or .png, and the same input gives the same bytes.

    Returns:
        `path`.

    Raises:
        RefusedError: The extra `demo` is not installed.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as exc:
        raise RefusedError(INSTALL_HINT) from exc
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(10.0, 5.6), dpi=120, layout="constrained")
        axes = figure.subplots()
        _errors(axes, score)
        _levels(axes, score, alpha)
        _marks(axes, score, crashes)
        _labels(axes, score)
        kind = path.suffix.lstrip(".")
        figure.savefig(path, format=kind, metadata={"Date": None} if kind == "svg" else {"Software": None})
    return path


def _errors(axes: "Axes", score: Score) -> None:
    days, counts, wrong = score.by_day()
    axes.bar(days, 100.0 * wrong / counts, width=0.9, color=_SKY, alpha=0.7, label="error of one day")
    days, errors = score.by_week()
    axes.plot(days, 100.0 * errors, color=_BLUE, linewidth=2.2, label="error of the last seven days")


def _levels(axes: "Axes", score: Score, alpha: float) -> None:
    levels = (
        (score.baseline, _GREY, (0, (1, 1.5)), "always giving the more frequent answer"),
        (alpha, _VERMILION, (0, (6, 2)), "the plan's bound, on the average (alpha)"),
    )
    highest = max(score.baseline, alpha, float((score.by_day()[2] / score.by_day()[1]).max()))
    axes.set_ylim(0.0, min(115.0 * highest, 100.0))
    for level, color, dashes, text in levels:
        axes.axhline(100.0 * level, color=color, linestyle=dashes, linewidth=1.6)
        axes.annotate(
            f"{text}: {level:.1%}",
            xy=(0.01, 100.0 * level),
            xycoords=("axes fraction", "data"),
            xytext=(0, 4),
            textcoords="offset points",
            color=color,
        )


def _marks(axes: "Axes", score: Score, crashes: Sequence[int]) -> None:
    marks = [(row, f"phase {phase} begins", _GREEN, "-.") for phase, row in score.phase_starts.items()]
    marks += [(row, "killed, resumed", _GREY, ":") for row in crashes if row < score.rounds]
    for row, text, color, dashes in marks:
        when = score.times[row]
        side, shift = ("left", 5) if row < score.rounds // 20 else ("right", -5)
        axes.axvline(when, color=color, linestyle=dashes, linewidth=1.6)
        axes.annotate(
            f"{text} (query {row:,})",
            xy=(when, 0.82),
            xycoords=("data", "axes fraction"),
            xytext=(shift, 0),
            textcoords="offset points",
            rotation=90,
            ha=side,
            va="top",
            color=color,
            fontsize=10.0,
        )


def _labels(axes: "Axes", score: Score) -> None:
    axes.set_title(f"{score.rounds:,} private answers: {score.error:.2%} were wrong", loc="left", fontweight="bold")
    axes.set_xlabel("scheduled departure of the flight asked about (day of 2013)")
    axes.set_ylabel("wrong answers (percent)")
    first, last = score.times[[0, -1]].astype("datetime64[D]")
    axes.set_xlim(first - np.timedelta64(1, "D"), last + np.timedelta64(1, "D"))
    days = np.arange(first, last + np.timedelta64(1, "D"))
    ticks = [day for day in days.tolist() if day.day in _TICK_DAYS]
    axes.set_xticks(ticks, [f"{day.day} {day:%b}" for day in ticks])
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), frameon=False, ncols=2)
