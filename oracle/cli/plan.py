"""`perpetua plan`: print every number of a run before any data is read."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from oracle.cli.models import read_model
from oracle.errors import RefusedError
from oracle.planning.model import Model
from oracle.planning.plan import Plan
from oracle.planning.tight import least_examples, plan_tight

__all__ = ["plan_or_wish", "run"]

_SHOWN = 6
_SECONDS_A_YEAR = 365.25 * 86_400


def run(
    model_file: Annotated[Path, typer.Argument(metavar="MODEL.toml", help="The model file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print every number of the plan as JSON.")] = False,
) -> None:
    """Print the plan of a model: examples wanted, expected error, phases, delta schedule, memory. Reads no data."""
    model = read_model(model_file)
    plan, enough = plan_or_wish(model)
    if as_json:
        typer.echo(msgspec.json.format(plan.encode(), indent=2).decode())
    else:
        _print(plan)
    if not enough:
        msg = f"model.examples = {model.examples}: this model needs at least {plan.examples} training examples"
        raise RefusedError(msg)


def plan_or_wish(model: Model) -> tuple[Plan, bool]:
    """Return the model's plan, or where it declares too few examples the plan for just enough, and False."""
    least = least_examples(model)
    if least <= model.examples:
        return plan_tight(model), True
    return plan_tight(msgspec.structs.replace(model, examples=least)), False


def _print(plan: Plan) -> None:
    console = Console(soft_wrap=True)
    console.print(f"[bold]{plan.name}[/bold]: {plan.predictor}, profile {plan.profile}, sides {', '.join(plan.sides)}")
    facts = Table(show_header=False, box=None, pad_edge=False)
    for name, value in (
        ("training examples wanted", f"{plan.examples:,}"),
        ("training examples declared", f"{plan.declared:,}"),
        ("privacy of each record", f"epsilon = {plan.epsilon:g}, sum of delta over all records <= {plan.delta:g}"),
        ("expected error on honest queries", f"at most {plan.expected_error:.4f} (but with probability {plan.beta:g})"),
        ("honest share of the stream", f"at least {plan.gamma:g}"),
        ("slicing", f"{plan.slicing}, each side gets {plan.share:.0%} of its stripe"),
        ("memory", f"{_bytes(plan.phases[0].memory_bytes)} in phase 1, {_bytes(plan.memory_bytes)} at most"),
        ("rounds in all", f"{plan.rounds:.3g} ({_years(plan.rounds)})"),
    ):
        facts.add_row(name, value)
    console.print(facts)
    table = Table("phase", "rounds", "delta", "points a side", "mediums", "noise", "thresholds", "Stopper", "memory")
    for index, phase in enumerate(plan.phases):
        if _SHOWN <= index < len(plan.phases) - 1:
            if index == _SHOWN:
                table.add_row(*["..."] * 9)
            continue
        for kind, instance in (("", phase.start), ("re-armed", phase.rearmed)):
            table.add_row(
                kind or str(phase.phase),
                "" if kind else f"{phase.rounds:,}",
                "" if kind else f"{phase.delta:.3g}",
                f"{instance.points:,}",
                f"{instance.mediums:,}",
                f"{instance.law} {instance.scale:.4g}",
                f"{instance.low:,} to {instance.high:,}",
                "" if kind else f"eps {phase.stopper.epsilon:.3g} at {phase.stopper.threshold:,}",
                "" if kind else _bytes(phase.memory_bytes),
            )
    console.print(table)


def _bytes(count: int) -> str:
    return f"{count / 2**20:.1f} MiB"


def _years(rounds: int) -> str:
    return f"{rounds / 1e4 / _SECONDS_A_YEAR:,.0f} years at 10,000 queries a second"
