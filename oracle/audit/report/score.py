"""How many faults in privacy the audit found that it was never tuned to, when that was last tried."""

from pathlib import Path
from typing import Final

import msgspec

__all__ = ["HELD_OUT", "SCORES", "Score", "read_scores", "score_in_words"]

SCORES: Final = Path(__file__).with_name("scores.json")
"""Written by `python -m tests.mutants --score`."""

HELD_OUT: Final = "held-out"
"""The list of faults that nobody who works on the audit has read."""


class Score(msgspec.Struct, frozen=True):
    """What became of a list of faults, each planted in a copy of the program that was then audited.

    Attributes:
        date: When it was tried, as 2026-11-23.
        version: Of the program.
        commit: The same, by its repository.
        found: Faults that the audit refuted something of.
        of: Faults.
        missed: By kind, how many it did not find.
        broken: How many others it, or what it looks at, ended at with an error: no check found them.
    """

    date: str
    version: str
    commit: str
    found: int
    of: int
    missed: dict[str, int]
    broken: int = 0


def read_scores() -> dict[str, Score]:
    """Return the scores by the names of their lists."""
    return msgspec.json.decode(SCORES.read_bytes(), type=dict[str, Score])


def score_in_words() -> str:
    """Return in words what the audit's report says of its own power."""
    score = read_scores()[HELD_OUT]
    tried = f"({score.date}, version {score.version}, commit {score.commit})"
    said = f"A whole audit found {score.found} of {score.of} planted faults that it was never tuned to {tried}."
    if score.broken:
        said += f" At {score.broken} more it ended with an error."
    if not score.missed:
        return said
    missed = ", ".join(f"{kind} ({count})" for kind, count in score.missed.items())
    return f"{said} Missed, by kind: {missed}."
