"""What a shard says of where it stands, as a receipt has it."""

from oracle.accounting.ledger import ShardStarted, ShardStopped
from oracle.receipts.receipts import Statement

__all__ = ["standing_of"]


def standing_of(statement: Statement, kind: type[ShardStarted | ShardStopped]) -> ShardStarted | ShardStopped:
    """Return what a shard says that starts or stops after a statement's rounds."""
    line = statement.phases[-1]
    return kind(
        round=statement.round,
        phase=line.phase,
        rearms=statement.rearms,
        epsilon=line.epsilon,
        delta=line.delta,
        delta_spent=statement.delta_spent,
        delta_limit=statement.delta_limit,
        version="1",
    )
