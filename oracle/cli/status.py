"""`perpetua status`: what anyone may know about a state, of one shard or many, without its key."""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from oracle.cli.options import AsJson, StateFolder
from oracle.cli.output import Row, figure_table, print_json, print_rows, wide_console
from oracle.cli.plan.page import ABOUT_REARMS, promise_rows
from oracle.planning.promise import Promise
from oracle.state.retired import Retired, read_retired
from oracle.state.shards import shard_count
from oracle.state.status import ShardedStatus, Status, public_status, sharded_status

__all__ = ["run"]

_PRIVACY = ("epsilon", "delta")
_COLUMNS = ("round", "phase", "phase_rounds_left", "rearms", "delta_spent", "forks", "snapshot_age_seconds")
_OF_QUESTIONS: Final = frozenset({"phase", "phases", "phase_rounds_left", "rearms", "delta_spent", "delta_limit"})
_SENSELESS: Final[Mapping[str, frozenset[str]]] = {
    "classical": frozenset({"phase", "phases", "rearms", "delta"}),
    "bisection": frozenset({"rearms"}),
    "statistics": _OF_QUESTIONS,
    "sparse-vector": _OF_QUESTIONS,
    "distribution": _OF_QUESTIONS,
}
"""Facts that a predictor's page leaves out: no sides are armed afresh, one phase has no end, delta is no sum."""

_QUESTION_NAMES: Final = {"round": "questions so far", "alpha": "error promised", "paid": "paid answers"}
_NAMES: Final = {
    ("classical", "phase_rounds_left"): "rounds left",
    ("ensemble", "rearms"): "lives begun early",
    ("ensemble", "rested"): "rounds rested",
    ("ensemble", "rest_left"): "rounds to rest now",
    **{
        (predictor, name): words
        for predictor in ("statistics", "sparse-vector", "distribution")
        for name, words in _QUESTION_NAMES.items()
    },
}
"""What is called otherwise on a predictor's page."""

_SPENT: Final = {
    "statistics": "answers come from what was learned, with no promise (`verified` is false)",
    "sparse-vector": "only what follows from them is answered (else `budget-spent`)",
}
"""What happens when no paid answer is left, and the promise with it."""

_PAYING: Final = {**_SPENT, "distribution": "they settle all others, which cost nothing then"}
"""What happens when no paid answer is left."""

_PROVED: Final = {
    True: "epsilon and delta, by theorems, for one run of one state",
    False: "nothing: epsilon and delta are nominal",
}
_BISECTION_PHASES: Final = {1: "1, learns", 2: "2, recalls"}
_ARMS_SIDES: Final = frozenset({"rectangles", "stumps"})


def run(folder: StateFolder, as_json: AsJson = False) -> None:
    """Print a state's public facts, as of its newest snapshot. Needs no key; --json prints all of them."""
    retired = read_retired(folder)
    if retired is not None:
        _tell_retired(retired, as_json=as_json)
        return
    shards = shard_count(folder)
    status = public_status(folder) if shards == 1 else sharded_status(folder, shards)
    if as_json:
        print_json(status)
        return
    console = wide_console()
    if isinstance(status, ShardedStatus):
        console.print(_by_shard(status))
        console.print()
    _print_facts(console, status)


def _tell_retired(retired: Retired, *, as_json: bool) -> None:
    facts = {"model": retired.model, "retired": retired.retired, "shards": retired.events}
    if as_json:
        print_json(facts)
        return
    typer.echo(f"{retired.model}: retired ({retired.retired}); its keys are erased, and it answers no more")
    for number, event in enumerate(retired.events):
        spent = f"epsilon {event.epsilon:g}, delta spent {event.delta_spent:.6g} of {event.delta_limit:g}"
        paid = "" if isinstance(event.paid, msgspec.UnsetType) else f", {event.paid:,} answers paid"
        typer.echo(f"shard {number}: {event.round:,} rounds, phase {event.phase}, {spent}{paid}")


def _print_facts(console: Console, status: Status | ShardedStatus) -> None:
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in msgspec.structs.asdict(status).items():
        skipped = isinstance(value, tuple | Promise | msgspec.UnsetType)  # shards have a table of their own
        if skipped or name in _SENSELESS.get(status.predictor, ()):
            continue
        nominal = " (nominal)" if name.startswith(_PRIVACY) and not status.proved else ""
        table.add_row(_heading(status.predictor, name), _fact(status.predictor, name, value) + nominal)
    console.print(table)
    console.print()
    print_rows(console, promise_rows(status.promise, _over(status)))
    console.print()
    print_rows(console, _terms(status))


def _over(status: Status | ShardedStatus) -> str | None:
    """Return why nothing new is promised; None where it is (only a shard of its own has paid answers)."""
    if isinstance(status, ShardedStatus):
        return None
    left = None if isinstance(status.paid_left, msgspec.UnsetType) else status.paid_left
    return status.promise.over(status.round, left if status.predictor in _SPENT else None)


def _terms(status: Status | ShardedStatus) -> Iterator[Row]:
    """Yield what the facts' names mean, as far as they need it."""
    if status.predictor in _ARMS_SIDES:
        yield "phase", "rounds under one key; nothing is used up when it ends, and the next one is planned already"
        yield ABOUT_REARMS
    if status.predictor == "ensemble":
        yield "rests", "rounds whose queries get no answer (`resting`): a life was spent early; they end by themselves"
    yield (
        "forks",
        "other logs answered from this state (`perpetua fork`); each is one more run that its records pay for",
    )
    if status.predictor in _PAYING:
        yield "paid", f"answers that the data paid for; when none is left, {_PAYING[status.predictor]}"
        yield "delta", "of each training row, for all answers for ever; `delta of forks` is what forks add to it"
    elif status.delta_limit:
        who = "record" if status.protects_queries else "training row"
        yield "delta", f"each {who} pays its own once; all that is spent, added up, stays below the limit for ever"


def _by_shard(status: ShardedStatus) -> Table:
    predictor = status.predictor
    columns = [name for name in _COLUMNS if name not in _SENSELESS.get(predictor, ())]
    columns += ["rested", "rest_left"] if predictor == "ensemble" else []
    table = figure_table("shard", *(_heading(predictor, name) for name in columns), texts=0)
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
