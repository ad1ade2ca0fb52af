"""`perpetua plan`: print every number of a run before any data is read."""

import math
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from oracle.cli.models import read_model
from oracle.cli.progress import Progress
from oracle.errors import RefusedError
from oracle.planning.model import Model
from oracle.planning.plan import InstancePlan, Plan
from oracle.planning.planner import as_paper, wish_for
from oracle.planning.sharding import refuse_small_parts, shard_model
from oracle.planning.tight import SEARCH_STEPS

__all__ = ["run"]

_SHOWN = 6
_WIDTH = 240
"""Columns that any table fits into; none is padded to them, and a terminal may wrap what it cannot show."""

_SECONDS_A_YEAR = 365.25 * 86_400

_NOMINAL = """\
The paper's epsilon and delta are nominal: they are what the algorithm is called
with. Theorem 4.1 of Stemmer (2024) hides a constant, and a query may pay for two
protocols (Theorem 4.6), so no bound on what a record pays is claimed here."""


def run(
    model_file: Annotated[Path, typer.Argument(metavar="MODEL.toml", help="The model file.")],
    compare: Annotated[
        Literal["paper"] | None,
        typer.Option("--compare", help="Show the constants of the paper's own proofs beside this plan."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print every number of the plan as JSON.")] = False,
    shards: Annotated[int, typer.Option("--shards", help="Plan each of so many shards, as init --shards does.")] = 1,
) -> None:
    """Print the plan of a model: examples wanted, expected error, phases, delta schedule, memory. Reads no data."""
    model = read_model(model_file)
    if compare is not None and model.profile == compare:
        msg = "--compare = 'paper': this model is of the paper profile itself; compare one of profile tight with it"
        raise RefusedError(msg)
    part = shard_model(model, shards)
    with Progress("planning", SEARCH_STEPS, "steps") as progress:
        plan = wish_for(part, progress.at)
    paper = None if compare is None else _paper(part)
    if as_json:
        typer.echo(_json(plan, paper))
    else:
        console = Console(soft_wrap=True, highlight=False)
        console.width = max(console.width, _WIDTH)
        if shards > 1:
            console.print(
                f"{'shards':<14}{shards}, each as follows; a record is in one of them only, and delta sums to "
                f"at most {model.delta:g} over all"
            )
        _print(console, plan, part.examples)
        if paper is not None:
            _print_comparison(console, plan, paper)
    refuse_small_parts(model, shards, plan)


def _paper(model: Model) -> Plan:
    """Plan the same model as the paper does, for just enough examples."""
    return wish_for(msgspec.structs.replace(as_paper(model), examples=1))


def _json(plan: Plan, paper: Plan | None) -> str:
    data = plan.encode() if paper is None else b'{"tight":%b,"paper":%b}' % (plan.encode(), paper.encode())
    return msgspec.json.format(data, indent=2).decode()


def _print(console: Console, plan: Plan, declared: int) -> None:
    first, enough = plan.phases[0], plan.declared == declared
    privacy = f"epsilon = {plan.epsilon:g} a record; delta sums to at most {plan.delta:g} for ever"
    error = f"at most {plan.expected_error:.4f} on honest queries, but with probability {plan.beta:g}"
    if plan.nominal:
        privacy = f"epsilon = {plan.epsilon:g} a record, sum of delta = {plan.delta:g}: both nominal"
        error = f"{plan.expected_error:g} on honest queries, by Lemma 4.13 of the paper"
    for name, value in (
        ("model", f"{plan.name}: {plan.predictor}, profile {plan.profile}"),
        ("sides", f"{', '.join(plan.sides)}; {plan.slicing}, each side gets {plan.share:.0%} of its stripe"),
        ("examples", f"{plan.examples if enough else plan.declared:,} wanted, {declared:,} declared"),
        ("privacy", privacy),
        ("error", error),
        ("honest share", f"at least {plan.gamma:g} of the stream"),
        ("noise", f"{first.start.law}, keyed, exact to 128 bits; Stopper epsilon {first.stopper.epsilon:.4g}"),
        ("memory", f"{_mebibytes(first.memory_bytes)} in phase 1, {_mebibytes(plan.memory_bytes)} at most"),
        ("lasts", f"{plan.rounds:.3g} rounds in {len(plan.phases)} phases: {_years(plan.rounds)}"),
    ):
        console.print(f"{name:<14}{value}")
    if plan.nominal:
        console.print(_NOMINAL)
    table = _table("phase", "rounds", "delta", "points/side", "mediums", "noise scale", "thresholds")
    for index, phase in enumerate(plan.phases):
        if _SHOWN <= index < len(plan.phases) - 1:
            if index == _SHOWN:
                table.add_row(*["..."] * 7)
            continue
        table.add_row(str(phase.phase), f"{phase.rounds:,}", f"{phase.delta:.2e}", *_columns(phase.start))
        table.add_row("  re-armed", "", "", *_columns(phase.rearmed))
    console.print()
    console.print(table)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True, overflow="fold")
    return table


def _print_comparison(console: Console, tight: Plan, paper: Plan) -> None:
    """Print both plans' figures side by side, and how many times the paper's is."""
    table = _table("", "tight", "paper", "paper / tight")
    table.add_row("epsilon", f"{tight.epsilon:g}", f"{paper.epsilon:g} (nominal)", "")
    table.add_row("sum of delta", f"{tight.delta:g}", f"{paper.delta:g} (nominal)", "")
    ours, theirs = tight.phases[0], paper.phases[0]
    for name, mine, other in (
        ("examples wanted", tight.examples, paper.examples),
        ("points a side, phase 1", ours.start.points, _held(theirs.start)),
        ("mediums until a re-arm", ours.stopper.threshold, theirs.stopper.threshold),
        ("noise, std. deviation", _deviation(ours.start), _deviation(theirs.start)),
        ("rounds of phase 1", ours.rounds, theirs.rounds),
        ("memory of phase 1, MiB", ours.memory_bytes / 2**20, theirs.memory_bytes / 2**20),
    ):
        table.add_row(name, _figure(mine), _figure(other), f"{other / mine:,.3g}")
    console.print()
    console.print(table)
    console.print(_NOMINAL)


def _deviation(instance: InstancePlan) -> float:
    """Standard deviation of the depths' noise, in points; DLap(e)'s is Laplace's but for a part of e^2/24."""
    return (math.pi / math.sqrt(3.0) if instance.law == "logistic" else math.sqrt(2.0)) / instance.scale


def _held(instance: InstancePlan) -> int:
    return instance.points if instance.base is msgspec.UNSET else instance.base


def _figure(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def _columns(instance: InstancePlan) -> tuple[str, str, str, str]:
    thresholds = f"{instance.low:,}-{instance.high:,}"
    return f"{_held(instance):,}", f"{instance.mediums:,}", f"{instance.scale:.3g}", thresholds


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:.1f} MiB"


def _years(rounds: int) -> str:
    return f"{rounds / 1e4 / _SECONDS_A_YEAR:,.0f} years at 10,000 queries a second"
