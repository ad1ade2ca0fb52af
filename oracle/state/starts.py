"""The ledger of checked starts, beside the state folder of `init`: what each try has released.

It holds what was released only (`StartChecked`), and stays where no state was made: what was spent is spent.
"""

import os
import secrets
from pathlib import Path
from typing import Final

from msgspec import UNSET

from oracle import durable
from oracle.accounting.ledger import StartChecked
from oracle.errors import StorageError
from oracle.planning.guarantees import released_guarantee
from oracle.planning.plan import BoxPlan, Plan
from oracle.state.event_lines import record_event

__all__ = ["record_start", "start_event", "starts_path"]

_START_BYTES: Final = 16


def start_event(plan: Plan, shard: int, beyond: int | None) -> StartChecked | None:
    """Return the event of what a shard's trainer released of its sides' points; None if the plan has no such check.

    Args:
        plan: The plan.
        shard: The shard's number.
        beyond: By how many points the side that holds the least exceeds what it needs, with noise (`points_beyond`).
    """
    if beyond is None or not isinstance(plan, BoxPlan) or plan.check is UNSET:
        return None
    check, cost = plan.check, released_guarantee(plan)
    return StartChecked(
        round=0,
        model=plan.name,
        shard=shard,
        beyond=beyond,
        least=check.margin,
        noise=check.epsilon,
        passed=beyond >= check.margin,
        epsilon=cost.epsilon,
        delta=cost.delta,
        data=plan.data,
        start=secrets.token_hex(_START_BYTES),
    )


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
