"""Passing over one message that stops a shard: one commit that names it, where the shard stands.

The commit says nothing but that the message takes no round. The daemon finds it there, on any host and bus, with any
copy of the state, and then rejects the message as it rejects others: reply, dead letter and ledger event leave with the
commit that has the message behind it. So a kill between any two steps leaves the message named, or not.
"""

from typing import Final

from connectors.base import Commit, Committed, Deliveries, Replies, Sink, Source
from oracle.errors import InputError, StateError
from oracle.runtime.marks import CommitMark
from oracle.runtime.recovery import check_order
from oracle.state.format import Snapshot

__all__ = ["check_message", "describe_position", "skip_message"]

_WAIT: Final = 30.0
"""Seconds to wait for the message."""


async def check_message(snapshot: Snapshot, source: Source | None, committed: Committed | None, position: int) -> None:
    """Refuse what `skip_message` would, as far as can be seen while nothing is opened for writing and nobody fenced."""
    try:
        await _passing(snapshot, source, committed, position)
    finally:
        if source is not None:
            await source.close()


async def skip_message(snapshot: Snapshot, source: Source | None, sink: Sink, position: int) -> None:
    """Commit that the next message, which ends at `position`, takes no round; source and sink are not yet open.

    Raises:
        InputError: The message is not the next one; it was answered, or others come before it.
        StateError: The snapshot does not go with the sink, answers may have left that were not committed, or as many
            messages as a commit can name were passed over before.
        SourceError: The stream cannot be read.
        StorageError: It could not be committed.
        BusError: The bus does not answer; it may or may not stand.
    """
    committed = await sink.open()
    try:
        if sink.in_doubt is not None:
            raise StateError(
                f"sink: answers up to position {sink.in_doubt.position} may have left and are not committed; start "
                "`perpetua serve` on the same stream first, which gives them again and then stops at the message"
            )
        stands, mark = await _passing(snapshot, source, committed, position)
        # before the source is closed: it says what it has read
        await sink.commit(Commit(Replies(), [], stands, mark.pack()))
    finally:
        try:
            if source is not None:
                await source.close()
        finally:
            await sink.close()


def describe_position(position: int, behind: Deliveries) -> str:
    """Return in words where a shard's last commit is, and the first of the messages behind it."""
    return f"last commit is at position {position}; the next message ends at {behind.positions[0]}"


async def _passing(
    snapshot: Snapshot, source: Source | None, committed: Committed | None, position: int
) -> tuple[int, CommitMark]:
    """Return where the shard stands, and what is committed there to pass the message over. The source stays open."""
    check_order(snapshot, committed)
    stands = snapshot.position if committed is None else committed.position
    mark = CommitMark(snapshot.round, snapshot.tag) if committed is None else CommitMark.unpack(committed.metadata)
    if position in mark.passed.skipped and position <= stands:
        raise InputError("--position", position, "that message was passed over before; nothing is left to do")
    if position <= stands:
        raise InputError(
            "--position",
            position,
            f"must be above {stands}: the last commit is there, and what was answered cannot be passed over",
        )
    following = await _next(source, stands)
    if following != position:
        after = "there is no message after it" if following is None else f"the next message ends at {following}"
        raise InputError("--position", position, f"the shard stands at position {stands}, and {after}")
    return stands, mark._replace(passed=mark.passed.and_skipped(position))


async def _next(source: Source | None, stands: int) -> int | None:
    """Return where the first message behind a position ends; None if there is none. The source stays open."""
    if source is None:
        return stands + 1
    await source.open(stands or None)
    found = await source.fetch(1, _WAIT)
    return found.positions[0] if found else None
