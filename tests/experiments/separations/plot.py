"""The plots: where the attacks stop, and how many rows a median takes."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from oracle.audit.attacks.coins import cap
from tests.experiments.separations.copying import Copied, Medians, Vectors
from tests.experiments.separations.ours import DELTA
from tests.experiments.separations.prefix import Asked
from tests.experiments.separations.tracing import Traced
from tests.support.plots import BLUE, GREY, STYLE, VERMILION, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = np.typing.NDArray[np.float64]
_LOOKS: Final = {
    "Gaussian noise": (VERMILION, "^", "--"),
    "fresh responses": (VERMILION, "^", "--"),
    "Laplace noise": (VERMILION, "^", "--"),
    "statistics": (BLUE, "o", "-"),
    "sparse-vector": ("#009E73", "s", "-"),
    "distribution": ("#CC79A7", "s", "-"),
}
_SIZE: Final = (11.0, 3.8)


def draw_prefix(asked: Asked, sums: Floats, traced: Traced, path: Path) -> None:
    """Draw the tracing sums of rows and strangers, and the share of coins that is guessed right at growing epsilon.

    Args:
        asked: Of the large instance.
        sums: float64[2, n], of rows and of strangers, exact answers.
        traced: At growing epsilon.
        path: Where to write the SVG; the same input gives the same bytes.
    """
    with mpl.rc_context({**STYLE, "font.size": 10.0}):
        figure = Figure(figsize=_SIZE, dpi=110, layout="constrained")
        left, right = figure.subplots(1, 2)
        edges = np.linspace(sums.min(), sums.max(), 40)
        left.hist(sums[1], edges, color=GREY, alpha=0.5, label="strangers")
        left.hist(sums[0], edges, color=VERMILION, alpha=0.6, label="rows")
        left.set_title(f"Exact answers to {asked.questions:,} online questions", loc="left", fontweight="bold")
        left.set_xlabel(f"tracing sum (standard deviations), {asked.rows} rows", loc="left")
        left.set_ylabel("people")
        left.legend(frameon=False)
        for name in sorted({one.name for one in traced.guessed}):
            mine = [one for one in traced.guessed if one.name == name]
            _line(right, name, [one.epsilon for one in mine], [one.share for one in mine])
        noisy = [one for one in traced.guessed if one.name == "Gaussian noise"]
        shares = [100.0 * one.predicted for one in noisy]
        right.plot([one.epsilon for one in noisy], shares, color=GREY, linewidth=0.8, label="theory, Gaussian noise")
        _caps(right, [one.epsilon for one in noisy])
        right.set_title(f"Coins guessed right, {traced.questions:,} questions", loc="left", fontweight="bold")
        right.legend(frameon=False, fontsize=8.5)
        save(figure, path, "The tracing attack: who is among the rows, and at which epsilon it stops")


def draw_vectors(found: Vectors, copied: Sequence[Copied], path: Path) -> None:
    """Draw the share of signs that fresh answers give away, and the same of Perpetua's own at growing epsilon.

    Args:
        found: The attack on randomized responses.
        copied: Bits that were asked for again and again.
        path: Where to write the SVG; the same input gives the same bytes.
    """
    with mpl.rc_context({**STYLE, "font.size": 10.0}):
        figure = Figure(figsize=_SIZE, dpi=110, layout="constrained")
        left, right = figure.subplots(1, 2)
        counts = [one.answers for one in found.steps]
        for shares, color, dashes, label in (
            ([one.share for one in found.steps], VERMILION, "--", "drawn anew, seen"),
            ([one.bound for one in found.steps], GREY, "-", "at least, Proposition 5"),
            ([max(one.chebyshev, 0.0) for one in found.steps], GREY, ":", "at least, Lemma 4.1"),
        ):
            left.plot(counts, [100.0 * share for share in shares], color=color, linestyle=dashes, label=label)
        left.axhline(100.0 * found.same, color=BLUE, label="one response, repeated")
        left.set_xscale("log")
        left.set_xticks(counts, [str(count) for count in counts])
        left.xaxis.set_minor_locator(NullLocator())
        left.set_xlabel("answers", loc="left")
        left.set_ylabel("signs right (percent)")
        left.set_title(f"Majority of {found.rows:,} signs", loc="left", fontweight="bold")
        left.legend(frameon=False, fontsize=8.5)
        times = max(copied[0].shares)
        for name in sorted({one.name for one in copied}):
            mine = [one for one in copied if one.name == name]
            label = f"{name} (each of epsilon)" if any(one.composed > one.epsilon for one in mine) else name
            _line(right, name, [one.epsilon for one in mine], [one.shares[times] for one in mine], label)
        _caps(right, sorted({one.epsilon for one in copied}), "epsilon allows at most, once")
        right.set_title(f"Bits right, asked {times} times", loc="left", fontweight="bold")
        right.legend(frameon=False, fontsize=8.5)
        save(figure, path, "The majority attack: how many answers it takes, and at which epsilon it stops")


def draw_medians(found: Medians, path: Path) -> None:
    """Draw how often medians fail: of Laplace noise by rows, of Perpetua's own at growing epsilon.

    Args:
        found: Of all of them.
        path: Where to write the SVG; the same input gives the same bytes.
    """
    with mpl.rc_context({**STYLE, "font.size": 10.0}):
        figure = Figure(figsize=_SIZE, dpi=110, layout="constrained")
        axes, right = figure.subplots(1, 2)
        rows, failures = [one.rows for one in found.told], [100.0 * one.failures for one in found.told]
        axes.plot(rows, failures, color=VERMILION, marker="^", label="Laplace noise, epsilon 1")
        axes.axvline(found.needed, color=GREY, label="no method with fewer rows (Proposition 6)")
        axes.axvline(found.enough, color=GREY, linestyle=":", label="proved to be enough for Laplace noise")
        axes.set_xscale("log")
        axes.set_xticks(rows, [f"{count:,}" for count in rows])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel("rows", loc="left")
        axes.set_ylabel("medians that fail (percent)")
        axes.set_title(f"Median of {found.search.values:,} values", loc="left", fontweight="bold")
        axes.legend(frameon=False, fontsize=8.5)
        for name in sorted({one.name for one in found.ours}):
            mine = [one for one in found.ours if one.name == name]
            _line(right, name, [one.epsilon for one in mine], [one.failures for one in mine])
        _epsilons(right, sorted({one.epsilon for one in found.ours}))
        right.set_ylim(bottom=-1.0)
        right.set_ylabel("medians that fail (percent)")
        values, count = found.ours[0].values, found.ours[0].rows
        right.set_title(f"Median of {values:,} values, {count:,} rows", loc="left", fontweight="bold")
        right.legend(frameon=False, fontsize=8.5)
        save(figure, path, "Medians: failures by rows, and of Perpetua's own by epsilon")


def _line(
    axes: "Axes", name: str, epsilons: Sequence[float], shares: Sequence[float], label: str | None = None
) -> None:
    color, marker, dashes = _LOOKS[name]
    percent = [100.0 * share for share in shares]
    axes.plot(epsilons, percent, color=color, marker=marker, linestyle=dashes, markersize=4.5, label=label or name)


def _caps(axes: "Axes", epsilons: Sequence[float], label: str = "epsilon allows at most") -> None:
    """Draw what each epsilon allows, and name the axes."""
    percent = [100.0 * cap(epsilon, DELTA) for epsilon in epsilons]
    axes.plot(epsilons, percent, color=GREY, linestyle=":", label=label)
    _epsilons(axes, epsilons)
    axes.set_ylim(45.0, 103.0)
    axes.set_ylabel("right (percent)")


def _epsilons(axes: "Axes", epsilons: Sequence[float]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("epsilon, of exchanging a row", loc="left")
