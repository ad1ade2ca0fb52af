"""Whether a Parquet or Arrow file holds queries at all, found out before any of them is answered."""

from dataclasses import dataclass
from pathlib import Path

from connectors.local.parquet_source import empty_message
from oracle.codec.arrow.messages import ArrowCodec
from oracle.codec.rejections import Rejection
from oracle.errors import InputError
from oracle.planning.plan import Plan
from oracle.planning.questions import QuestionPlan

__all__ = ["MessageSettings", "check_messages"]


@dataclass(frozen=True, slots=True)
class MessageSettings:
    """What the user calls the settings that a refusal names."""

    path: str = "source.path"
    rows: str = "source.rows_per_message"


def check_messages(plan: Plan, path: Path, rows_per_message: int, names: MessageSettings) -> None:
    """Refuse a file whose every message would be rejected: for its rows, or for the names or types of its columns.

    Raises:
        InputError: It is one.
        SourceError: It cannot be read.
    """
    if isinstance(plan, QuestionPlan):
        raise InputError(names.path, str(path), "must be JSON Lines: public questions are JSON only")
    if rows_per_message > plan.limits.rows:
        bound = f"must be at most {plan.limits.rows:,}, the plan's limit on the rows of a message"
        raise InputError(names.rows, rows_per_message, bound)
    outcome = ArrowCodec(plan).decode(empty_message(path))
    if isinstance(outcome, Rejection):
        needed = f"{outcome.field}: must be {outcome.bound}"
        raise InputError(names.path, str(path), f"every message would be rejected ({outcome.reason}): {needed}")
