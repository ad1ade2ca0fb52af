"""`perpetua audit sign` and `perpetua audit receipt`: signed public statements, made and checked."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oracle.cli.version import version
from oracle.errors import StorageError
from oracle.state.files import write_exclusive
from oracle.state.keys import read_key_file
from oracle.state.shards import refuse_sharded

if TYPE_CHECKING:
    from oracle.audit.receipts import Statement

__all__ = ["check", "sign"]


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
) -> None:
    """Write a signed statement of a state's newest snapshot: plan, guarantee, rounds, running-tag commitment."""
    from oracle.audit.receipts import make_statement, public_key_path, seal, signing_key

    refuse_sharded(state)
    key_path = key or state / "key"
    statement = make_statement(state, read_key_file(key_path), f"perpetua {version()}")
    secret = receipt_key or key_path.with_name("receipt-key")
    sealed = seal(statement, signing_key(secret))
    phase = statement.phases[-1].phase
    path = out or state.with_name(f"{state.name}.receipt-phase-{phase}-round-{statement.round}.json")
    try:
        write_exclusive(path, sealed)
    except FileExistsError as exc:
        msg = (
            f"{path}: exists already, and a receipt is never overwritten; there is no newer snapshot: name another "
            "file with --out"
        )
        raise StorageError(msg) from exc
    typer.echo(f"receipt:    {path}")
    typer.echo(f"public key: {public_key_path(secret)}  (give it to those who check receipts)")


def _claims(statement: "Statement") -> Iterator[str]:
    from oracle.planning.kinds import decode_plan

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
    if statement.forks:
        yield (
            f"            Other logs were answered from this state {statement.forks} times: the records it held then "
            f"paid epsilon once more for each."
        )


def check(
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
) -> None:
    """Check a receipt, and say in plain words what it claims. Exit 1 if anything in it does not hold."""
    from oracle.audit.ledgers import against_ledger, read_ledger
    from oracle.audit.receipts import ForgedReceiptError, open_receipt, read_public_key, verify_statement

    wanted = None if public_key is None else read_public_key(public_key)
    try:
        statement, signer = open_receipt(file, wanted)
    except ForgedReceiptError as exc:
        typer.echo(f"DOES NOT HOLD: {exc}")
        raise typer.Exit(1) from exc
    wrong = verify_statement(statement)
    if ledger is not None:
        wrong += against_ledger(statement, read_ledger(ledger, shard))
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
        against = "plan and ledger" if ledger else "plan (no ledger was given)"
        typer.echo(f"checked:    every figure again, against {against}")
    raise typer.Exit(1 if wrong else 0)
