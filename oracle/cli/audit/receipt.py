"""`perpetua audit sign` and `perpetua audit receipt`: signed public statements, made and checked."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from oracle.cli.version import version
from oracle.errors import InputError, StorageError
from oracle.state.files import write_exclusive
from oracle.state.keys import read_key_file
from oracle.state.shards import refuse_sharded

if TYPE_CHECKING:
    from oracle.accounting.ledger import LedgerEvent
    from oracle.receipts.receipts import Statement

__all__ = ["check", "sign"]

_ROUNDS = "how many rounds of the current phase were answered"


def sign(
    state: Annotated[Path, typer.Argument(metavar="DIR", help="The state folder of one shard; it may be served.")],
    out: Annotated[Path | None, typer.Option("--out", help="Where to write it; by default beside the folder.")] = None,
    key: Annotated[Path | None, typer.Option("--key", help="The state's key file; by default DIR/key.")] = None,
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
    from oracle.receipts.keys import public_key_path, signing_key
    from oracle.receipts.receipts import make_statement, seal

    refuse_sharded(state)
    missing = next((origin for origin in genesis or () if not origin.exists()), None)
    if missing is not None:
        raise InputError("--genesis", str(missing), "must be a genesis file or a state folder")
    key_path = key or state / "key"
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


def _claims(statement: "Statement") -> Iterator[str]:
    from oracle.planning.kinds import decode_plan

    if not statement.phases:
        return
    phase = statement.phases[-1]
    yield f"model:      {statement.model}, plan {statement.plan_digest}"
    yield f"log:        running tag committed to by {statement.tag_commitment}"
    yield (
        f"claim:      {statement.round:,} rounds were answered, {phase.answered:,} of {phase.rounds:,} of them in "
        f"phase {phase.phase}; sides were armed afresh {statement.rearms} times."
    )
    if statement.nominal:
        yield "            epsilon and delta are nominal: no proof bounds them."
    plan = decode_plan(statement.plan.encode())
    record = "one training row or one query" if plan.protects_queries else "one training row; queries are not protected"
    yield (
        f"            Take one record ({record}) and somebody who chooses all others and sees all "
        f"answers but its own. Whether it was there changes the probability of anything they see by a factor of at "
        f"most e^{phase.epsilon:g}, but with probability delta:"
    )
    if plan.released:
        yield "            (Queries change no other answer: what was learned of the rows is all that was released.)"
    for line in statement.phases:
        yield (
            f"              phase {line.phase}, {line.answered:,} rounds from {line.first_round:,} on: "
            f"delta = {line.delta:.3g} for each record"
        )
    yield (
        f"            The deltas of all records so far sum to {statement.delta_spent:.3g}, and to at most "
        f"{statement.delta_limit:.3g} for ever."
    )
    if statement.retired is True:
        yield "            The model was retired then: its keys are erased, says who signed, and it answers no more."
    if statement.forks:
        yield (
            f"            Other logs were answered from this state or its genesis file {statement.forks} times: the "
            f"records it held then paid epsilon once more for each."
        )


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

    With --log and --genesis the queries are answered again, up to the
    receipt's round, to find out whether they are the ones that it stands
    for. That publishes nothing and costs no epsilon.
    """
    from oracle.receipts.keys import read_public_key
    from oracle.receipts.receipts import ForgedReceiptError, open_receipt, verify_statement

    if (log is None) != (genesis is None):
        name, other = ("--genesis", "--log") if genesis is None else ("--log", "--genesis")
        raise InputError(name, None, f"must go with {other}: the log is answered again from the genesis file")
    wanted = None if public_key is None else read_public_key(public_key)
    try:
        statement, signer = open_receipt(file, wanted)
    except ForgedReceiptError as exc:
        typer.echo(f"DOES NOT HOLD: {exc}")
        raise typer.Exit(1) from exc
    wrong = verify_statement(statement)
    events = _events(ledger, shard)
    of_log = _check_log(statement, (log, rows_per_message, partition), genesis, events)
    checks = [_check_ledger(statement, events, answered=bool(of_log.found) and not of_log.wrong), of_log]
    wrong += [problem for done in checks for problem in done.wrong]
    if wanted:
        typer.echo("signature:  good, by the key you gave")
    else:
        typer.echo(f"signature:  fits the key in the receipt itself, {signer}, which anybody may have put there: give")
        typer.echo("            --public-key to know who signed it")
    typer.echo(f"made:       {statement.issued} by {statement.software}")
    for line in _claims(statement):
        typer.echo(line)
    for problem in wrong:
        typer.echo(f"DOES NOT HOLD: {problem}")
    if not wrong:
        typer.echo(
            "checked:    the plan, by the accountant; epsilon, delta and length of each phase, and the sum and bound"
        )
        typer.echo(
            "            of all deltas, against the plan; that the re-arms are not more than rounds and sides allow"
        )
    _tell("checked:   ", [done.found for done in checks if not done.wrong])
    _tell("unchecked: ", [done.open for done in checks])
    raise typer.Exit(1 if wrong else 0)


def _tell(name: str, lines: Sequence[str]) -> None:
    for line in filter(None, lines):
        typer.echo(f"{name} {line}")


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


def _events(ledger: Path | None, shard: str | None) -> "list[LedgerEvent] | None":
    if ledger is None:
        return None
    from oracle.receipts.ledgers import read_ledger

    return read_ledger(ledger, shard)


def _check_ledger(statement: "Statement", events: "list[LedgerEvent] | None", *, answered: bool) -> _Check:
    """Compare with a ledger; `answered` says that a log was answered again and led to the same rounds and re-arms."""
    if events is None:
        unknown = "forks" if answered else "how many rounds were answered, re-arms and forks"
        return _Check(open=f"{unknown} (no ledger was given)")
    from oracle.receipts.ledgers import UNSEEN, against_ledger, shows_rounds

    shown = answered or shows_rounds(statement, events)
    return _Check(
        against_ledger(statement, events),
        found="the phases' beginnings and ends, and the number of re-arms, against the ledger",
        open=f"not against the ledger: {'; '.join(UNSEEN if shown else (_ROUNDS, *UNSEEN))}",
    )


def _check_log(
    statement: "Statement",
    given: tuple[Path | None, int | None, int],
    genesis: Path | None,
    events: "list[LedgerEvent] | None",
) -> _Check:
    log, rows_per_message, partition = given
    if log is None or genesis is None:
        return _Check(open="which log was answered (whoever keeps the genesis file can: --log and --genesis)")
    from oracle.accounting.ledger import MessageSkipped
    from oracle.cli.audit.receipt_log import QueryLog, against_log

    skipped = [event.position for event in events or () if isinstance(event, MessageSkipped)]
    wrong = against_log(statement, QueryLog(log, rows_per_message, partition), genesis, skipped)
    if statement.round == 0:
        return _Check(wrong, open="which log will be answered: no round was, so the receipt stands for none")
    found = f"the log is the one that was answered, up to round {statement.round:,}, and leads to as many re-arms"
    return _Check(wrong, found=found, open="what is no part of the running tag: the queries' ids, rejected messages")
