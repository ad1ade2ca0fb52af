"""Every error that Perpetua raises on purpose, in families by what the caller does about it.

No message ever carries a feature, a label, a depth, a count of private points or an object's repr of
private data: error texts end in logs, and logs are public (see ARCHITECTURE.md, "What may be seen").
"""

import difflib
from collections.abc import Iterable
from typing import Any

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
    "MovedError",
    "NewerVersionError",
    "PerpetuaError",
    "PlanError",
    "PlanExhaustedError",
    "RefusedError",
    "RejectedError",
    "ResourceError",
    "RetiredError",
    "SourceError",
    "StateBusyError",
    "StateError",
    "StorageError",
    "TruncatedSnapshotError",
    "UnansweredError",
    "WrongKeyError",
    "did_you_mean",
    "newer_version",
]


class PerpetuaError(Exception):
    """The root: catching it catches everything that Perpetua raises on purpose."""


class RefusedError(PerpetuaError):
    """The request is refused as it stands; change the input and try again."""


class InputError(RefusedError, ValueError):
    """A setting or argument is outside its bound.

    Args:
        field: The setting's name, as its user writes it.
        value: What was given; pass public values only. "..." for one that is not to be shown.
        bound: What would have been accepted, in words.
    """

    def __init__(self, field: str, value: object, bound: str) -> None:
        super().__init__(f"{field}{_shown(value)}: {bound}")
        self.field = field
        self.value = value
        self.bound = bound


def _shown(value: object) -> str:
    """Return a value as its user writes it, not as Python does."""
    if isinstance(value, str) and value == "...":
        return ""
    if value is None:
        return " is not set"
    return f" = {str(value).lower()}" if isinstance(value, bool) else f" = {value!r}"


class RejectedError(RefusedError):
    """A daemon's reply to a question is that it does not answer it; for its asker only.

    Attributes:
        reason: One of a closed vocabulary, such as "wrong-dimension" or "budget-spent".
        reply: All of the reply: its `field` and `bound`, where there are such, say what would have been accepted.
    """

    def __init__(self, reply: dict[str, Any]) -> None:
        self.reason = str(reply["error"])
        self.reply = reply
        about = "".join(f"; {reply[name]}" for name in ("field", "bound") if name in reply)
        super().__init__(f"rejected: {self.reason}{about}")


class DataError(RefusedError):
    """The labelled data cannot be used; the message names the column and the rule, never a value."""


class PlanError(RefusedError):
    """No plan meets the declared figures, or a plan is not consistent."""


class StateError(PerpetuaError):
    """The state folder cannot be used as it is; the daemon stops and needs an operator."""


class WrongKeyError(StateError):
    """The key does not belong to this snapshot."""


class CorruptSnapshotError(StateError):
    """The snapshot is damaged."""


class TruncatedSnapshotError(CorruptSnapshotError):
    """The snapshot ends before the length its header declares."""


class NewerVersionError(StateError):
    """A file of the state was written by a newer version of Perpetua."""


class ForeignPlanError(StateError):
    """The snapshot belongs to another plan."""


class ForeignShardError(StateError):
    """The snapshot belongs to another shard, or is a copy of another's: answering from it would reuse noise."""


class KeyFileError(StateError):
    """The key file is missing, malformed, or readable by others."""


class StateBusyError(StateError):
    """Another process holds the state folder."""


class MisplacedError(StateError):
    """The snapshot is ahead of the commits; the answers in between would be missing or given twice."""


class LogDivergedError(StateError):
    """The log is not the one that the state was built from; answering on would reuse noise."""


class PlanExhaustedError(StateError):
    """The last planned phase has ended; no further round can be answered under this plan."""


class RetiredError(StateError):
    """The model was retired: its keys are erased and it answers no more."""


class MovedError(StateError):
    """The model has left this topic or cluster for another; no copy of its state answers here."""


class MessageError(StateError):
    """A message cannot be processed for an unforeseen reason; `perpetua skip` skips it.

    Args:
        text: What to say, with the position.
        alone: Whether it is known which message it is; else it is one of several.
    """

    def __init__(self, text: str, *, alone: bool = True) -> None:
        super().__init__(text)
        self.alone = alone


class ResourceError(PerpetuaError):
    """Memory, threads or files ran out; what was committed stands, and a restart continues."""


class StorageError(PerpetuaError):
    """A file could not be written or read (disk full, permission); what was there before is untouched."""


class SourceError(PerpetuaError):
    """A source cannot deliver what was asked of it (position gone, file unreadable)."""


class LogCutError(LogDivergedError, SourceError):
    """The log ends before the position that was answered last: it was recreated or cut."""


class BusError(PerpetuaError):
    """The bus cannot be reached or refuses a request for now; what was committed stands, and a retry may help."""


class UnansweredError(BusError):
    """A question has no answer yet; to ask again would be another question, with a round and an epsilon of its own.

    Args:
        text: What is known of it.
        question: What can be waited for again; None if it was never sent.
    """

    def __init__(self, text: str, question: Any = None) -> None:  # noqa: ANN401 -- the client's, which is above
        super().__init__(text)
        self.question = question


class FencedError(BusError):
    """Another process has taken this shard over from our last commit; nothing of ours counts any more."""


def newer_version(version: int, highest: int) -> str:
    """Describe a file whose version is too new, and what to do.

    Args:
        version: The file's.
        highest: The highest version that is read.
    """
    return (
        f"version = {version}: this Perpetua reads versions up to {highest}; "
        "use the Perpetua that wrote it, or a newer one"
    )


def did_you_mean(given: object, known: Iterable[str], rest: str = "") -> str:
    """Return a hint for a misspelt name: the nearest known one, or nothing if none is near.

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
