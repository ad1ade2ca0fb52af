"""What every writer's schema comes to, whatever it is written in: a reader of its messages, or why there is none."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from oracle.codec.json.bodies import BAD_ID, Identifier
from oracle.codec.rejections import Reason, Rejection
from oracle.planning.features import Feature
from oracle.planning.plan import Plan

__all__ = ["NOT_ONE", "Read", "Reader", "UnfitError", "refuse_strangers", "refused_identifier"]

NOT_ONE: Final = Rejection(Reason.MALFORMED, "body", "one message as its schema has it, and nothing behind it")

_NUMBER_LIMIT: Final = 2**63


class Read(NamedTuple):
    """A message that was read.

    Attributes:
        values: Of each feature, as the library has it; None where there is none.
    """

    identifier: Identifier
    values: Sequence[object]


class Reader(Protocol):
    """Reads the messages of one writer's schema."""

    def read(self, payload: bytes) -> Read | Rejection:
        """Return a message, or why it is none."""


class UnfitError(Exception):
    """A writer's schema does not fit the model; `rejection` is what its messages get."""

    def __init__(self, bound: str, field: str = "schema") -> None:
        super().__init__(bound)
        self.rejection = Rejection(Reason.UNFIT_SCHEMA, field, bound)


def refuse_strangers(plan: Plan, fields: Sequence[str], given: Mapping[str, object]) -> None:
    """Refuse a schema without a feature that must be there, and one that has no feature of the model at all.

    Raises:
        UnfitError: It is such a schema.
    """
    for feature, field in zip(plan.features, fields, strict=True):
        if field not in given and not plan.takes_missing:
            raise UnfitError(_wanted(feature), field)
    if given.keys().isdisjoint(fields):
        raise UnfitError("at least one of the model's features")


def _wanted(feature: Feature) -> str:
    return f"a field for {feature.accepts}"


def refused_identifier(identifier: object, longest: int) -> Rejection | None:
    """Return why an id is none; `longest` is the most bytes of a text."""
    if isinstance(identifier, str):
        # No character takes more than four bytes.
        if 4 * len(identifier) > longest and len(identifier.encode()) > longest:
            return Rejection(Reason.BAD_ID, "id", f"at most {longest} bytes of UTF-8")
        return None
    if identifier is None or (type(identifier) is int and -_NUMBER_LIMIT <= identifier < _NUMBER_LIMIT):
        return None
    return BAD_ID
