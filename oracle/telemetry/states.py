"""What a shard is doing, and how each thing that happens to it changes that: the one place that knows.

Three things are apart from each other. A daemon's run goes from restoring to serving to its end. A bus whose link lasts
longer than anything on it (MQTT) is lost and found while the run goes on; on Kafka a lost bus ends the run. And
snapshots fail and succeed while queries are answered.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, StrEnum, auto
from types import MappingProxyType
from typing import Any, Final

__all__ = ["Event", "Lifecycle", "State"]


class State(StrEnum):
    """What a shard is doing; append-only.

    `WAITING`: it is ours, and has not begun, or waits for the bus to come back. `RESTORING`: from its snapshot up to
    its last commit. `FENCED`: another process has taken it over. `FAILED`: it cannot go on without an operator.
    `DEGRADED`: it answers, but cannot write its snapshots. `REFUSED`: the broker does not let us in any more; it is
    tried again, and only an operator can mend it. `PAUSED`: it would answer, and an operator has it wait.
    """

    WAITING = "waiting"
    RESTORING = "restoring"
    SERVING = "serving"
    FENCED = "fenced"
    FAILED = "failed"
    STOPPED = "stopped"
    DEGRADED = "degraded"
    REFUSED = "refused"
    PAUSED = "paused"


class Event(Enum):
    """What happens to a shard.

    Of its run: `ASSIGNED`, `RESTORING`, `RESTORED`, `SERVING`, `BUS_FAILED` (which ends the run, to be begun again),
    `FENCED`, `FAILED`, `STOPPED`, `REVOKED`. Of a link that outlasts its losses: `LINK_AWAITED`, `LINK_LOST`,
    `LINK_REFUSED`, `LINK_FOUND`. Of snapshots: `UNSAVED`, `SAVED`; of their folder: `UNWRITABLE`, `WRITABLE`. Of an
    operator: `PAUSED`, `RESUMED`.
    """

    ASSIGNED = auto()
    RESTORING = auto()
    RESTORED = auto()
    SERVING = auto()
    BUS_FAILED = auto()
    FENCED = auto()
    FAILED = auto()
    STOPPED = auto()
    REVOKED = auto()
    LINK_AWAITED = auto()
    LINK_LOST = auto()
    LINK_REFUSED = auto()
    LINK_FOUND = auto()
    UNSAVED = auto()
    SAVED = auto()
    UNWRITABLE = auto()
    WRITABLE = auto()
    PAUSED = auto()
    RESUMED = auto()


_CHANGES: Final[Mapping[Event, Mapping[str, Any]]] = MappingProxyType(
    {
        Event.ASSIGNED: {"run": State.WAITING, "restored": False},
        Event.RESTORING: {"run": State.RESTORING, "restored": False, "paused": False},
        Event.RESTORED: {"restored": True},
        Event.SERVING: {"run": State.SERVING},
        Event.BUS_FAILED: {"run": State.WAITING, "restored": False},
        Event.FENCED: {"run": State.FENCED, "restored": False},
        Event.FAILED: {"run": State.FAILED, "restored": False},
        Event.STOPPED: {"run": State.STOPPED},
        Event.REVOKED: {"run": State.STOPPED, "restored": False},
        Event.LINK_AWAITED: {"link": State.WAITING},
        Event.LINK_LOST: {"link": State.WAITING},
        Event.LINK_REFUSED: {"link": State.REFUSED},
        Event.LINK_FOUND: {"link": None},
        Event.UNSAVED: {"unsaved": True},
        Event.SAVED: {"unsaved": False},
        Event.UNWRITABLE: {"unwritable": True},
        Event.WRITABLE: {"unwritable": False},
        Event.PAUSED: {"paused": True},
        Event.RESUMED: {"paused": False},
    }
)
_BEGINS: Final = frozenset({Event.ASSIGNED, Event.RESTORING, Event.REVOKED})
"""What can happen to a run that has failed; all else of it comes late."""


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """Where a shard stands.

    Attributes:
        run: Of its daemon.
        restored: Whether it is where its commits are.
        link: What a run that serves does instead while the bus is away (waiting, refused); None while it is there.
        unsaved: Whether the last snapshot that was tried could not be written.
        unwritable: Whether the folder of its snapshots cannot be written now.
        paused: Whether a run that serves waits because an operator wants it to.
    """

    run: State = State.WAITING
    restored: bool = False
    link: State | None = None
    unsaved: bool = False
    unwritable: bool = False
    paused: bool = False

    @property
    def state(self) -> State:
        """What the shard is doing."""
        if self.run is not State.SERVING:
            return self.run
        if self.link is not None:
            return self.link
        if self.paused:
            return State.PAUSED
        return State.DEGRADED if self.unsaved or self.unwritable else State.SERVING

    def after(self, event: Event) -> "Lifecycle":
        """Return where it stands after something has happened."""
        changes = _CHANGES[event]
        if self.run is State.FAILED and event not in _BEGINS and not changes.keys().isdisjoint({"run", "restored"}):
            return self
        return replace(self, **changes)
