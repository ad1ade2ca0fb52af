"""Runs on other data altogether, with the outputs of all mechanisms frozen: they must tell, and do, the very same.

`sensitivity.py` looks at neighbours, and at how far inputs move. Here any rows may be put in the place of the
rows (all alike, none labelled 1, all labelled 1, a clear winner), so inputs may move as they like; but whatever else
follows from them was told by no mechanism. That is what a branch shows which spares the noise where the data seem to be
clear, and work that is not done where it changes no answer: lines that are run and shapes of arrays are compared too.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

import numpy as np

from oracle.audit.randomness import Draws, Randomness
from oracle.audit.recording.listening import listening
from oracle.audit.recording.neighbours import worlds_of
from oracle.audit.recording.replays import Other, World, record, replay
from oracle.planning.bisection.model import BisectionPlan
from oracle.planning.distribution.model import DistributionPlan
from oracle.planning.ensemble.model import EnsemblePlan
from oracle.planning.plan import Plan
from oracle.planning.statistics.model import TablePlan

__all__ = ["follows_from_outputs"]

Seen = tuple[bool, str]

_WORLDS: Final = 7
"""Runs that are recorded, at most."""


def follows_from_outputs(plan: Plan, randomness: Randomness) -> Seen:
    """Whatever the rows are, what is told and done follows from the plan, queries and outputs of mechanisms.

    Else there is a release that nobody counted: a choice that is made without noise, a count that is told without it,
    or an answer whose time tells what decided it.
    """
    played = 0
    with listening() as listener:
        for number, world in enumerate(islice(worlds_of(plan, randomness), _WORLDS)):
            run = record(world, listener, worked=True)
            for name, other in _others(world, Draws(randomness, 1 + number)):
                found = replay(run, listener, Other(other))
                if found.wrong is not None:
                    return False, f"run {number}, {name}: {found.wrong}"
                played += not found.refused
    return played > 0, f"{played} runs on other rows told and did the same, given the same outputs"


def _others(world: World, draws: Draws) -> Iterator[tuple[str, World]]:
    """Yield other rows and labels, and what they are called."""
    rows, labels = world.rows, world.labels
    ones = np.ones_like(labels)
    order = np.array(draws.some(len(rows), len(rows)))[::-1]
    yield "rows the other way round", world._replace(rows=rows[order], labels=labels[order])
    yield "one row again and again", world._replace(rows=np.repeat(rows[:1], len(rows), axis=0), labels=ones)
    yield "all rows labelled 1", world._replace(labels=ones)
    if isinstance(world.plan, TablePlan | DistributionPlan):
        yield "no rows", world._replace(labels=np.zeros_like(labels))
        return
    if not isinstance(world.plan, EnsemblePlan | BisectionPlan):
        yield "no row labelled 1", world._replace(labels=np.zeros_like(labels))
    for column in range(rows.shape[1]):
        for sign in (1.0, -1.0):
            winner = (sign * rows[:, column] >= np.median(sign * rows[:, column])).astype(labels.dtype)
            yield f"labels by column {column}", world._replace(labels=winner)
