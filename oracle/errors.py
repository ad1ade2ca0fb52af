"""Every error that Perpetua raises on purpose, in families by what the caller does about it.

No message ever carries a feature, a label, a depth, a count of private points or an object's repr of
private data: error texts end in logs, and logs are public (see ARCHITECTURE.md, "What may be seen").
"""

import difflib
from collections.abc import Iterable

__all__ = [
    "BusError",
    "CorruptSnapshotError",
    "DataError",
    "FencedError",
    "ForeignPlanError",
    "InputError",
    "KeyFileError",
    "LogCutError",
    "LogDivergedError",
    "MessageError",
    "MisplacedError",
    "NewerVersionError",
    "PerpetuaError",
    "PlanError",
    "PlanExhaustedError",
    "RefusedError",
    "ResourceError",
    "RetiredError",
    "SourceError",
    "StateBusyError",
    "StateError",
    "StorageError",
    "TruncatedSnapshotError",
    "WrongKeyError",
    "beyond_us",
    "did_you_mean",
]


class PerpetuaError(Exception):
    """The root: catching it catches everything that Perpetua raises on purpose."""


class RefusedError(PerpetuaError):
    """What was asked is refused as it stands; change the input and ask again."""


class InputError(RefusedError, ValueError):
    """A setting or argument is outside its bound.

    Args:
        field: The setting's name, as its user writes it.
        value: What was given; pass public values only.
        bound: What would have been accepted, in words.
    """

    def __init__(self, field: str, value: object, bound: str) -> None:
        super().__init__(f"{field} {_shown(value)}: {bound}")
        self.field = field
        self.value = value
        self.bound = bound


def _shown(value: object) -> str:
    """Return a value as its user writes it, not as Python does."""
    if value is None:
        return "is not set"
    return f"= {str(value).lower()}" if isinstance(value, bool) else f"= {value!r}"


class DataError(RefusedError):
    """The labelled data cannot be used; the message names the column and the rule, never a value."""


class PlanError(RefusedError):
    """No plan meets the declared figures, or a plan is not consistent."""


class StateError(PerpetuaError):
    """The state folder cannot be used as it is; the daemon stops and an operator looks."""


class WrongKeyError(StateError):
    """The key does not belong to this snapshot."""


class CorruptSnapshotError(StateError):
    """The snapshot's bytes are not the ones that were written."""


class TruncatedSnapshotError(CorruptSnapshotError):
    """The snapshot ends before the length its header declares."""


class NewerVersionError(StateError):
    """A file of the state was written by a newer version of Perpetua."""


class ForeignPlanError(StateError):
    """The snapshot belongs to another plan than the one at hand."""


class ForeignShardError(StateError):
    """The snapshot belongs to another shard, or is a copy of another's: answering from it would reuse noise."""


class KeyFileError(StateError):
    """The key file is missing, malformed, or readable by others."""


class StateBusyError(StateError):
    """Another process holds the state folder."""


class MisplacedError(StateError):
    """The snapshot is ahead of what was committed; the answers in between would be missing, or given twice."""


class LogDivergedError(StateError):
    """The log is not the one that the state was built from; answering on would reuse noise."""


class PlanExhaustedError(StateError):
    """The last planned phase has ended; no further round can be answered under this plan."""


class RetiredError(StateError):
    """The model was retired: its keys were erased, and it answers no more."""


class MessageError(StateError):
    """A message cannot be processed, for a reason that nobody foresaw; `perpetua skip` passes it over.

    Args:
        text: What to say, with the position.
        alone: Whether it is known which message it is; else it is one of several.
    """

    def __init__(self, text: str, *, alone: bool = True) -> None:
        super().__init__(text)
        self.alone = alone


class ResourceError(PerpetuaError):
    """Memory, threads or files ran out while messages were processed; what was committed stands, a restart goes on."""


class StorageError(PerpetuaError):
    """A file could not be written or read (disk full, permission); what was there before is untouched."""


class SourceError(PerpetuaError):
    """A source cannot deliver what was asked of it (position gone, file unreadable)."""


class LogCutError(LogDivergedError, SourceError):
    """The log ends before a place that it was answered up to: it was made anew, or cut."""


class BusError(PerpetuaError):
    """The bus cannot be reached, or does not do as asked just now; what was committed stands, and it may pass."""


class FencedError(BusError):
    """Another process has taken this shard over; it goes on from our last commit, and nothing of ours counts now."""


def beyond_us(version: int, highest: int) -> str:
    """Return what to say of a file of a version that this Perpetua does not know, and what to do.

    Args:
        version: The file's.
        highest: The highest version that is read.
    """
    return (
        f"version = {version}: this Perpetua reads versions up to {highest}; "
        "use the Perpetua that wrote it, or a newer one"
    )


def did_you_mean(given: object, known: Iterable[str], rest: str = "") -> str:
    """Return what to add to a refusal of a misspelt name: the one that is nearest, or nothing if none is near.

    Args:
        given: What was written.
        known: What could have been.
        rest: What follows the name in either case.

    >>> did_you_mean("Rectangle", ["stumps", "rectangles"])
    '; did you mean rectangles?'
    >>> did_you_mean("forest", ["stumps", "rectangles"])
    ''
    """
    names = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(str(given).casefold(), names, n=1)
    return f"; did you mean {names[near[0]]}{rest}?" if near else ""
