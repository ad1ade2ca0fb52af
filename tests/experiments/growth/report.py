"""What a run has shown, as a table, and the promises it breaks."""

from collections.abc import Sequence
from typing import Final

from tests.experiments.growth.run import Figures

_FLAT: Final = 0.05
"""Part of the first mark's memory that later ones may differ by."""

_MIB: Final = 2.0**20


def table(found: Sequence[Figures]) -> str:
    """Return one line a mark."""
    lines = ["         rounds  phase  re-arms  memory MiB    change  plan MiB  snapshot B  write ms  start ms  seconds"]
    for figures in found:
        change = figures.resident / _reference(found).resident - 1.0
        cells = (
            f"{figures.rounds:15,}",
            f"{figures.phase:5}",
            f"{figures.rearms:7,}",
            f"{figures.resident / _MIB:10.1f}",
            f"{change:+8.1%}",
            f"{figures.planned / _MIB:8.2f}",
            f"{figures.snapshot:10,}",
            f"{figures.write_seconds * 1e3:8.1f}",
            f"{figures.start_seconds * 1e3:8.1f}",
            f"{figures.seconds:7.0f}",
        )
        lines.append("  ".join(cells))
    return "\n".join(lines)


def _reference(found: Sequence[Figures]) -> Figures:
    """Return the first figures after round 0: before, the code is not even warm."""
    return next((figures for figures in found if figures.rounds), found[0])


def broken(found: Sequence[Figures]) -> list[str]:
    """Return a sentence for each broken promise."""
    first = _reference(found)
    sentences = []
    for figures in found:
        if figures.rounds and abs(figures.resident - first.resident) > _FLAT * first.resident:
            sentences.append(f"memory at {figures.rounds:,} rounds is not within 5 % of that at {first.rounds:,}")
        if figures.snapshot != figures.blank:
            sentences.append(
                f"the snapshot at {figures.rounds:,} rounds has {figures.snapshot:,} bytes, a blank one of its phase"
                f" {figures.blank:,}"
            )
    return sentences
