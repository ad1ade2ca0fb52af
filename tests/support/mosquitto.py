"""A real Mosquitto on loopback: own configuration, free port, own folder; killed by its process id."""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.support.ports import free_port
from tests.support.waiting import TIMEOUT, eventually

_PLACES: Final = "/usr/sbin:/usr/local/sbin"


def mosquitto_binary() -> str:
    """Return where the broker's program is.

    Raises:
        AssertionError: It is not installed: the tests cannot be run then, and must not pass.
    """
    found = shutil.which("mosquitto") or shutil.which("mosquitto", path=_PLACES)
    assert found is not None, "mosquitto is not installed: apt-get install --no-install-recommends mosquitto"
    return found


def write_passwords(path: Path, **users: str) -> None:
    """Write a broker's password file: names and passwords."""
    program = shutil.which("mosquitto_passwd")
    assert program is not None
    for number, (name, password) in enumerate(users.items()):
        create = [] if number else ["-c"]
        subprocess.run([program, "-b", *create, str(path), name, password], check=True, capture_output=True)
    path.chmod(0o644)


class Mosquitto:
    """A broker with a folder of its own, which keeps its port and what it has stored.

    It stores on a clean stop and every second (`autosave_interval 1`); after SIGKILL it has lost what came since.

    Args:
        folder: Made if it is missing.
        settings: Further lines of its configuration, of the whole broker.
        listener: Further lines about its listener; anonymous clients are let in unless something is said here.
    """

    def __init__(self, folder: Path, settings: Sequence[str] = (), listener: Sequence[str] = ()) -> None:
        self.folder = folder
        self.port = free_port()
        self._settings = list(settings)
        self._listener = list(listener) or ["allow_anonymous true"]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def server(self) -> str:
        """Its address, "host:port"."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> Self:
        """Start it, and wait until it listens."""
        self.folder.mkdir(exist_ok=True)
        store = self.folder / "store"
        store.mkdir(exist_ok=True)
        lines = self.settings_of(store)
        config = self.folder / "broker.conf"
        config.write_text("\n".join(lines) + "\n")
        with (self.folder / "broker.out").open("ab") as output:
            self._process = subprocess.Popen(
                [mosquitto_binary(), "-c", str(config)], stdout=output, stderr=output, stdin=subprocess.DEVNULL
            )
        self._wait_until_it_listens()
        return self

    def settings_of(self, store: Path) -> list[str]:
        """Return the lines of its configuration."""
        return [
            "per_listener_settings false",
            *self.places(store),
            "persistence true",
            "autosave_interval 1",
            "max_queued_messages 0",
            "max_inflight_messages 100",
            *self._settings,
            f"listener {self.port} 127.0.0.1",
            *self._listener,
        ]

    def places(self, store: Path) -> list[str]:
        """Return the lines about where it stores and logs, and whose it is."""
        logged = [f"log_type {kind}" for kind in ("error", "warning", "notice")]
        return [
            f"persistence_location {store}/",
            f"log_dest file {self.folder / 'broker.log'}",
            *logged,
            f"user {_user()}",
        ]

    def stop(self, *, kill: bool = False) -> None:
        """Stop it, or kill it at once; what it does not hear while it is paused, it hears then."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        self._process.send_signal(signal.SIGCONT)
        self._process.wait(TIMEOUT)
        self._process = None

    def restart(self, *, kill: bool = False) -> None:
        """Stop or kill it, and start it again at its port with what it had stored."""
        self.stop(kill=kill)
        self.start()

    def pause(self) -> None:
        """Stop its process as a cut network would: connections stay, nothing moves."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(kill=True)

    def _wait_until_it_listens(self) -> None:
        def listens() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, f"mosquitto ended: {self._said()}"
            try:
                socket.create_connection(("127.0.0.1", self.port), TIMEOUT).close()
            except OSError:
                return False
            return True

        eventually(listens, what=self._said)

    def _said(self) -> str:
        return "".join(path.read_text() for path in sorted(self.folder.glob("broker.[lo]*")))


def _user() -> str:
    """Return whose the broker is to be: as root it would become another user, who cannot read its folder."""
    return "root" if os.geteuid() == 0 else str(os.geteuid())
