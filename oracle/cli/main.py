"""The `perpetua` command: its sub-commands, and one place where errors become one clear line and an exit code."""

import os
import sys
from typing import Annotated

import typer
from typer.exceptions import Abort, TyperException

from oracle.cli import audit, check, demo, hypothesis, init, offsets, plan, replay, serve, status, topics
from oracle.cli.version import version
from oracle.errors import BusError, EngineLostError, PerpetuaError, RefusedError, SourceError, StateError, StorageError

__all__ = ["app", "main"]

app = typer.Typer(
    name="perpetua",
    help="A private, everlasting prediction oracle: it answers an endless stream of queries and protects both the "
    "training examples and every query with differential privacy.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("plan")(plan.run)
app.command("init")(init.run)
app.command("serve")(serve.run)
app.command("status")(status.run)
app.command("check")(check.run)
app.command("topics")(topics.run)
app.add_typer(offsets.app, name="offsets")
app.command("replay")(replay.run)
app.command("hypothesis")(hypothesis.run)
app.command("demo")(demo.run)
app.add_typer(audit.app, name="audit")

_EXIT_CODES: tuple[tuple[type[PerpetuaError], int], ...] = (
    (RefusedError, 2),
    (StateError, 3),
    (StorageError, 4),
    (SourceError, 4),
    (BusError, 5),
    (EngineLostError, 70),
)


@app.callback(invoke_without_command=True)
def _root(
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if show_version:
        typer.echo(f"perpetua {version()}")
        raise typer.Exit


def main() -> None:
    """Run the command line; exit 0 done, 1 a check failed, 2 refused, 3 state, 4 disk or source, 5 bus, 130 stopped."""
    try:
        code = app(standalone_mode=False)
    except PerpetuaError as exc:
        _say(str(exc))
        sys.exit(next((number for kind, number in _EXIT_CODES if isinstance(exc, kind)), 1))
    except Abort:
        sys.exit(130)
    except TyperException as exc:
        if exc.format_message():  # empty where the help was shown instead
            _say(f"{exc.format_message()} (perpetua --help, or perpetua COMMAND --help, tells more)")
        sys.exit(exc.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as exc:
        _say(f"{exc.filename or 'output'}: {exc.strerror}")
        sys.exit(4)
    except Exception as exc:
        if os.environ.get("PERPETUA_DEBUG") == "1":
            raise
        _say(f"internal error: {type(exc).__name__}; set PERPETUA_DEBUG=1 to see where (it may show private data)")
        sys.exit(70)
    sys.exit(code if isinstance(code, int) else 0)


def _say(message: str) -> None:
    typer.echo(f"perpetua: {message}", err=True)
