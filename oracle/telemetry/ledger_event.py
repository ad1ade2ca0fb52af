"""Where a shard stands, as a ledger event: public facts and the guarantee so far."""

from msgspec import UNSET

from oracle.accounting.ledger import ShardStarted, ShardStopped
from oracle.telemetry.records import ShardTelemetry

__all__ = ["shard_event"]


def shard_event(
    version: str, record: ShardTelemetry, *, started: bool, begins: int | None = None, stops: int | None = None
) -> ShardStarted | ShardStopped:
    """Return the event of a shard's beginning (`started`) or end; on Kafka with the offsets it has its queries from."""
    kind = ShardStarted if started else ShardStopped
    return kind(
        round=record.round,
        phase=record.phase,
        rearms=record.rearms,
        epsilon=record.epsilon,
        delta=record.delta,
        delta_spent=record.delta_spent,
        delta_limit=record.delta_limit,
        version=version,
        nominal=True if record.nominal else UNSET,
        covers=UNSET if record.protects_queries else "training",
        begins=UNSET if begins is None else begins,
        stops=UNSET if stops is None else stops,
        paid=UNSET if record.paid_limit is None else record.paid,
    )
