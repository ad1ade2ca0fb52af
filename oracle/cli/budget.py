"""`perpetua budget`: what the rows of a data set pay for all models that were made of them."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from oracle import durable
from oracle.accounting.budget import Charge, Total, charges, total
from oracle.accounting.ledger import LedgerEvent, decode
from oracle.cli.options import AsJson
from oracle.cli.output import figure_table, print_json, wide_console
from oracle.errors import InputError, StateError, StorageError
from oracle.planning.kinds import decode_plan
from oracle.predictors.base import phase_started
from oracle.state.forks import read_forks
from oracle.state.shards import shard_folders

__all__ = ["run"]


def run(
    ledgers: Annotated[
        list[Path],
        typer.Argument(
            metavar="LEDGER...",
            help="Data sets' ledgers (NAME.budget.jsonl), models' ledgers, or state folders, retired ones too.",
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Add up what a row of each data set pays for all models trained on it. Exits 1 if a declared budget is exceeded.

    A state that is listed twice counts once. Queries share no budget:
    each pays in the models that answer it.
    """
    found = charges(*map(_events, ledgers))
    if not found:
        given = ", ".join(map(str, ledgers))
        raise InputError("LEDGER", given, 'must name a data set: set data = "NAME" in the model file before `init`')
    names = sorted({one.data for one in found})
    sums = {name: total([one for one in found if one.data == name]) for name in names}
    if as_json:
        told = {
            name: {**_numbers(sums[name]), "charges": [one._asdict() for one in found if one.data == name]}
            for name in names
        }
        print_json(told)
    for name in () if as_json else names:
        _print(name, [one for one in found if one.data == name], sums[name])
    raise typer.Exit(1 if any(one.passed for one in sums.values()) else 0)


def _numbers(whole: Total) -> dict[str, object]:
    numbers = {name: float(value) for name, value in whole._asdict().items()}
    return {**numbers, "passed": whole.passed is not None}


def _events(path: Path) -> Iterator[LedgerEvent]:
    """Yield the events of a ledger, or those that a state stands for."""
    if path.is_dir():
        yield from _of_state(path)
        return
    try:
        lines = [line.rpartition(b"\t")[2] for line in durable.read(path).splitlines() if line]
        yield from map(decode, lines)
    except OSError as exc:
        raise StorageError(f"{path}: {exc.strerror}") from exc
    except msgspec.MsgspecError as exc:
        raise InputError("LEDGER", str(path), "must be a Perpetua ledger, or a state folder") from exc


def _of_state(folder: Path) -> Iterator[LedgerEvent]:
    """Yield the first phase of a state, retired or not, and its forks; a row is in the shard that has most of them."""
    shards = shard_folders(folder)
    try:
        plan = decode_plan(durable.read(shards[0] / "plan.json"))  # that of a retired state, too
    except OSError as exc:
        raise StateError(f"{folder}: holds no state: {exc.strerror}") from exc
    yield phase_started(plan, 1)
    yield from max((read_forks(shard) for shard in shards), key=lambda forks: sum(fork.epsilon for fork in forks))


def _print(name: str, found: list[Charge], whole: Total) -> None:
    table = figure_table("model", "use", "epsilon", "delta", texts=2, title=f"data set {name}: what a row pays")
    for _, model, use, epsilon, delta in dict.fromkeys(one[:5] for one in found):
        table.add_row(model, use[:8], f"{epsilon:g}", f"{delta:g}")
    table.add_row("spent", "", f"{whole.epsilon:f}", f"{float(whole.delta):.6g}", style="bold")
    table.add_row("budget", "", _limit(whole.most_epsilon), _limit(whole.most_delta))
    wide_console().print(table)
    if whole.passed:
        typer.echo(f"{whole.passed}: more is spent than the budget declares")
    typer.echo("Queries share none of it: each pays in the models that answer it, by their own guarantees.")


def _limit(most: Decimal) -> str:
    return f"{most:g}" if most.is_finite() else "not declared"
