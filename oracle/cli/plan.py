"""`perpetua plan`: print every number of a run before any data is read."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from oracle.cli.models import read_model
from oracle.cli.progress import Progress
from oracle.errors import RefusedError
from oracle.planning.plan import InstancePlan, Plan
from oracle.planning.tight import SEARCH_STEPS, plan_or_wish

__all__ = ["run"]

_SHOWN = 6
_WIDTH = 96
"""Columns the table needs."""

_SECONDS_A_YEAR = 365.25 * 86_400


def run(
    model_file: Annotated[Path, typer.Argument(metavar="MODEL.toml", help="The model file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print every number of the plan as JSON.")] = False,
) -> None:
    """Print the plan of a model: examples wanted, expected error, phases, delta schedule, memory. Reads no data."""
    model = read_model(model_file)
    with Progress("planning", SEARCH_STEPS, "steps") as progress:
        plan = plan_or_wish(model, progress.at)
    if as_json:
        typer.echo(msgspec.json.format(plan.encode(), indent=2).decode())
    else:
        _print(plan, model.examples)
    if plan.declared > model.examples:
        msg = f"model.examples = {model.examples}: this model needs at least {plan.declared} training examples"
        raise RefusedError(msg)


def _print(plan: Plan, declared: int) -> None:
    console = Console(soft_wrap=True, highlight=False)
    console.width = max(console.width, _WIDTH)
    first, enough = plan.phases[0], plan.declared == declared
    for name, value in (
        ("model", f"{plan.name}: {plan.predictor}, profile {plan.profile}"),
        ("sides", f"{', '.join(plan.sides)}; {plan.slicing}, each side gets {plan.share:.0%} of its stripe"),
        ("examples", f"{plan.examples if enough else plan.declared:,} wanted, {declared:,} declared"),
        ("privacy", f"epsilon = {plan.epsilon:g} a record; delta sums to at most {plan.delta:g} for ever"),
        ("error", f"at most {plan.expected_error:.4f} on honest queries, but with probability {plan.beta:g}"),
        ("honest share", f"at least {plan.gamma:g} of the stream"),
        ("noise", f"{first.start.law}, keyed, exact to 128 bits; Stopper epsilon {first.stopper.epsilon:.4g}"),
        ("memory", f"{_mebibytes(first.memory_bytes)} in phase 1, {_mebibytes(plan.memory_bytes)} at most"),
        ("lasts", f"{plan.rounds:.3g} rounds in {len(plan.phases)} phases: {_years(plan.rounds)}"),
    ):
        console.print(f"{name:<14}{value}")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("phase", "rounds", "delta", "points/side", "mediums", "noise scale", "thresholds"):
        table.add_column(column, justify="left" if column == "phase" else "right", no_wrap=True, overflow="fold")
    for index, phase in enumerate(plan.phases):
        if _SHOWN <= index < len(plan.phases) - 1:
            if index == _SHOWN:
                table.add_row(*["..."] * 7)
            continue
        table.add_row(str(phase.phase), f"{phase.rounds:,}", f"{phase.delta:.2e}", *_columns(phase.start))
        table.add_row("  re-armed", "", "", *_columns(phase.rearmed))
    console.print()
    console.print(table)


def _columns(instance: InstancePlan) -> tuple[str, str, str, str]:
    thresholds = f"{instance.low:,}-{instance.high:,}"
    return f"{instance.points:,}", f"{instance.mediums:,}", f"{instance.scale:.3g}", thresholds


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:.1f} MiB"


def _years(rounds: int) -> str:
    return f"{rounds / 1e4 / _SECONDS_A_YEAR:,.0f} years at 10,000 queries a second"
