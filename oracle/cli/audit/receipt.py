"""`perpetua audit sign` and `perpetua audit receipt`: signed public statements, made and checked."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple, NoReturn

import typer
from msgspec import UNSET

from oracle.accounting.ledger import LedgerEvent, MessageSkipped
from oracle.cli.audit.receipt_log import QueryLog, against_log
from oracle.cli.options import KeyFile
from oracle.cli.states import state_key_file, state_plan
from oracle.cli.version import version
from oracle.errors import InputError, KeyFileError, StorageError
from oracle.planning.kinds import decode_plan
from oracle.receipts.audits import differing_files, is_of_audit, open_audit
from oracle.receipts.keys import public_key_path, read_public_key, signing_key
from oracle.receipts.ledgers import UNSEEN, against_ledger, read_ledger, shows_rounds
from oracle.receipts.receipts import (
    Statement,
    make_statement,
    open_receipt,
    seal,
    verify_statement,
)
from oracle.receipts.sealed import ForgedReceiptError
from oracle.state.files import write_exclusive
from oracle.state.keys import read_key_file
from oracle.state.shards import refuse_sharded

__all__ = ["check", "sign"]

_CHECKED = (
    "the plan, by the accountant; epsilon, delta and length of each phase, and the sum and bound",
    "of all deltas, against the plan; that {} are not more than rounds and plan allow",
)
_ROUNDS = "how many rounds of the current phase were answered"


def sign(
    state: Annotated[Path, typer.Argument(metavar="DIR", help="The state folder of one shard; it may be served.")],
    out: Annotated[Path | None, typer.Option("--out", help="Where to write it; by default beside the folder.")] = None,
    key: KeyFile = None,
    receipt_key: Annotated[
        Path | None,
        typer.Option(
            "--receipt-key", help="The receipt key; by default receipt-key beside the key file. Made if needed."
        ),
    ] = None,
    genesis: Annotated[
        list[Path] | None,
        typer.Option(
            "--genesis", help="The genesis file, or a copy of the folder: the forks recorded beside it are stated too."
        ),
    ] = None,
) -> None:
    """Write a signed statement of a state's newest snapshot: plan, guarantee, rounds, running-tag commitment."""
    refuse_sharded(state)
    missing = next((origin for origin in genesis or () if not origin.exists()), None)
    if missing is not None:
        raise KeyFileError(f"genesis file {missing}: No such file or directory")
    state_plan(state)  # whoever names another folder is told so, and not of its key
    key_path = state_key_file(state, key)
    statement = make_statement(state, read_key_file(key_path), f"perpetua {version()}", genesis or ())
    secret = receipt_key or key_path.with_name("receipt-key")
    sealed = seal(statement, signing_key(secret))
    phase = statement.phases[-1].phase
    path = out or state.with_name(f"{state.name}.receipt-phase-{phase}-round-{statement.round}.json")
    try:
        write_exclusive(path, sealed)
    except FileExistsError as exc:
        raise StorageError(
            f"{path}: exists already, and a receipt is never overwritten; there is no newer snapshot: name another "
            "file with --out"
        ) from exc
    typer.echo(f"receipt:    {path}")
    typer.echo(f"public key: {public_key_path(secret)}  (give it to those who check receipts)")


def _claims(statement: Statement) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield what the receipt states, in plain words: a heading, and the lines behind it."""
    if not statement.phases:
        return
    phase = statement.phases[-1]
    yield "model", [f"{statement.model}, plan {statement.plan_digest}"]
    yield "log", [f"running tag committed to by {statement.tag_commitment}"]
    rounds = f"{statement.round:,} rounds were answered, {phase.answered:,} of {phase.rounds:,} of them in phase"
    rearmed = "" if statement.paid is not UNSET else f"; sides were armed afresh {statement.rearms} times"
    claim = [f"{rounds} {phase.phase}{rearmed}."]
    if statement.nominal:
        claim.append("epsilon and delta are nominal: no proof bounds them.")
    plan = decode_plan(statement.plan.encode())
    record = "one training row or one query" if plan.protects_queries else "one training row; queries are not protected"
    claim.append(
        f"Take one record ({record}) and somebody who chooses all others and sees all answers but its own. Whether it "
        f"was there changes the probability of anything they see by a factor of at most e^{phase.epsilon:g}, but with "
        "probability delta:"
    )
    if plan.released:
        claim.append("(Queries change no other answer: what was learned of the rows is all that was released.)")
    claim += [
        f"  phase {line.phase}, {line.answered:,} rounds from {line.first_round:,} on: "
        f"delta = {line.delta:.3g} for each record"
        for line in statement.phases
    ]
    if statement.paid is UNSET:
        claim.append(
            f"The deltas of all records so far sum to {statement.delta_spent:.3g}, and to at most "
            f"{statement.delta_limit:.3g} for ever."
        )
    else:
        claim.append(
            "That is of all answers together, for ever, however many are asked for. The rows paid for "
            f"{statement.paid:,} answers so far, of at most {plan.paid_limit:,}."
        )
    if statement.retired is True:
        claim.append("The model was retired then: its keys are erased, says who signed, and it answers no more.")
    if statement.forks:
        claim.append(
            f"Other logs were answered from this state or its genesis file {statement.forks} times: the records it "
            "held then paid epsilon once more for each."
        )
    yield "claim", claim


class _Check(NamedTuple):
    """What one comparison came to.

    Attributes:
        wrong: What does not hold.
        found: What was found to hold, if nothing is wrong; or nothing.
        open: What it did not look at; or nothing.
    """

    wrong: Sequence[str] = ()
    found: str = ""
    open: str = ""


def check(  # noqa: PLR0913, PLR0917 -- the command's options
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The receipt.")],
    public_key: Annotated[
        Path | None, typer.Option("--public-key", help="The key that it must be signed with.")
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            "--ledger", help="The ledger to compare it with: a line for each event, on Kafka KEY, tab and event."
        ),
    ] = None,
    shard: Annotated[
        str | None, typer.Option("--shard", help="TOPIC/PARTITION, where the ledger has events of several shards.")
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            "--log",
            help="The log that it is to stand for, answered again from --genesis: .jsonl, .parquet or .arrow; or the "
            ".toml configuration of a Kafka source.",
        ),
    ] = None,
    genesis: Annotated[
        Path | None, typer.Option("--genesis", help="With --log: the run's genesis file, which is private.")
    ] = None,
    rows_per_message: Annotated[
        int | None,
        typer.Option(
            min=1, help="With --log: rows of a Parquet or Arrow log that were served as one message; by default 65536."
        ),
    ] = None,
    partition: Annotated[int, typer.Option(help="With --log: partition of a Kafka topic.")] = 0,
) -> None:
    """Check a receipt, and say in plain words what it claims. Exit 1 if anything in it does not hold.

    The receipt of an audit is checked against the report beside it.

    With --log and --genesis the queries are answered again, up to the
    receipt's round, to find out whether they are the ones that it stands
    for. That publishes nothing and costs no epsilon.
    """
    if (log is None) != (genesis is None):
        name, other = ("--genesis", "--log") if genesis is None else ("--log", "--genesis")
        raise InputError(name, None, f"must go with {other}: the log is answered again from the genesis file")
    wanted = None if public_key is None else read_public_key(public_key)
    try:
        if is_of_audit(file):
            if ledger is not None or log is not None:
                raise InputError("receipt", str(file), "must be of a run for --ledger and --log; it is of an audit")
            _check_audit(file, wanted)
        statement, signer = open_receipt(file, wanted)
    except ForgedReceiptError as exc:
        typer.echo(f"DOES NOT HOLD: {exc}")
        raise typer.Exit(1) from exc
    wrong = verify_statement(statement)
    events = None if ledger is None else read_ledger(ledger, shard)
    of_log = _check_log(statement, (log, rows_per_message, partition), genesis, events)
    checks = [_check_ledger(statement, events, answered=bool(of_log.found) and not of_log.wrong), of_log]
    wrong += [problem for done in checks for problem in done.wrong]
    _report(statement, None if wanted else signer, checks, wrong)
    raise typer.Exit(1 if wrong else 0)


def _check_audit(file: Path, wanted: bytes | None) -> NoReturn:
    """Check the receipt of an audit, and say what it states."""
    statement, signer = open_audit(file, wanted)
    wrong = differing_files(statement, file.parent)
    _print_signer(None if wanted else signer)
    _print("made", f"{statement.issued} by {statement.software}")
    _print("attacked", *statement.attacked)
    _print("verdict", statement.banner)
    for problem in wrong:
        typer.echo(f"DOES NOT HOLD: {problem}")
    if not wrong:
        _print("checked", f"{' and '.join(statement.files)} beside it are the files that were signed")
    _print("unchecked", "whether the audit was run as it says: with its seed and that software it can be run again")
    raise typer.Exit(1 if wrong else 0)


def _report(statement: Statement, unknown: str | None, checks: Sequence[_Check], wrong: Sequence[str]) -> None:
    """Print what was signed and by whom (`unknown`: a key that only the receipt names), and what was checked."""
    _print_signer(unknown)
    _print("made", f"{statement.issued} by {statement.software}")
    for name, text in _claims(statement):
        _print(name, *text)
    for problem in wrong:
        typer.echo(f"DOES NOT HOLD: {problem}")
    if not wrong:
        _print("checked", *(line.format(_things(statement)) for line in _CHECKED))
    for found in [done.found for done in checks if done.found and not done.wrong]:
        _print("checked", found)
    for left in [done.open for done in checks if done.open]:
        _print("unchecked", left)


def _print_signer(unknown: str | None) -> None:
    if unknown is None:
        _print("signature", "good, by the key you gave")
    else:
        given = f"fits the key in the receipt itself, {unknown}, which anybody may have put there: give"
        _print("signature", given, "--public-key to know who signed it")


def _print(name: str, *lines: str) -> None:
    for number, line in enumerate(lines):
        typer.echo(f"{'' if number else name + ':':<12}{line}")


def _check_ledger(statement: Statement, events: list[LedgerEvent] | None, *, answered: bool) -> _Check:
    """Compare with a ledger; `answered` says that a log was answered again and led to the same rounds and re-arms."""
    if events is None:
        unknown = "forks" if answered else f"how many rounds were answered, {_things(statement)} and forks"
        return _Check(open=f"{unknown} (no ledger was given)")
    shown = answered or shows_rounds(statement, events)
    return _Check(
        against_ledger(statement, events),
        found=f"the phases' beginnings and ends, and {_counted(statement)}, against the ledger",
        open=f"not against the ledger: {'; '.join(UNSEEN if shown else (_ROUNDS, *UNSEEN))}",
    )


def _counted(statement: Statement) -> str:
    """Return what a run counts beside its rounds, in words."""
    return f"the number of {_things(statement)}"


def _things(statement: Statement) -> str:
    return "re-arms" if statement.paid is UNSET else "paid answers"


def _check_log(
    statement: Statement,
    given: tuple[Path | None, int | None, int],
    genesis: Path | None,
    events: list[LedgerEvent] | None,
) -> _Check:
    log, rows_per_message, partition = given
    if log is None or genesis is None:
        return _Check(open="which log was answered (whoever keeps the genesis file can: --log and --genesis)")
    skipped = [event.position for event in events or () if isinstance(event, MessageSkipped)]
    wrong = against_log(statement, QueryLog(log, rows_per_message, partition), genesis, skipped)
    if statement.round == 0:
        return _Check(wrong, open="which log will be answered: no round was, so the receipt stands for none")
    same = f"up to round {statement.round:,}, and leads to {_counted(statement)} that the receipt says"
    found = f"the log is the one that was answered, {same}"
    return _Check(wrong, found=found, open="what is no part of the running tag: the queries' ids, rejected messages")
