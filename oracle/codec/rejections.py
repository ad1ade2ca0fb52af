"""Why a message is not a query: a closed vocabulary, and public.

A reason is told to the asker, the log, the metrics, the page and the dead letters; and as a rejected message takes no
round, the `round` of later answers shows whoever counts messages that one was invalid. So the validity of a message is
not protected, only what a valid query says (PRIVACY.md, Definition 1).
"""

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Reason", "Rejection"]


class Reason(StrEnum):
    """The reasons; append-only. Whatever is rejected takes no round and touches no state.

    But for `INTERNAL` where an answer could not be encoded: its round stands. `SKIPPED`: passed over by an operator.
    `OUTSIDE_DOMAIN`: a question about categories, ranges or thresholds that there are not. `UNKNOWN_SCHEMA`: a schema
    that its registry does not have; `UNFIT_SCHEMA`: one that lacks a feature, or gives it another type.
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
    OUTSIDE_DOMAIN = "outside-domain"
    UNKNOWN_SCHEMA = "unknown-schema"
    UNFIT_SCHEMA = "unfit-schema"


@dataclass(frozen=True, slots=True)
class Rejection:
    """One rejection.

    Attributes:
        field: What it is about, in the message's own terms ("x[1]", "id", "body"); for its asker only.
        bound: What would have been accepted; for its asker only.
    """

    reason: Reason
    field: str
    bound: str
