"""The ledger event of a shard that starts or stops, from a receipt."""

from oracle.accounting.ledger import ModelRetired, ShardStarted, ShardStopped
from oracle.receipts.receipts import Statement


def lifecycle_event(
    statement: Statement, kind: type[ShardStarted | ShardStopped | ModelRetired]
) -> ShardStarted | ShardStopped | ModelRetired:
    """Return the event of a shard that starts or stops after a statement's rounds."""
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
