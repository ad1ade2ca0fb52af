"""Where a shard stands, as a ledger event: public facts and the guarantee so far."""

from msgspec import UNSET

from oracle.accounting.ledger import ShardStarted, ShardStopped
from oracle.planning.plan import Plan
from oracle.predictors.base import PublicFacts

__all__ = ["standing"]


def standing(plan: Plan, version: str, facts: PublicFacts, *, started: bool) -> ShardStarted | ShardStopped:
    """Return the event of a shard's beginning (`started`) or end."""
    kind = ShardStarted if started else ShardStopped
    return kind(
        round=facts.round,
        phase=facts.phase,
        rearms=facts.rearms,
        epsilon=plan.epsilon,
        delta=plan.phases[facts.phase - 1].delta,
        delta_spent=plan.delta_spent(facts.phase, facts.phase_round),
        delta_limit=plan.delta,
        version=version,
        nominal=True if plan.nominal else UNSET,
    )
