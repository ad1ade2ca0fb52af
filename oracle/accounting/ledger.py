"""Public ledger events: what happened, when (in rounds), and the guarantee it stands under.

Evolution policy: kinds are never removed, fields are never re-used, new fields have defaults, and the meaning of a
field never changes. A reader that meets an unknown kind must refuse, not guess.
"""

import msgspec

__all__ = ["LedgerEvent", "PhaseEnded", "PhaseStarted", "PlanEnded", "SideRearmed", "decode", "encode"]


class PhaseStarted(msgspec.Struct, frozen=True, tag_field="kind", tag="phase-started"):
    """A phase began.

    Attributes:
        round: First global round of the phase.
        phase: Its number, from 1.
        rounds: How many rounds it lasts.
        epsilon: Per-record epsilon of every record of the phase (nats).
        delta: Per-record delta of every record of the phase.
        delta_spent: Sum of delta over the training records and all rounds before this phase.
    """

    round: int
    phase: int
    rounds: int
    epsilon: float
    delta: float
    delta_spent: float


class PhaseEnded(msgspec.Struct, frozen=True, tag_field="kind", tag="phase-ended"):
    """A phase ended; its key is ratcheted away.

    Attributes:
        round: First global round that does not belong to it any more.
        phase: Its number.
        rearms: Times that a side was armed afresh in it.
    """

    round: int
    phase: int
    rearms: int


class SideRearmed(msgspec.Struct, frozen=True, tag_field="kind", tag="side-rearmed"):
    """A side's Stopper halted, and the side was armed afresh from the queries it had collected.

    Attributes:
        round: The round before whose query it happened.
        phase: The phase.
        side: The side's number in the plan's order.
    """

    round: int
    phase: int
    side: int


class PlanEnded(msgspec.Struct, frozen=True, tag_field="kind", tag="plan-ended"):
    """The last planned phase is over.

    Attributes:
        round: Rounds answered in all.
    """

    round: int


LedgerEvent = PhaseStarted | PhaseEnded | SideRearmed | PlanEnded


def encode(event: LedgerEvent) -> bytes:
    """Encode one event as one line of JSON, without the line feed.

    >>> encode(SideRearmed(round=7, phase=1, side=2))
    b'{"kind":"side-rearmed","round":7,"phase":1,"side":2}'
    """
    return msgspec.json.encode(event)


def decode(line: bytes) -> LedgerEvent:
    """Decode one event; an unknown kind is refused.

    Raises:
        msgspec.ValidationError: The kind is unknown or a field has the wrong type.
    """
    event: LedgerEvent = msgspec.json.decode(line, type=LedgerEvent)
    return event
