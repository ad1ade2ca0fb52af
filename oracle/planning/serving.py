"""What a daemon that serves a plan takes in memory at most: what one batch may be, and how many are held at once.

Everything follows from the plan, whose limits bound a single message, and from settings left as they are.
"""

from typing import Final

from oracle.planning.plan import Plan

__all__ = ["BATCH_BYTES", "DELIVERY_BYTES", "densest", "most_rows"]

BATCH_BYTES: Final = 32 << 20
"""Most bytes of the rows of a batch, and most of its messages as they came; a message that is larger stands alone."""

DELIVERY_BYTES: Final = 256
"""What a message takes beside its bytes, and a header: the objects that it is held in, and its answer."""

_OFFSET: Final = 4
"""Bytes of a string of no bytes, and least of any, in an Arrow message; of any other value one is the least."""


def densest(plan: Plan) -> int:
    """Return how many bytes the rows of an Arrow message are unpacked to, at most, for each of its bytes."""
    least = sum(_OFFSET if feature.kind == "string" else 1 for feature in plan.features)
    return -(-8 * plan.width // least)


def most_rows(plan: Plan) -> int:
    """Return the most rows of an Arrow message: short strings are unpacked to long ones, so these count in full."""
    if all(feature.kind != "string" for feature in plan.features):
        return plan.limits.rows
    return max(min(plan.limits.rows, plan.limits.batch_bytes // (8 * plan.width)), 1)
