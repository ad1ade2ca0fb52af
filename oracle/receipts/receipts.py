"""Receipts: signed public statements of what a run has promised so far, and their check against plan and ledger.

A receipt holds public facts only (PRIVACY.md, Definition 1), the plan whole, and a commitment to the running tag:
SHA-256 over the plan's digest, the round and the 16-byte tag. The tag is a keyed MAC over every round and query, so
the commitment tells nothing, and whoever keeps the genesis file can show later which log it stands for:
`oracle.cli.audit.receipt_log` re-executes that log and compares.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from oracle.errors import InputError, PlanError, StateError
from oracle.planning.ensemble.model import EnsemblePlan
from oracle.planning.kinds import decode_plan
from oracle.planning.plan import BoxPlan, Plan
from oracle.planning.planner import verify_plan
from oracle.receipts.sealed import open_sealed, seal_bytes
from oracle.state.folder import newest_bytes, read_plan
from oracle.state.forks import read_forks
from oracle.state.format import Snapshot
from oracle.state.format import decode as decode_snapshot

__all__ = [
    "PhaseLine",
    "Statement",
    "armed_sides",
    "make_statement",
    "open_receipt",
    "seal",
    "statement_of",
    "tag_commitment",
    "verify_statement",
]

_DOMAIN: Final = b"perpetua/receipt/1\0"
_TAG_DOMAIN: Final = b"perpetua/receipt/1/tag\0"
_VERSION: Final = 1
_PRINTED: Final = ("software", "issued", "model", "plan", "plan_digest", "tag_commitment")


class PhaseLine(msgspec.Struct, frozen=True, kw_only=True):
    """One phase that has begun.

    Attributes:
        first_round: Its first global round.
        answered: How many of them were answered.
        epsilon: Per-record epsilon of its records (nats).
        delta: Per-record delta of its records.
    """

    phase: int
    first_round: int
    rounds: int
    answered: int
    epsilon: float
    delta: float


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """What is signed: public facts as of one snapshot.

    Attributes:
        version: Of this format.
        software: Name and version of what made it.
        issued: When, UTC.
        plan: The plan's canonical JSON, whole.
        plan_digest: Its SHA-256, hex digits.
        nominal: True where no proof bounds epsilon and delta.
        rearms: Times that any side was armed afresh.
        delta_spent: Sum of delta over the training records and all rounds so far.
        delta_limit: Its bound for ever.
        forks: Other logs that were answered from this state, or from the genesis file and copies that the signer named;
            each costs its records epsilon once more.
        tag_commitment: To the running tag, hex digits.
        retired: True if the model was retired with this: its keys are erased, and it answers no more.
        paid: Answers that the data paid for, where they pay for any.
    """

    version: int = _VERSION
    software: str
    issued: str
    model: str
    plan: str
    plan_digest: str
    nominal: bool
    round: int
    phases: tuple[PhaseLine, ...]
    rearms: int
    delta_spent: float
    delta_limit: float
    forks: int
    tag_commitment: str
    retired: bool | msgspec.UnsetType = msgspec.UNSET
    paid: int | msgspec.UnsetType = msgspec.UNSET


def tag_commitment(plan_digest: bytes, rounds: int, tag: bytes) -> str:
    """Return the commitment to a running tag, hex digits."""
    return hashlib.sha256(_TAG_DOMAIN + plan_digest + rounds.to_bytes(8, "big") + tag).hexdigest()


def make_statement(folder: Path, master_key: bytes, software: str, origins: Sequence[Path] = ()) -> Statement:
    """Return the statement of a state folder's newest snapshot; the folder may be served meanwhile.

    `origins` are the genesis file and copies of the folder, whose forks are recorded beside them and count too.

    Raises:
        StateError: The folder holds no state, or its snapshot cannot be read with this key; or a record of forks cannot
            be understood.
    """
    encoded, data = read_plan(folder), newest_bytes(folder)
    if encoded is None or data is None:
        raise StateError(f"{folder}: it holds no state")
    plan = decode_plan(encoded)
    forks = {event.fork for origin in (folder, *origins) for event in read_forks(origin)}
    return statement_of(plan, decode_snapshot(data, master_key, plan.digest), len(forks), software)


def statement_of(plan: Plan, snapshot: Snapshot, forks: int, software: str) -> Statement:
    """Return the statement of a snapshot of a plan's state that was forked so many times."""
    return Statement(
        software=software,
        issued=datetime.now(UTC).isoformat(timespec="seconds"),
        model=plan.name,
        plan=plan.encode().decode(),
        plan_digest=plan.digest.hex(),
        nominal=plan.nominal,
        round=snapshot.round,
        phases=_lines(plan, snapshot.round),
        rearms=snapshot.rearms,
        delta_spent=_spent(plan, snapshot.round),
        delta_limit=plan.delta,
        forks=forks,
        tag_commitment=tag_commitment(plan.digest, snapshot.round, snapshot.tag),
        paid=msgspec.UNSET if plan.paid_limit is None else snapshot.paid,
    )


def _lines(plan: Plan, rounds: int) -> tuple[PhaseLine, ...]:
    """Return the phases that have begun after so many rounds."""
    lines, first = [], 0
    for phase in plan.phases:
        if first > rounds:
            break
        answered = min(rounds - first, phase.rounds)
        lines.append(
            PhaseLine(
                phase=phase.phase,
                first_round=first,
                rounds=phase.rounds,
                answered=answered,
                epsilon=plan.epsilon,
                delta=phase.delta,
            )
        )
        first += phase.rounds
    return tuple(lines)


def _spent(plan: Plan, rounds: int) -> float:
    lines = _lines(plan, rounds)
    return plan.delta_spent(lines[-1].phase, lines[-1].answered)


def seal(statement: Statement, key: Ed25519PrivateKey) -> bytes:
    """Sign a statement and return the receipt's bytes."""
    return seal_bytes(msgspec.json.encode(statement), key, _DOMAIN)


def open_receipt(path: Path, public_key: bytes | None) -> tuple[Statement, str]:
    """Read a receipt, check its signature, and return what it states and the key it is signed with, hex digits.

    A public key of None takes the one that it names.

    Raises:
        StorageError: The file cannot be read.
        InputError: It is no receipt, or of a newer version, or a text in it could pass for other lines when printed.
        ForgedReceiptError: It is signed with another key, or the signature does not belong to the statement.
    """
    statement, signer = open_sealed(path, public_key, _DOMAIN, Statement, _VERSION)
    _refuse_unprintable(statement)
    return statement, signer


def _refuse_unprintable(statement: Statement) -> None:
    """Refuse texts that could print lines of their own, or move a terminal's cursor.

    The plan's JSON may not have them escaped either: no plan has a name with a backslash.
    """
    for name in _PRINTED:
        text: str = getattr(statement, name)
        if not text.isprintable() or "\\" in text:
            raise InputError(f"receipt.{name}", text, "must have only printable characters and no backslash")


def armed_sides(plan: Plan) -> int:
    """Return how many sides of a run of the plan can be armed afresh; they are numbered from 0.

    Those of boxes, and of stumps the one or two of the chosen feature; an ensemble's teachers, all together; other
    predictors arm none.
    """
    if isinstance(plan, EnsemblePlan):
        return 1
    return len(plan.sides) if isinstance(plan, BoxPlan) else 0


def verify_statement(statement: Statement) -> list[str]:
    """Recompute everything that follows from the plan; return what does not hold, in words.

    Raises:
        PlanError: The plan cannot be read.
    """
    encoded = statement.plan.encode()
    plan = decode_plan(encoded)
    wrong = []
    if hashlib.sha256(encoded).hexdigest() != statement.plan_digest:
        wrong.append("the plan is not the one that its digest names")
    if plan.encode() != encoded:
        wrong.append("the plan is not written as this version writes plans")
    if (plan.name, plan.nominal, plan.delta) != (statement.model, statement.nominal, statement.delta_limit):
        wrong.append("name, profile or delta are not the plan's")
    if not 0 <= statement.round <= plan.rounds:
        wrong.append("there are more rounds than the plan has")
    elif (_lines(plan, statement.round), _spent(plan, statement.round)) != (statement.phases, statement.delta_spent):
        wrong.append("phases or delta spent do not follow from the plan and the rounds")
    wrong += _out_of_range(statement, plan)
    try:
        verify_plan(plan)
    except PlanError as exc:
        wrong.append(f"the accountant does not prove the plan: {exc}")
    return wrong


def _out_of_range(statement: Statement, plan: Plan) -> Iterator[str]:
    """Yield figures that no run of the plan can reach; no round arms a side twice."""
    most = max(statement.round, 0) * armed_sides(plan)
    if not 0 <= statement.rearms <= most:
        yield f"re-arms = {statement.rearms}: must be from 0 to {most}, once a round and side"
    yield from _paid_out_of_range(statement, plan)
    if statement.forks < 0:
        yield f"forks = {statement.forks}: must be at least 0"
    if not re.fullmatch("[0-9a-f]{64}", statement.tag_commitment):
        yield "the commitment to the running tag does not have 64 hex digits"
    if not _is_moment(statement.issued):
        yield f"made = {statement.issued}: must be an ISO 8601 date and time with its offset from UTC"


def _paid_out_of_range(statement: Statement, plan: Plan) -> Iterator[str]:
    """Yield a number of paid answers that no run of the plan can reach; a round pays once at most."""
    if plan.paid_limit is None:
        if statement.paid is not msgspec.UNSET:
            yield f"paid answers = {statement.paid}: the plan has none"
        return
    most = min(max(statement.round, 0), plan.paid_limit)
    if statement.paid is msgspec.UNSET or not 0 <= statement.paid <= most:
        told = "not said" if statement.paid is msgspec.UNSET else statement.paid
        yield f"paid answers = {told}: must be from 0 to {most}, at most one a round"


def _is_moment(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False
