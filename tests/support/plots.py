"""How the plots of the experiments look, and how they are written: the same input gives the same bytes."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType

# Okabe and Ito (2008), "Color Universal Design": told apart by all kinds of colour vision.
BLUE: Final = "#0072B2"
VERMILION: Final = "#D55E00"
GREY: Final = "#555555"

STYLE: Final["dict[RcKeyType, object]"] = {
    "svg.hashsalt": "perpetua",  # names inside the file would be random otherwise
    "svg.fonttype": "none",  # text stays text: small, and read out by screen readers
    "font.family": ["DejaVu Sans", "sans-serif"],  # the first comes with matplotlib
    "font.size": 11.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def save(figure: Figure, path: Path, title: str) -> None:
    """Write a figure as SVG, with the title that screen readers tell."""
    figure.savefig(path, format="svg", metadata={"Date": None, "Title": title})
