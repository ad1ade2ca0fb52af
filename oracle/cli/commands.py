"""The table of commands; each is imported when it is called, so that `--help` and completion are quick."""

from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_command

__all__ = ["COMMANDS", "LazyCommands", "module_of", "register"]

COMMANDS: Final = {
    "plan": "Print the plan of a model: examples needed, expected error, phases, delta schedule, memory. Reads "
    "no data.",
    "suggest": "Print what your rows buy: the least epsilon and alpha, and the fewest rows, for each predictor. "
    "Reads no data.",
    "evaluate": "Measure the error on your own rows before anything is released. The output is not private.",
    "init": "Create the state of a model: plan it, read the labelled rows, write the first snapshot and the key file.",
    "serve": "Answer queries until the source ends or a signal arrives (a second one exits at once).",
    "ask": "Put one query to a running daemon, and print its answer. The query takes a round, as any does.",
    "schema": "Print the schema of a model's queries or answers, for registries and code generators. Reads no data.",
    "truth": "Count, with noise, how many answers the labels that came later agree with: drift seen, privately.",
    "status": "Print a state's public facts, as of its newest snapshot. Needs no key; --json prints all of them.",
    "check": "Check a configuration, its state, source and sink; change nothing. Exits 1 if something would "
    "stop `serve`.",
    "skip": "Skip the message that `serve` stopped at: it takes no round, and its sender gets an error (`skipped`).",
    "pause": "Have a model wait: what was taken is answered, nothing more is fetched, until `perpetua resume`.",
    "resume": "Have a model that was paused (`perpetua pause`) go on where it waits; of many all, unless one is named.",
    "topics": "Check a model's Kafka topics, create missing ones, set others as these are. Exits 1 if `serve` would "
    "stop.",
    "reshard": "Give a model's Kafka topics more partitions, up to the shards that its state was made with.",
    "offsets": "Show, repair or move a model's position on Kafka: the group's offsets and Perpetua's own marks.",
    "budget": "Add up what a row of each data set pays for all models trained on it. Exits 1 if a declared "
    "budget is exceeded.",
    "retire": "End a model for good: erase its keys and snapshots, and leave a receipt. This cannot be undone.",
    "verify": "Verify recorded answers by answering the log again. Publishes nothing and costs no epsilon.",
    "fork": "Answer another log from a snapshot with fresh noise, at a stated cost.",
    "replay": "Old name of `verify` (with --verify) and of `fork` (without it); these take the same options.",
    "hypothesis": "Write what a bisection or a statistics model answers by, as of its newest snapshot.",
    "demo": "Run the oracle on real flights: train on nine months, answer three, crash, resume, and report.",
    "audit": "Attack Perpetua, or what others release; sign and check receipts.",
}
"""What `--help` says of each: the first sentence of what the command says of itself. `oracle.cli.NAME` holds it, or
`oracle.cli.NAME.command` where it has parts: as the function `run`, or, where it has commands of its own, as `app`."""


class LazyCommands(TyperGroup):
    """A group whose commands are imported when one is called; until then they are a name and a sentence."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 -- typer's own types are private
        """Import the command that is called, then do as any group does."""
        if args and args[0] in COMMANDS:
            self.commands[args[0]] = _load(args[0])
        return super().resolve_command(ctx, args)


def register(app: typer.Typer) -> None:
    """Give an app whose class is `LazyCommands` a stand-in for each command."""
    for name, summary in COMMANDS.items():
        app.command(name, help=summary)(_stand_in)


def _stand_in() -> None:
    """Never called: `LazyCommands` has put the command itself in its place."""


def module_of(name: str) -> Any:  # noqa: ANN401 -- what it has is told by `COMMANDS`
    """Import the module that holds a command."""
    module = import_module(f"oracle.cli.{name}")
    return import_module(f"oracle.cli.{name}.command") if hasattr(module, "__path__") else module


def _load(name: str) -> Any:  # noqa: ANN401 -- as above
    module = module_of(name)
    app = getattr(module, "app", None)
    if app is None:
        app = typer.Typer(add_completion=False)
        app.command(name)(module.run)
    return get_command(app)
