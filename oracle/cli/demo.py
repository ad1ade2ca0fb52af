"""`perpetua demo`: real flights through the real commands, with a kill -9 on the way."""

import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from oracle.cli.output import print_rows, wide_console
from oracle.cli.states import state_plan
from oracle.demo.bus import Bus, FileBus, KafkaBus
from oracle.demo.data import INSTALL_HINT, prepare
from oracle.demo.model import EPSILON, least_flights, model_text
from oracle.demo.plot import draw
from oracle.demo.report import summary, what_happened, what_next
from oracle.demo.score import score_files
from oracle.errors import PerpetuaError, RefusedError, StorageError
from oracle.state.status import public_status

__all__ = ["run"]

_FOLDER: Final = Path("build/demo")

_CRASH_AT: Final = 0.4
"""Part of the answers after which the daemon is killed."""

_MARK: Final = "perpetua-demo"
"""A file of this name marks a folder as one that the demo made and may make again."""

_WIDTH: Final = 120
"""Columns of text at most."""

_LOOK: Final = 0.01
"""Seconds between looks at how many answers there are."""


def run(
    folder: Annotated[Path, typer.Option("--folder", help="Folder for its files; replaced each time.")] = _FOLDER,
    servers: Annotated[
        str | None, typer.Option("--kafka", metavar="HOST:PORT", help="Serve over this Kafka broker instead of files.")
    ] = None,
    mqtt: Annotated[
        str | None, typer.Option("--mqtt", metavar="HOST:PORT", help="Serve over this MQTT broker instead of files.")
    ] = None,
) -> None:
    """Run the oracle on real flights: train on nine months, answer three, crash, resume, and report.

    With --kafka the queries come from a topic and the answers go to one,
    exactly once, crash included. With --mqtt they come once at least, and
    repetitions are the same bytes.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise RefusedError(INSTALL_HINT)
    console = wide_console()
    folder = _fresh(folder)
    _step(console, 1, "Joining the flights of 2013 from New York with their weather")
    prepared = prepare(folder)
    (folder / "flights.toml").write_text(model_text(prepared.examples), encoding="utf-8")
    bus = _bus(servers, mqtt, folder)
    (folder / "serve.toml").write_text(bus.config(folder), encoding="utf-8")
    console.print(f"  {prepared.examples:,} labelled flights to learn from, {prepared.asked:,} queries to answer")
    with ThreadPoolExecutor(1) as beside:
        least = beside.submit(least_flights, prepared.examples)
        _step(console, 2, f"Planning for epsilon {EPSILON:g} and making the state")
        _perpetua(console, ["init", "flights.toml", "--data", "train.parquet", "--state", "state"], folder)
        bus.prepare(folder / "serve.toml", prepared.queries, lambda done: console.print(f"  {done}"))
        _step(console, 3, "Answering, and killing the daemon on the way (kill -9)")
        crash, first = _serve_until(console, folder, bus, int(_CRASH_AT * prepared.asked), signal.SIGKILL)
        console.print(f"  killed with {crash:,} answers {'in the file' if bus.ends else 'committed'}")
        _step(console, 4, "Starting it again")
        if bus.ends:
            started = time.monotonic()
            _perpetua(console, ["serve", "serve.toml"], folder)
            second = time.monotonic() - started
        else:
            _, second = _serve_until(console, folder, bus, prepared.asked, signal.SIGTERM)
        seconds = first + second
        score = score_files(bus.collect(), prepared.truth)
        plan = state_plan(folder / "state")
        plot = draw(score, plan.alpha, folder / "error.svg", [crash])
        console.print()
        print_rows(console, summary(plan, public_status(folder / "state"), score, seconds))
        console.print(f"\nThe error over the weeks: {plot}")
        for title, text in (
            ("What just happened", what_happened(prepared, plan, score)),
            (
                "What to try next",
                what_next(prepared, plan, least.result(), folder, _program()),
            ),
        ):
            console.print(f"\n{title}", style="bold")
            console.print(_wrapped(text))


def _bus(servers: str | None, mqtt: str | None, folder: Path) -> Bus:
    if servers and mqtt:
        raise RefusedError("--kafka and --mqtt: name one of them")
    if mqtt:
        from oracle.demo.mqtt_bus import MqttBus

        return MqttBus(mqtt, folder)
    return KafkaBus(servers, folder) if servers else FileBus(folder)


def _fresh(folder: Path) -> Path:
    """Make the demo's folder anew; never touch one that the demo did not make."""
    if folder.exists() and any(folder.iterdir()) and not (folder / _MARK).exists():
        raise RefusedError(f"--folder = '{folder}': is not empty and not a demo's; name another")
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / _MARK).touch()
    except OSError as exc:
        raise StorageError(f"--folder = '{folder}': cannot be made: {exc.strerror}") from exc
    return folder


def _step(console: Console, number: int, what: str) -> None:
    console.print(f"{number}. {what} ...", style="bold")


def _program() -> str:
    """Return how `perpetua` is called from here: by its name where the shell finds it, or else by its path."""
    if shutil.which("perpetua") is not None:
        return "perpetua"
    return shlex.quote(os.path.relpath(Path(sys.executable).with_name("perpetua")))


def _wrapped(text: str) -> str:
    """Return paragraphs as wide as they can be read; commands, which are indented, stay in one line to be pasted."""
    width = min(shutil.get_terminal_size().columns, _WIDTH)
    return "\n".join(
        line if line.startswith(" ") else textwrap.fill(line, width, subsequent_indent="  " * line.startswith("- "))
        for line in text.splitlines()
    )


def _command(arguments: Sequence[str], folder: Path) -> list[str]:
    paths = [str(folder / part) if (folder / part).exists() or part == "state" else part for part in arguments]
    return [sys.executable, "-m", "oracle.cli", *paths]


def _perpetua(console: Console, arguments: Sequence[str], folder: Path) -> None:
    """Run one of Perpetua's own commands as a user would; show its lines only if it fails."""
    command = _command(arguments, folder)
    console.print(f"  $ {_program()} {shlex.join(command[3:])}")
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 -- our own command
    if done.returncode:
        raise PerpetuaError(f"perpetua {arguments[0]}: ended with {done.returncode}: {done.stderr.strip()}")


def _serve_until(console: Console, folder: Path, bus: Bus, wanted: int, number: signal.Signals) -> tuple[int, float]:
    """Serve until there are so many answers, send a signal; return how many there were, and the seconds it took."""
    command = _command(["serve", "serve.toml"], folder)
    console.print(f"  $ {_program()} {shlex.join(command[3:])}")
    started = time.monotonic()
    with (folder / f"serve-{number.name}.log").open("wb") as log:
        daemon = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603 -- our own command
        try:
            while (there := bus.answered()) < wanted and daemon.poll() is None:
                if time.monotonic() - started > bus.timeout_seconds:
                    break
                time.sleep(_LOOK)
        finally:
            daemon.send_signal(number)
            daemon.wait()
    if there < wanted:
        raise PerpetuaError(f"perpetua serve: did not give {wanted:,} answers; see {log.name}")
    return bus.answered(), time.monotonic() - started
