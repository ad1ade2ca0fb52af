"""Why a message is not a query: a closed vocabulary, told to its asker and nobody else."""

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Reason", "Rejection"]


class Reason(StrEnum):
    """The reasons; append-only. Whatever is rejected takes no round and touches no state.

    But for `INTERNAL` where an answer could not be encoded: its round stands. `SKIPPED`: passed over by an operator.
    """

    OVERSIZED = "oversized"
    NOT_UTF8 = "not-utf8"
    MALFORMED = "malformed"
    WRONG_TYPE = "wrong-type"
    MISSING_FEATURE = "missing-feature"
    UNKNOWN_FEATURE = "unknown-feature"
    WRONG_DIMENSION = "wrong-dimension"
    NOT_FINITE = "not-finite"
    BAD_ID = "bad-id"
    TOO_MANY_ROWS = "too-many-rows"
    UNSUPPORTED_CONTENT = "unsupported-content"
    RETAINED = "retained"
    INTERNAL = "internal"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Rejection:
    """One rejection.

    Attributes:
        reason: The reason.
        field: What it is about, in the message's own terms ("x[1]", "id", "body").
        bound: What would have been accepted.
    """

    reason: Reason
    field: str
    bound: str
