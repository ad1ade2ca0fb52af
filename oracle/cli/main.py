"""The `perpetua` command: its sub-commands, and one place where errors become one clear line and an exit code."""

import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer
from typer.exceptions import Abort, TyperException

from oracle.cli.commands import LazyCommands, register
from oracle.errors import (
    BusError,
    PerpetuaError,
    RefusedError,
    ResourceError,
    SourceError,
    StateError,
    StorageError,
)
from oracle.runtime.memory import close_memory

__all__ = ["app", "main", "run"]

app = typer.Typer(
    name="perpetua",
    help="A private, everlasting prediction oracle: it answers an endless stream of queries and protects both the "
    "training examples and every query with differential privacy.",
    cls=LazyCommands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
register(app)

_EXIT_CODES: tuple[tuple[type[PerpetuaError], int], ...] = (
    (RefusedError, 2),
    (StateError, 3),
    (StorageError, 4),
    (SourceError, 4),
    (BusError, 5),
    (ResourceError, 70),
)


@app.callback(invoke_without_command=True)
def _root(
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if show_version:
        from oracle.cli.version import version

        typer.echo(f"perpetua {version()}")
        raise typer.Exit


def main() -> None:
    """Be the command: run the command line in a process whose memory nobody else can have, and exit."""
    _fill_streams()
    run(before=close_memory)


def _fill_streams() -> None:
    """Open nothing in place of each standard stream that is closed: the next file would get its number, and its text.

    Python's own `sys.stdin` and `sys.stdout` stay None then, so that queries and answers are not lost without a word.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def run(before: Callable[[], None] = lambda: None) -> None:
    """Run the command line; exit 0 done, 1 a check failed, 2 refused, 3 state, 4 disk or source, 5 bus, 130 stopped."""
    try:
        before()
        code = app(standalone_mode=False)
    except PerpetuaError as exc:
        _say(str(exc))
        sys.exit(next((number for kind, number in _EXIT_CODES if isinstance(exc, kind)), 1))
    except Abort:
        sys.exit(130)
    except TyperException as exc:
        if exc.format_message():  # empty where the help was shown instead
            text = exc.format_message().replace(": Value error, ", ": ", 1)  # pydantic's words, which name no value
            _say(f"{text} (see perpetua --help, or perpetua COMMAND --help)")
        sys.exit(exc.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as exc:
        if isinstance(exc, OSError) and exc.strerror is not None:  # else it is no file's: `TimeoutError` is one too
            _say(f"{exc.filename or 'output'}: {exc.strerror}")
            sys.exit(4)
        if os.environ.get("PERPETUA_DEBUG") == "1":
            raise
        _say(f"internal error: {type(exc).__name__}; set PERPETUA_DEBUG=1 for a traceback, which may hold private data")
        sys.exit(70)
    sys.exit(code if isinstance(code, int) else 0)


def _say(message: str) -> None:
    typer.echo(f"perpetua: {message}", err=True)
