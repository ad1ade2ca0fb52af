"""The ledger of checked starts, beside the state folder of `init`: what each try has released.

It holds what was released only (`StartChecked`), and stays where no state was made: what was spent is spent.
"""

import os
import secrets
from pathlib import Path
from typing import Final

from msgspec import UNSET

from oracle import durable
from oracle.accounting.accountant import Guarantee
from oracle.accounting.ledger import StartChecked
from oracle.errors import StorageError
from oracle.planning.ensemble.guarantees import shares_guarantee
from oracle.planning.ensemble.model import EnsemblePlan
from oracle.planning.guarantees import released_guarantee
from oracle.planning.plan import BoxPlan, Plan
from oracle.state.event_lines import record_event

__all__ = ["record_start", "start_event", "starts_path"]

_START_BYTES: Final = 16


def start_event(plan: Plan, shard: int, beyond: int | None) -> StartChecked | None:
    """Return the event of what a shard's trainer released of its rows before a state; None if its plan checks none.

    Args:
        plan: The plan.
        shard: The shard's number.
        beyond: By how many points the side that holds the least, or by how many rows the rarest class, exceeds what it
            needs, with noise (`points_beyond`).
    """
    rule = _rule(plan)
    if beyond is None or rule is None:
        return None
    least, noise, cost = rule
    return StartChecked(
        round=0,
        model=plan.name,
        shard=shard,
        beyond=beyond,
        least=least,
        noise=noise,
        passed=beyond >= least,
        epsilon=cost.epsilon,
        delta=cost.delta,
        data=plan.data,
        start=secrets.token_hex(_START_BYTES),
    )


def _rule(plan: Plan) -> tuple[int, float, Guarantee] | None:
    """Return what has to be exceeded by how much, the noise's inverse scale, and what a row pays for what is told."""
    if isinstance(plan, BoxPlan) and plan.check is not UNSET:
        return plan.check.margin, plan.check.epsilon, released_guarantee(plan)
    if isinstance(plan, EnsemblePlan) and plan.share_slope is not UNSET:
        cost = shares_guarantee(plan)
        return None if cost is None else (0, plan.share_slope, cost)
    return None


def starts_path(state: Path) -> Path:
    """Return the path of the starts' ledger of a state folder, with links resolved."""
    whole = state.resolve()
    return whole.with_name(whole.name + ".starts.jsonl")


def record_start(state: Path, event: StartChecked) -> None:
    """Append a start durably, before anything of it is shown.

    Raises:
        StateError: What is recorded already cannot be understood.
        StorageError: It could not be written; then nothing was recorded.
    """
    path = starts_path(state)
    try:
        durable.make_folder(path.parent, parents=True)
        os.close(durable.open_lasting(path, os.O_NOFOLLOW))  # no link leads elsewhere
    except OSError as exc:
        raise StorageError(f"{path}: cannot be written, so nothing was shown: {exc.strerror}") from exc
    record_event(path, StartChecked, lambda _number: event, "start", "shown")
