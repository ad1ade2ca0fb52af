"""The daemon that the analyst asks, over a Kafka broker, or over its standard streams where there is none."""

import contextlib
import json
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.folders import command, environment, perpetua, write_config
from tests.support.ports import free_port
from tests.support.waiting import TIMEOUT, eventually

_TOPICS: Final = {"source": "flights.questions", "sink": "flights.answers"}

_SAID: Final = 2000
"""Characters of a failed command's output that are shown: its last ones."""

Ask = Callable[[Sequence[bytes]], list[Mapping[str, Any]]]


def run(*arguments: str | Path) -> None:
    """Run a command of Perpetua's own, as a user would.

    Raises:
        RuntimeError: It fails.
    """
    done = perpetua(*arguments)
    if done.returncode:
        # What a check has found (exit code 1) is on standard output; progress may be before it.
        said = [text.decode().strip()[-_SAID:] for text in (done.stdout, done.stderr)]
        msg = f"perpetua {arguments[0]}: ended with {done.returncode}: {'; '.join(filter(None, said))}"
        raise RuntimeError(msg)


class Daemon:
    """One daemon over `state` in a folder, with its page.

    Args:
        folder: Where the state is; logs go there, too.
        servers: The broker, "host:port"; None takes standard streams.
    """

    def __init__(self, folder: Path, servers: str | None) -> None:
        self._folder = folder
        self._servers = servers
        port = free_port()
        self.page = f"http://127.0.0.1:{port}/"
        web = {"port": port}
        state = {"folder": str(folder / "state"), "snapshot_rounds": 5000}
        if servers is None:
            sink = {"kind": "stdout", "path": None, "ledger": str(folder / "ledger.jsonl")}
            self._config = write_config(folder, state=state, source={"kind": "stdin", "path": None}, sink=sink, web=web)
        else:
            source = {"kind": "kafka", "path": None, "topic": _TOPICS["source"], "session_seconds": 6}
            sink = {"kind": "kafka", "path": None, "topic": _TOPICS["sink"], "ledger": "flights.ledger"}
            sink["dead_letter"] = "flights.dead-letters"
            self._config = write_config(
                folder, state=state, kafka={"servers": [servers]}, source=source, sink=sink, web=web
            )

    @contextlib.contextmanager
    def serving(self) -> Iterator[Ask]:
        """Serve, and lend what asks questions and waits for their answers; stop at the end.

        Raises:
            RuntimeError: It does not end well.
        """
        if self._servers is not None:
            run("topics", self._config, "--create")
        with (
            (self._folder / "serve.log").open("wb") as log,
            subprocess.Popen(
                command("serve", self._config),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment(),
            ) as daemon,
        ):
            try:
                with contextlib.ExitStack() as undo:
                    yield _over_pipes(daemon) if self._servers is None else _over_topics(self._servers, undo)
            finally:
                if self._servers is None and daemon.stdin is not None:
                    daemon.stdin.close()
                else:
                    daemon.terminate()
        if daemon.returncode:
            msg = f"perpetua serve: ended with {daemon.returncode}; see {log.name}"
            raise RuntimeError(msg)

    def status(self) -> Mapping[str, Any]:
        """Return what the page shows, as JSON."""
        with urllib.request.urlopen(f"{self.page}status") as reply:  # noqa: S310 -- our own daemon
            found: Mapping[str, Any] = json.load(reply)
        return found

    def picture(self, path: Path) -> bool:
        """Take a picture of the page; return whether there is a Chromium to do it."""
        browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        if browser is None:
            return False
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1200,1400"]
        flags += ["--virtual-time-budget=10000", f"--screenshot={path}"]
        subprocess.run([browser, *flags, self.page], check=False, capture_output=True, timeout=TIMEOUT)
        return path.exists()


def _over_pipes(daemon: "subprocess.Popen[bytes]") -> Ask:
    assert daemon.stdin is not None
    assert daemon.stdout is not None
    into, out = daemon.stdin, daemon.stdout

    def ask(bodies: Sequence[bytes]) -> list[Mapping[str, Any]]:
        into.write(b"".join(body + b"\n" for body in bodies))
        into.flush()
        return [json.loads(out.readline()) for _ in bodies]

    return ask


def _over_topics(servers: str, undo: contextlib.ExitStack) -> Ask:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 1, "acks": "all"})
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "analyst",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 20,
        }
    )
    undo.callback(consumer.close)
    consumer.assign([TopicPartition(_TOPICS["sink"], 0, 0)])

    def ask(bodies: Sequence[bytes]) -> list[Mapping[str, Any]]:
        for body in bodies:
            producer.produce(_TOPICS["source"], body, partition=0)
        assert producer.flush(TIMEOUT) == 0
        found: list[Mapping[str, Any]] = []

        def all_there() -> bool:
            records = consumer.consume(len(bodies) - len(found), timeout=0.1)
            found.extend(json.loads(record.value() or b"{}") for record in records if not record.error())
            return len(found) == len(bodies)

        eventually(all_there, what=lambda: f"{len(found)} of {len(bodies)} answers")
        return found

    return ask
