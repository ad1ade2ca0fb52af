"""Ledgers as receipts are checked against them: read from a file or from what a bus delivered."""

from pathlib import Path

import msgspec

from oracle.accounting.ledger import LedgerEvent, PhaseEnded, PhaseStarted, SideRearmed, decode
from oracle.audit.receipts import Statement
from oracle.errors import InputError, StorageError

__all__ = ["against_ledger", "read_ledger"]


def read_ledger(path: Path, shard: str | None = None) -> list[LedgerEvent]:
    """Return the events of a ledger, as a file has them or as they came from a bus.

    A line is an event, or, of a Kafka topic, a key (query topic/partition/...), a tab and an event.

    Args:
        path: The file.
        shard: "TOPIC/PARTITION", of which to take the events alone where there are keys.

    Raises:
        StorageError: It cannot be read.
        InputError: A line is no event that this Perpetua knows, or the shard is not named and there are several.
    """
    try:
        lines = [line for line in path.read_bytes().splitlines() if line]
    except OSError as exc:
        raise StorageError(f"{path}: {exc.strerror}") from exc
    keyed = [(b"/".join(key.split(b"/")[:2]).decode(errors="replace"), event) for key, event in map(_keyed, lines)]
    shards = sorted({name for name, _ in keyed})
    if shard is not None and shards and shard not in shards:
        raise InputError(
            "ledger shard", shard, f"must be one of {', '.join(name or 'lines with a key' for name in shards)}"
        )
    if shard is None and len(shards) > 1:
        raise InputError("ledger", str(path), f"has events of {', '.join(shards)}: say of which shard they are to be")
    try:
        return [decode(event) for name, event in keyed if shard in {None, name}]
    except msgspec.MsgspecError as exc:
        raise InputError("ledger", str(path), "must be a ledger of Perpetua") from exc


def _keyed(line: bytes) -> tuple[bytes, bytes]:
    key, _, event = line.rpartition(b"\t")
    return key, event


def against_ledger(statement: Statement, events: list[LedgerEvent]) -> list[str]:
    """Return where a statement and a ledger disagree, in words; what is said of later rounds does not matter.

    Nor does what is said twice: MQTT delivers at least once.
    """
    wrong = []
    started = {event.phase: event for event in events if isinstance(event, PhaseStarted)}
    ended = {event.phase: event for event in events if isinstance(event, PhaseEnded)}
    for line in statement.phases:
        event = started.get(line.phase)
        if event is None and line.answered:
            wrong.append(f"phase {line.phase}: the ledger does not know it")
        elif event is not None:
            told = (event.round, event.rounds, event.epsilon, event.delta)
            if told != (line.first_round, line.rounds, line.epsilon, line.delta):
                wrong.append(f"phase {line.phase}: the ledger has other rounds, epsilon or delta")
        end = ended.get(line.phase)
        if line.answered == line.rounds and (end is None or end.round != line.first_round + line.rounds):
            wrong.append(f"phase {line.phase}: the ledger does not say that it ended")
    rearms = len({event for event in events if isinstance(event, SideRearmed) and event.round < statement.round})
    if rearms != statement.rearms:
        wrong.append(f"the ledger has {rearms} re-arms before round {statement.round}, the receipt {statement.rearms}")
    return wrong
