"""`perpetua status`: what anyone may know about a state, of one shard or many, without its key."""

import math
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from oracle.cli.plan_page import ABOUT_REARMS, Row, glossary, promise_rows
from oracle.errors import StateError
from oracle.planning.kinds import decode_plan
from oracle.planning.plan import Plan
from oracle.planning.promise import Promise, promise_of
from oracle.state.folder import peek_folder, read_plan
from oracle.state.forks import read_forks
from oracle.state.retired import Retired, read_retired
from oracle.state.shards import shard_count, shard_name

__all__ = ["ShardedStatus", "Status", "public_status", "run", "sharded_status"]

_PRIVACY = ("epsilon", "delta")
_COLUMNS = ("round", "phase", "phase_rounds_left", "rearms", "delta_spent", "forks", "snapshot_age_seconds")
_SENSELESS: Final[Mapping[str, frozenset[str]]] = {
    "classical": frozenset({"phase", "phases", "rearms", "delta"}),
    "bisection": frozenset({"rearms"}),
}
"""Facts that a predictor's page leaves out: it has no sides that are armed afresh, or one phase without an end."""

_NAMES: Final = {("classical", "phase_rounds_left"): "rounds left"}
"""What is called otherwise on a predictor's page."""

_PROVED: Final = {
    True: "epsilon and delta, by theorems, for one run of one state",
    False: "nothing: epsilon and delta are nominal",
}
_BISECTION_PHASES: Final = {1: "1, learns", 2: "2, recalls"}
_ARMS_SIDES: Final = frozenset({"rectangles", "stumps"})
_WIDTH = 120
"""Columns that the table fits into; a terminal may wrap what it cannot show."""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """Public facts as of the newest snapshot.

    Attributes:
        model: The model's name.
        predictor: Its predictor.
        profile: Its profile.
        alpha: The error that was asked of the plan.
        proved: False where epsilon and the deltas are nominal (the `paper` profile).
        protects_queries: False where epsilon and delta are those of the training records only.
        round: Rounds answered.
        phase: Current phase.
        phases: How many are planned.
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
        promise: What the plan promises of the error, and what that rests on.
        data: The data set that it was trained on, if the model names one.
        person_rows: How many training rows of a person were used at most, if these were limited.
        person_epsilon: Epsilon of all these together.
        person_delta: Delta of all these together.
    """

    model: str
    predictor: str
    profile: str
    alpha: float
    proved: bool
    protects_queries: bool = True
    round: int
    phase: int
    phases: int
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
    promise: Promise
    data: str | msgspec.UnsetType = msgspec.UNSET
    person_rows: int | msgspec.UnsetType = msgspec.UNSET
    person_epsilon: float | msgspec.UnsetType = msgspec.UNSET
    person_delta: float | msgspec.UnsetType = msgspec.UNSET


class ShardedStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Public facts of a state of several shards: what holds for all records together, and each shard's.

    Attributes:
        model: The model's name.
        predictor: Its predictor.
        profile: Its profile.
        alpha: As in `Status`.
        proved: As in `Status`.
        protects_queries: As in `Status`.
        rounds: Rounds that all shards answered.
        rearms: Times that any side of any shard was armed afresh.
        epsilon: Per-record epsilon; a record is in one shard only.
        delta_spent: Sum of delta over the training set and all rounds so far, of all shards.
        delta_limit: Its bound for ever, without forks.
        forks: Forks of all shards.
        epsilon_with_forks: Of a record in the shard where it is largest.
        delta_of_forks: Sum over the shards.
        snapshot_bytes: Size of the newest snapshots together.
        snapshot_age_seconds: Age of the one that is oldest.
        promise: As in `Status`.
        shards: The facts of each, from shard 0.
        data: As in `Status`, and so are the next three.
    """

    model: str
    predictor: str
    profile: str
    alpha: float
    proved: bool
    protects_queries: bool = True
    rounds: int
    rearms: int
    epsilon: float
    delta_spent: float
    delta_limit: float
    forks: int
    epsilon_with_forks: float
    delta_of_forks: float
    snapshot_bytes: int
    snapshot_age_seconds: float
    promise: Promise
    shards: tuple[Status, ...]
    data: str | msgspec.UnsetType = msgspec.UNSET
    person_rows: int | msgspec.UnsetType = msgspec.UNSET
    person_epsilon: float | msgspec.UnsetType = msgspec.UNSET
    person_delta: float | msgspec.UnsetType = msgspec.UNSET


def run(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The state folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print a state's public facts, as of its newest snapshot. Needs no key; --json prints all of them."""
    retired = read_retired(folder)
    if retired is not None:
        _tell_retired(retired, as_json=as_json)
        return
    shards = shard_count(folder)
    status = public_status(folder) if shards == 1 else sharded_status(folder, shards)
    if as_json:
        typer.echo(msgspec.json.encode(status))
        return
    console = Console(soft_wrap=True, markup=False)
    if isinstance(status, ShardedStatus):
        console.width = max(console.width, _WIDTH)
        console.print(_by_shard(status))
        console.print()
    _print_facts(console, status)


def _tell_retired(retired: Retired, *, as_json: bool) -> None:
    facts = {"model": retired.model, "retired": retired.retired, "shards": retired.events}
    if as_json:
        typer.echo(msgspec.json.encode(facts))
        return
    typer.echo(f"{retired.model}: retired ({retired.retired}); its keys are erased, and it answers no more")
    for number, event in enumerate(retired.events):
        spent = f"epsilon {event.epsilon:g}, delta spent {event.delta_spent:.6g} of {event.delta_limit:g}"
        typer.echo(f"shard {number}: {event.round:,} rounds, phase {event.phase}, {spent}")


def _print_facts(console: Console, status: "Status | ShardedStatus") -> None:
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in msgspec.structs.asdict(status).items():
        skipped = isinstance(value, tuple | Promise | msgspec.UnsetType)  # shards have a table of their own
        if skipped or name in _SENSELESS.get(status.predictor, ()):
            continue
        nominal = " (nominal)" if name.startswith(_PRIVACY) and not status.proved else ""
        table.add_row(_heading(status.predictor, name), _fact(status.predictor, name, value) + nominal)
    console.print(table)
    console.print()
    for name, value in promise_rows(status.promise):
        console.print(f"{name:<14}{value}", highlight=False)
    console.print()
    for line in glossary(*_terms(status)):
        console.print(line, highlight=False)


def _terms(status: "Status | ShardedStatus") -> Iterator[Row]:
    """Yield what the facts' names mean, as far as they need it."""
    if status.predictor in _ARMS_SIDES:
        yield "phase", "so many rounds under one key; nothing is used up in it, and the next one is planned already"
        yield ABOUT_REARMS
    if status.delta_limit:
        who = "record" if status.protects_queries else "training row"
        yield "delta", f"each {who} pays its own once; all that is spent, added up, stays below the limit for ever"


def _by_shard(status: "ShardedStatus") -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    predictor = status.predictor
    columns = [name for name in _COLUMNS if name not in _SENSELESS.get(predictor, ())]
    for name in ("shard", *(_heading(predictor, name) for name in columns)):
        table.add_column(name, justify="right", no_wrap=True, overflow="fold")
    for number, shard in enumerate(status.shards):
        table.add_row(str(number), *(_fact(predictor, name, getattr(shard, name)) for name in columns))
    return table


def _heading(predictor: str, name: str) -> str:
    return _NAMES.get((predictor, name), name.replace("_", " "))


def _fact(predictor: str, name: str, value: object) -> str:
    if predictor == "bisection" and name == "phase" and isinstance(value, int):
        return _BISECTION_PHASES.get(value, str(value))
    return _PROVED[value] if name == "proved" and isinstance(value, bool) else _shown(value)


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
    plan = decode_plan(data)
    current = plan.phases[header.phase - 1]
    in_phase = header.round - plan.first_round(header.phase)
    forks = read_forks(folder)
    written = max((_modified(path) for path in folder.glob("snapshot-*.perp")), default=0.0)
    return Status(
        model=plan.name,
        predictor=plan.predictor,
        profile=plan.profile,
        alpha=plan.alpha,
        proved=not plan.nominal,
        protects_queries=plan.protects_queries,
        round=header.round,
        phase=header.phase,
        phases=len(plan.phases),
        phase_rounds_left=current.rounds - in_phase,
        rearms=header.rearms,
        epsilon=plan.epsilon,
        delta=current.delta,
        delta_spent=plan.delta_spent(header.phase, in_phase),
        delta_limit=plan.delta,
        forks=len(forks),
        epsilon_with_forks=plan.epsilon + sum(fork.epsilon for fork in forks),
        delta_of_forks=sum(fork.delta_sum for fork in forks),
        snapshot_bytes=header.total_bytes,
        snapshot_age_seconds=max(time.time() - written, 0.0),
        promise=promise_of(plan),
        **_of_rows(plan),
    )


def _of_rows(plan: Plan) -> dict[str, Any]:
    """Return what is said of the training rows beyond a row's guarantee."""
    found: dict[str, Any] = {} if plan.data is msgspec.UNSET else {"data": plan.data.name}
    bound = plan.person
    if bound is not msgspec.UNSET:
        found |= {f"person_{name}": value for name, value in msgspec.structs.asdict(bound).items()}
    return found


def sharded_status(folder: Path, count: int) -> ShardedStatus:
    """Read the public facts of a state of `count` shards.

    Raises:
        StateError: A shard's state is not there, or is damaged.
    """
    shards = tuple(public_status(folder / shard_name(number)) for number in range(count))
    first = shards[0]
    return ShardedStatus(
        model=first.model,
        predictor=first.predictor,
        profile=first.profile,
        alpha=first.alpha,
        proved=first.proved,
        protects_queries=first.protects_queries,
        rounds=sum(shard.round for shard in shards),
        rearms=sum(shard.rearms for shard in shards),
        epsilon=first.epsilon,
        delta_spent=math.fsum(shard.delta_spent for shard in shards),
        delta_limit=math.fsum(shard.delta_limit for shard in shards),
        forks=sum(shard.forks for shard in shards),
        epsilon_with_forks=max(shard.epsilon_with_forks for shard in shards),
        delta_of_forks=math.fsum(shard.delta_of_forks for shard in shards),
        snapshot_bytes=sum(shard.snapshot_bytes for shard in shards),
        snapshot_age_seconds=max(shard.snapshot_age_seconds for shard in shards),
        promise=first.promise,
        shards=shards,
        **{name: getattr(first, name) for name in ("data", "person_rows", "person_epsilon", "person_delta")},
    )


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # a newer snapshot has just taken its place
        return 0.0
