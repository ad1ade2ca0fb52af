"""`perpetua status`: what anyone may know about a state folder, without its key."""

import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from oracle.errors import StateError
from oracle.planning.plan import Plan
from oracle.state.folder import peek_folder, read_plan
from oracle.state.forks import read_forks

__all__ = ["Status", "public_status", "run"]

_PRIVACY = ("epsilon", "delta")


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """Public facts as of the newest snapshot.

    Attributes:
        model: The model's name.
        profile: Its profile.
        proved: False where epsilon and the deltas are nominal (the `paper` profile).
        round: Rounds answered.
        phase: Current phase.
        phase_rounds_left: Rounds left in it.
        rearms: Times that any side was armed afresh.
        epsilon: Per-record epsilon.
        delta: Per-record delta of the current phase.
        delta_spent: Sum of delta over the training set and all rounds so far.
        delta_limit: Its bound for ever, without forks.
        forks: Times that `perpetua replay` answered another log from this folder.
        epsilon_with_forks: Epsilon of a record that the snapshots of all of these held, all runs together; forks of the
            genesis file or of a copy are recorded beside those, and add up too.
        delta_of_forks: Bound on the sum of delta that these cost the records that their snapshots held.
        snapshot_bytes: Size of the newest snapshot.
        snapshot_age_seconds: Its age.
    """

    model: str
    profile: str
    proved: bool
    round: int
    phase: int
    phase_rounds_left: int
    rearms: int
    epsilon: float
    delta: float
    delta_spent: float
    delta_limit: float
    forks: int
    epsilon_with_forks: float
    delta_of_forks: float
    snapshot_bytes: int
    snapshot_age_seconds: float


def run(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The state folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print a state's public facts, as of its newest snapshot. Needs no key."""
    status = public_status(folder)
    if as_json:
        typer.echo(msgspec.json.encode(status))
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in msgspec.structs.asdict(status).items():
        nominal = " (nominal)" if name.startswith(_PRIVACY) and not status.proved else ""
        table.add_row(name.replace("_", " "), _shown(value) + nominal)
    Console(soft_wrap=True).print(table)


def _shown(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.6g}"
        case _:
            return str(value)


def public_status(folder: Path) -> Status:
    """Read the public facts of a state folder.

    Raises:
        StateError: There is no state, or it is damaged.
    """
    header, data = peek_folder(folder), read_plan(folder)
    if header is None or data is None:
        msg = f"{folder}: holds no state; make one with `perpetua init`"
        raise StateError(msg)
    plan = Plan.decode(data)
    before = plan.phases[: header.phase - 1]
    current = plan.phases[header.phase - 1]
    in_phase = header.round - sum(phase.rounds for phase in before)
    spent = plan.declared * plan.phases[0].delta
    spent += sum(phase.rounds * phase.delta for phase in before) + in_phase * current.delta
    forks = read_forks(folder)
    written = max((_modified(path) for path in folder.glob("snapshot-*.perp")), default=0.0)
    return Status(
        model=plan.name,
        profile=plan.profile,
        proved=not plan.nominal,
        round=header.round,
        phase=header.phase,
        phase_rounds_left=current.rounds - in_phase,
        rearms=header.rearms,
        epsilon=plan.epsilon,
        delta=current.delta,
        delta_spent=spent,
        delta_limit=plan.delta,
        forks=len(forks),
        epsilon_with_forks=plan.epsilon + sum(fork.epsilon for fork in forks),
        delta_of_forks=sum(fork.delta_sum for fork in forks),
        snapshot_bytes=header.total_bytes,
        snapshot_age_seconds=max(time.time() - written, 0.0),
    )


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # a newer snapshot has just taken its place
        return 0.0
