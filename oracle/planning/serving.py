"""What a daemon that serves a plan takes in memory at most: what one batch may be, and how many are held at once.

Everything follows from the plan, whose limits bound a single message, and from settings left as they are. The factors
are counted from the code and measured with the worst input there is (`tests/runtime/test_peaks.py`).
"""

from typing import Final, NamedTuple

from oracle.planning.plan import SEGMENT_BYTES, Plan
from oracle.planning.questions import QuestionPlan

__all__ = ["BATCH_BYTES", "Serving", "least_bytes", "most_rows", "row_bytes", "serving"]

BATCH_BYTES: Final = 32 << 20
"""Most bytes of the rows of a batch; a message of more stands alone. Sources hand over far less than that at once."""

_MOST_NUMBERS: Final = 1 << 22
"""Numbers of the rows of one message of public questions. It decides what is a question, so it must stay as it is."""

_ANSWER_BYTES: Final = 64
"""What a row takes beside its numbers: label, value, round, phase, and its answer."""

_OFFSET: Final = 4
"""Bytes of a text of no bytes, and least of any, in an Arrow message; of any other value one is the least."""

_DAEMON: Final = 192 << 20
"""Of a process that has done nothing: the interpreter and its libraries."""

_BUS: Final = 128 << 20
"""What connectors hold: messages received and not journalled, answers not yet published, what is read at once."""

_RAW_COPIES: Final = 5
"""Messages as they came: fetched, being decoded (they are joined, and read), being answered, being committed."""

_ROW_COPIES: Final = 5
"""Rows: being decoded (a column, the whole, what is left of it), being answered."""

_STATE_COPIES: Final = 4
"""The state: in use, taken, encoded, sealed."""


class Serving(NamedTuple):
    """What serving one shard takes, in bytes, at most.

    Attributes:
        daemon: Of the daemon's process, with one shard.
        shard: What each further shard takes.
    """

    daemon: int
    shard: int


def row_bytes(plan: Plan) -> int:
    """Return what a row takes once it is decoded: D numbers, and what is said of it."""
    return 8 * plan.width + _ANSWER_BYTES


def least_bytes(plan: Plan) -> int:
    """Return the bytes that a row of plain columns has at least; public questions have no such messages."""
    return sum(_OFFSET if feature.kind in {"string", "category"} else 1 for feature in plan.features)


def most_rows(plan: Plan) -> int:
    """Return the most rows of a message.

    Of an Arrow message: as many as plain columns can have, as those of dictionaries, booleans and nulls are shorter;
    short strings are unpacked to long ones, so these count in full. Of a public question, which is short whatever its
    rows take.
    """
    if isinstance(plan, QuestionPlan):
        return max(min(plan.limits.rows, _MOST_NUMBERS // plan.width), 1)
    a_row = least_bytes(plan)
    if any(feature.kind == "string" for feature in plan.features):
        a_row = max(a_row, 8 * plan.width)
    return max(min(plan.limits.rows, plan.limits.batch_bytes // a_row), 1)


def serving(plan: Plan) -> Serving:
    """Return what a daemon takes that serves a plan, whatever it is asked.

    >>> from oracle.planning.model_file import parse_model
    >>> from oracle.planning.planner import plan_sufficient
    >>> table = {"name": "m", "predictor": "classical", "epsilon": 1.0, "examples": 10**6, "concept": "stump"}
    >>> plan = plan_sufficient(parse_model({"model": {**table, "features": [{"name": "a"}]}}))
    >>> serving(plan).daemon >> 20
    880
    """
    arrow = not isinstance(plan, QuestionPlan)
    rows = max(BATCH_BYTES, most_rows(plan) * row_bytes(plan))
    raw = max(BATCH_BYTES, plan.limits.batch_bytes if arrow else 0, plan.limits.body_bytes)
    held = plan.memory_bytes + plan.cache_bytes + SEGMENT_BYTES + rows // row_bytes(plan) * plan.waiting_bytes
    own = _BUS + _RAW_COPIES * raw + _ROW_COPIES * rows + _STATE_COPIES * plan.state_bytes + held
    return Serving(_DAEMON + own, own)
