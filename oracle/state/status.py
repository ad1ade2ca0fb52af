"""The public facts of a state, of one shard or many, read without its key."""

import math
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from oracle.errors import StateError
from oracle.planning.kinds import decode_plan
from oracle.planning.plan import Plan, truth_of
from oracle.planning.promise import Promise, promise_of
from oracle.state.folder import peek_folder, read_plan, written_at
from oracle.state.forks import read_forks
from oracle.state.header import PublicHeader
from oracle.state.paused import read_paused
from oracle.state.shards import shard_name

__all__ = ["ShardedStatus", "Status", "public_status", "sharded_status"]


_OF_ALL_SHARDS: Final = (
    *("model", "predictor", "profile", "alpha", "proved", "protects_queries", "epsilon", "promise"),
    *("data", "person_rows", "person_epsilon", "person_delta", "truth_epsilon"),
)
"""What is the same for every shard of a state."""


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
        forks: Times that `perpetua fork` answered another log from this folder.
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
        paid: Answers that the data paid for, where they pay for any.
        paid_left: How many more they pay for.
        rested: Rounds that rested, without an answer, where any may.
        rest_left: Rounds that will rest before one is answered again; 0 where it does not rest.
        truth_epsilon: What a query pays of epsilon for its true label, where any is counted.
        paused: Since when an operator has it wait (`perpetua pause`), UTC, where one does.
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
    truth_epsilon: float | msgspec.UnsetType = msgspec.UNSET
    paid: int | msgspec.UnsetType = msgspec.UNSET
    paid_left: int | msgspec.UnsetType = msgspec.UNSET
    rested: int | msgspec.UnsetType = msgspec.UNSET
    rest_left: int | msgspec.UnsetType = msgspec.UNSET
    paused: str | msgspec.UnsetType = msgspec.UNSET


class ShardedStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Public facts of a state of several shards. Fields that are not listed are as in `Status`.

    Attributes:
        rounds: Rounds that all shards answered.
        rearms: Times that any side of any shard was armed afresh.
        epsilon: Per-record epsilon; a record is in one shard only.
        delta_spent: Sum of delta over the training set and all rounds so far, of all shards.
        forks: Forks of all shards.
        epsilon_with_forks: Of a record in the shard where it is largest.
        delta_of_forks: Sum over the shards.
        snapshot_bytes: Size of the newest snapshots together.
        snapshot_age_seconds: Age of the oldest of them.
        shards: The facts of each, from shard 0.
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
    truth_epsilon: float | msgspec.UnsetType = msgspec.UNSET
    paused: str | msgspec.UnsetType = msgspec.UNSET


def public_status(folder: Path) -> Status:
    """Read the public facts of a state folder.

    Raises:
        StateError: There is no state, or it is damaged.
    """
    header, data = peek_folder(folder), read_plan(folder)
    if header is None or data is None:
        raise StateError(f"{folder}: holds no state; make one with `perpetua init`")
    plan = decode_plan(data)
    current = plan.phases[header.phase - 1]
    in_phase = header.round - plan.first_round(header.phase)
    forks = read_forks(folder)
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
        snapshot_age_seconds=max(time.time() - (written_at(folder) or 0.0), 0.0),
        promise=promise_of(plan),
        paused=_paused_since(folder),
        **_of_rows(plan),
        **_of_answers(plan, header),
    )


def _of_rows(plan: Plan) -> dict[str, Any]:
    """Return the facts about training rows, and true labels, beyond a record's guarantee."""
    found: dict[str, Any] = {} if plan.data is msgspec.UNSET else {"data": plan.data.name}
    bound = plan.person
    if bound is not msgspec.UNSET:
        found |= {f"person_{name}": value for name, value in msgspec.structs.asdict(bound).items()}
    truth = truth_of(plan)
    return found if truth is None else found | {"truth_epsilon": truth.epsilon}


def _of_answers(plan: Plan, header: PublicHeader) -> dict[str, Any]:
    """Return the facts about paid answers, and about rests, where there can be any."""
    found: dict[str, Any] = (
        {} if plan.paid_limit is None else {"paid": header.paid, "paid_left": plan.paid_limit - header.paid}
    )
    return found | ({"rested": header.rested, "rest_left": header.rest_left} if plan.rests else {})


def _paused_since(folder: Path) -> str | msgspec.UnsetType:
    paused = read_paused(folder)
    return msgspec.UNSET if paused is None else paused.since


def sharded_status(folder: Path, count: int) -> ShardedStatus:
    """Read the public facts of a state of `count` shards.

    Raises:
        StateError: A shard's state is not there, or is damaged.
    """
    shards = tuple(public_status(folder / shard_name(number)) for number in range(count))
    return ShardedStatus(
        rounds=sum(shard.round for shard in shards),
        rearms=sum(shard.rearms for shard in shards),
        delta_spent=math.fsum(shard.delta_spent for shard in shards),
        delta_limit=math.fsum(shard.delta_limit for shard in shards),
        forks=sum(shard.forks for shard in shards),
        epsilon_with_forks=max(shard.epsilon_with_forks for shard in shards),
        delta_of_forks=math.fsum(shard.delta_of_forks for shard in shards),
        snapshot_bytes=sum(shard.snapshot_bytes for shard in shards),
        snapshot_age_seconds=max(shard.snapshot_age_seconds for shard in shards),
        shards=shards,
        paused=_paused_since(folder),
        **{name: getattr(shards[0], name) for name in _OF_ALL_SHARDS},
    )
