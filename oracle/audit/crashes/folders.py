"""Folders that daemons serve from, which are killed, and started again where they end by themselves."""

import multiprocessing
import os
import runpy
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from oracle.accounting.ledger import SideRearmed
from oracle.errors import ResourceError, StateError
from oracle.planning.plan import BoxPlan
from oracle.receipts.ledgers import read_ledger
from oracle.state.folder import FolderStore
from oracle.state.format import Snapshot
from oracle.state.keys import create_key_file

__all__ = ["Serve", "ServedFolder", "serve", "serve_and_kill", "serve_past_the_end", "serve_to_the_end"]

Serve = Callable[[str], None]
"""Serves the configuration at this path, in a process of its own."""

_STALL_SECONDS: Final = 120.0
"""Seconds without a new answer, or to a clean end, after which a daemon counts as stuck."""

_TRIES: Final = 3
"""Times that a daemon is started before it is given up: a machine may kill one, or be out of something for a while."""

_DONE, _REFUSES = 0, 3
"""Exit statuses with which a daemon says that it is done, or that the state or the log is not as it was left."""

_PLAN_ENDED: Final = "the plan's last phase has ended"

_POLL: Final = 0.002

_CONTEXT: Final = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["oracle.cli.main", "oracle.cli.serve.command", "oracle.hosting.files", __name__])


def serve(configuration: str) -> None:
    """Be `python -m oracle.cli serve CONFIG.toml`."""
    sys.argv = ["perpetua", "serve", configuration]
    runpy.run_module("oracle.cli", run_name="__main__")


def _child(serve_it: Serve, configuration: str, log: str) -> None:
    """Run a daemon whose output goes to a file."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for standard in (1, 2):
        os.dup2(descriptor, standard)
    os.close(descriptor)
    for name in [name for name in os.environ if name.startswith("PERPETUA_")]:
        del os.environ[name]
    serve_it(configuration)


class ServedFolder:
    """A folder with a state and the log that is answered from it.

    Args:
        folder: A new one.
        plan: The plan.
        snapshot: The first.

    Attributes:
        fed: Messages in the log.
    """

    def __init__(self, folder: Path, plan: BoxPlan, snapshot: Snapshot) -> None:
        self._folder, self.fed = folder, 0
        folder.mkdir()
        (folder / "state").mkdir(mode=0o700)
        with FolderStore.open(folder / "state", create_key_file(folder / "state" / "key")) as store:
            store.write_plan(plan.encode())
            store.save(snapshot)

    def configure(self, *, follow: bool) -> Path:
        """Write the configuration and return it."""
        path = self._folder / "serve.toml"
        path.write_text(
            f'[state]\nfolder = "{self._folder}/state"\nsnapshot_rounds = 30\n'
            f'[source]\nkind = "jsonl"\npath = "{self._folder}/q.jsonl"\nfollow = {str(follow).lower()}\n'
            f'[sink]\nkind = "jsonl"\npath = "{self._folder}/out.jsonl"\nledger = "{self._folder}/ledger.jsonl"\n'
            "[service]\nbatch_rows = 7\n"
        )
        return path

    def feed(self, bodies: Sequence[bytes]) -> None:
        """Append messages to the log."""
        with (self._folder / "q.jsonl").open("ab") as file:
            file.write(b"".join(body + b"\n" for body in bodies))
        self.fed += len(bodies)

    def answers(self) -> list[bytes]:
        """Return the complete lines of answers so far."""
        try:
            return (self._folder / "out.jsonl").read_bytes().split(b"\n")[:-1]
        except FileNotFoundError:
            return []

    def start(self, serve_it: Serve, *, follow: bool) -> BaseProcess:
        """Start a daemon."""
        process = _CONTEXT.Process(
            target=_child, args=(serve_it, str(self.configure(follow=follow)), str(self._folder / "log"))
        )
        process.start()
        return process

    def ledger(self) -> list[bytes]:
        """Return the complete lines of the ledger so far."""
        return (self._folder / "ledger.jsonl").read_bytes().split(b"\n")[:-1]

    def rearmed_after(self, start: int) -> int | None:
        """Return the first round from `start` on before which the ledger says that a side was armed afresh."""
        events = read_ledger(self._folder / "ledger.jsonl")
        rounds = [event.round for event in events if isinstance(event, SideRearmed) and event.round >= start]
        return min(rounds, default=None)

    def last_words(self) -> str:
        """Return the end of the daemons' log; the model is synthetic, so nothing in it is private."""
        return " ".join((self._folder / "log").read_text(errors="replace")[-400:].split())


def serve_and_kill(served: ServedFolder, serve_it: Serve, answers: int) -> None:
    """Serve until so many answers are there, then kill the daemon.

    Raises:
        StateError: It refuses to go on.
        ResourceError: It cannot be kept running.
    """
    _serve(served, serve_it, answers, follow=True)


def serve_to_the_end(served: ServedFolder, serve_it: Serve) -> None:
    """Serve all that is there.

    Raises:
        StateError: The daemon refuses to go on, or leaves something unanswered.
        ResourceError: It cannot be kept running.
    """
    _serve(served, serve_it, served.fed, follow=False)


def serve_past_the_end(served: ServedFolder, serve_it: Serve) -> None:
    """Serve a log that goes on behind the plan's last round, until the daemon says so and ends by itself.

    Raises:
        StateError: It ends otherwise.
        ResourceError: It does not end, or something else ends it.
    """
    for _ in range(_TRIES):
        process = served.start(serve_it, follow=True)
        process.join(_STALL_SECONDS)
        stuck = process.is_alive()
        process.kill()
        process.join()
        if not stuck and process.exitcode == _REFUSES and _PLAN_ENDED in served.last_words():
            return
        if not stuck and process.exitcode in {_DONE, _REFUSES}:
            msg = (
                f"audited daemon: behind the plan's last round it exited with {process.exitcode}: {served.last_words()}"
            )
            raise StateError(msg)
    msg = f"audited daemon: behind the plan's last round it does not end by itself: {served.last_words()}"
    raise ResourceError(msg)


def _serve(served: ServedFolder, serve_it: Serve, answers: int, *, follow: bool) -> None:
    """Serve so far; where a daemon ends by itself or is stuck, start it again: a crash more must change nothing."""
    why, done = "", False
    for _ in range(_TRIES):
        process = served.start(serve_it, follow=follow)
        try:
            if _came_so_far(served, process, answers, follow=follow):
                return
        finally:
            stuck = process.is_alive()
            process.kill()
            process.join()
        done = not stuck and process.exitcode == _DONE
        why = "it makes no progress" if stuck else f"it exited with {process.exitcode}"
        if not stuck and process.exitcode == _REFUSES:  # no machine does that
            msg = f"audited daemon: {why}: {served.last_words()}"
            raise StateError(msg)
    msg = f"audited daemon: {why}, {_TRIES} times: {served.last_words()}"
    raise StateError(msg) if done else ResourceError(msg)


def _came_so_far(served: ServedFolder, process: BaseProcess, answers: int, *, follow: bool) -> bool:
    """Wait for so many answers, of a daemon that does not follow also for its end; return whether they came."""
    most, deadline = -1, 0.0
    while True:
        alive = process.is_alive()  # before answers are counted: behind its end come no more
        count = len(served.answers())
        if count >= answers and (follow or not alive):
            return follow or process.exitcode == _DONE
        if count > most:
            most, deadline = count, time.monotonic() + _STALL_SECONDS
        if not alive or time.monotonic() > deadline:
            return False
        process.join(_POLL)
