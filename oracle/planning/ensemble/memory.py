"""What an ensemble holds in memory, from what is declared."""

import math
from collections.abc import Sequence
from typing import Final

from oracle.mechanisms.noise.tables import tail_reach
from oracle.planning.ensemble.model import LABEL_BYTES, EnsemblePlan
from oracle.planning.features import Feature, columns_of

__all__ = ["encoded_width", "kept_rows", "phase_bytes"]

_ROWS_BYTES: Final = 128 << 20
"""Bytes of the rows that are kept for one life, at most."""

_FEW: Final = 1 << 17
"""Rows that are kept where there are few examples."""

_TIMES: Final = 10
"""Rows that are kept for each example where memory allows it."""

_TEACHER: Final = 2048
"""Bytes of a teacher that has no rows."""

_NODE: Final = 96
"""Bytes of a tree's node beside its classes' shares, as it is fitted and as it is asked."""

_ASKED: Final = 4096
"""Queries that are shown to teachers at once, as float64 and float32."""

_DEEP: Final = 40
"""Depth of trees that have a leaf for each row, whatever they are."""

_POOLS: Final = 3
"""The life's rows, the next life's, and a copy while teachers are fitted."""

_SORTED: Final = 24
"""Bytes of a row's places while rows are dealt to teachers."""


def encoded_width(features: Sequence[Feature]) -> int:
    """Return how many numbers a learner is shown of a row, at most.

    >>> encoded_width([Feature(name="a"), Feature(name="b", categories=("x", "y"))])
    6
    """
    return sum(len(feature.categories or ()) + 2 for feature in features)


def kept_rows(features: Sequence[Feature], examples: int, rounds: int) -> int:
    """Return the slots of a pool: ten for each example, as memory allows, but as many as phase 1 has rounds.

    Args:
        features: Of the model.
        examples: n.
        rounds: t_1.
    """
    row = 8 * columns_of(features)[-1] + LABEL_BYTES
    return max(rounds, min(max(_TIMES * examples, _FEW), _ROWS_BYTES // row))


def phase_bytes(plan: EnsemblePlan, index: int) -> int:
    """Return the bytes of private arrays, teachers and noise tables that are held during a phase, at most.

    Teachers are counted as trees are, or whatever keeps its rows: a learner that grows beyond that takes more.
    """
    phase = plan.phases[index]
    most = max(plan.declared, phase.slots) if index == 0 else phase.slots
    pools = _POOLS * most * (8 * plan.width + LABEL_BYTES) + most * _SORTED
    teachers = 2 * plan.teachers * (_TEACHER + _grown(plan, math.ceil(most / plan.teachers)))
    asked = _ASKED * 12 * encoded_width(plan.features)
    tables = 32 * tail_reach(phase.slope) + 32 * round(128 / phase.stopper.epsilon)
    return pools + teachers + asked + tables


def _grown(plan: EnsemblePlan, rows: int) -> int:
    """Return the bytes by which a teacher grows with its rows: a tree's nodes, or the rows themselves."""
    node, shown = _NODE + 8 * len(plan.classes), 8 * encoded_width(plan.features)
    depth = plan.parameters.get("max_depth")
    if isinstance(depth, int) and depth > 0:
        return min(2 * rows, 1 << min(depth, _DEEP) + 1) * node
    return rows * max(2 * node, shown)
