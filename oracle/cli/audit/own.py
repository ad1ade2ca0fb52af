"""`perpetua audit --plan` and `--state`: somebody's own plan and state, beside what is due."""

from collections.abc import Iterator
from pathlib import Path

from oracle import durable
from oracle.audit.findings import Check
from oracle.cli.states import newest_snapshot, state_plan
from oracle.errors import InputError, StorageError
from oracle.planning.kinds import decode_plan
from oracle.planning.plan import Plan
from oracle.state.shards import shard_folders

__all__ = ["audit_own"]


def audit_own(plan_file: Path | None, state: Path | None, key: Path | None) -> Iterator[Check]:
    """Yield what both accountants say of a plan, and what a state's live objects are.

    Args:
        plan_file: A plan as JSON: a state's plan.json, or what `perpetua plan --json` prints.
        state: A state folder, which is read and not held.
        key: Its key file; None for the one in it.

    Raises:
        InputError: A key is given without a state.
        StorageError: The plan cannot be read.
    """
    from oracle.audit.due.plan import audit_plan
    from oracle.audit.due.state import audit_state

    if key is not None and state is None:
        raise InputError("--key", str(key), "must go with --state")
    if plan_file is not None:
        yield from audit_plan(_read(plan_file))
    if state is None:
        return
    shards = shard_folders(state)
    audited: set[bytes] = set()
    for number, shard in enumerate(shards):
        plan = state_plan(shard)
        if plan.digest not in audited:  # mostly all shards have the same one
            yield from audit_plan(plan)
            audited.add(plan.digest)
        snapshot, _ = newest_snapshot(shard, key or state / "key", plan)
        yield from audit_state(plan, snapshot, "state" if len(shards) == 1 else f"shard {number}")


def _read(path: Path) -> Plan:
    try:
        return decode_plan(durable.read(path))
    except OSError as exc:
        raise StorageError(f"{path}: cannot be read: {exc.strerror}") from exc
