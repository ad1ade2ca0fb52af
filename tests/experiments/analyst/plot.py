"""The plot: the error of each answer over time, and below it how many were paid for."""

from pathlib import Path
from typing import Final, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from tests.support.plots import BLUE, GREY, STYLE, VERMILION

_DASHES: Final = (0, (6, 2))
_DOTS: Final = (0, (1, 1.5))


class Run(NamedTuple):
    """All answers of a run.

    Attributes:
        errors: float64[m], how far each share was from the true one.
        paid: int64[m], answers that were paid for, up to and with each.
        alpha: The promised error.
        most: K.
        counts_error: What as many Gaussian counts would err by at most, at the same epsilon, delta and beta.
    """

    errors: NDArray[np.float64]
    paid: NDArray[np.int64]
    alpha: float
    most: int
    counts_error: float


def draw(run: Run, title: str, path: Path) -> None:
    """Draw a run.

    Args:
        run: What was measured.
        title: The figure's title.
        path: Where to write the PNG.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10.0, 7.0), dpi=120, layout="constrained")
        above, below = figure.subplots(2, sharex=True, height_ratios=(3, 2))
        numbers = np.arange(1, len(run.errors) + 1)
        above.set_title(title, loc="left", fontweight="bold")
        above.plot(numbers, 100.0 * run.errors, ".", color=BLUE, markersize=1.5, alpha=0.5, rasterized=True)
        means = np.cumsum(run.errors) / numbers
        above.plot(numbers, 100.0 * means, color="black", linewidth=1.5, label="mean so far")
        above.axhline(100.0 * run.alpha, color=VERMILION, linestyle=_DASHES, label="promised of every answer")
        label = "as many Gaussian counts, at most"
        above.axhline(100.0 * run.counts_error, color=GREY, linestyle=_DOTS, linewidth=1.6, label=label)
        above.set_ylabel("error (percent of all rows)")
        above.set_ylim(0.0, 115.0 * max(run.alpha, float(run.errors.max()), run.counts_error))
        above.legend(frameon=False, loc="upper right", ncols=3)
        below.step(numbers, run.paid, color=BLUE, linewidth=2.0, where="post")
        below.axhline(run.most, color=VERMILION, linestyle=_DASHES)
        below.annotate(f"there are {run.most:,}", (0, run.most), (4, -14), textcoords="offset points", color=VERMILION)
        below.set_ylim(0.0, 1.1 * run.most)
        below.set_ylabel("answers paid for")
        below.set_xlabel("question")
        figure.savefig(path, format="png", metadata={"Software": None})
