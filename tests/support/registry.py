"""A real Schema Registry for tests, and schemas registered there as any client would."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx

from tests.support.ports import free_port
from tests.support.waiting import eventually

_API: Final = "/apis/ccompat/v7"
_ROOT: Final = Path(__file__).resolve().parents[2]


def fetch_registry() -> tuple[str, Path]:
    """Return a `java` and the folder of what it is to run, fetched if it is the first time."""
    tool = _ROOT / "tests/support/apicurio/fetch.py"
    path = {**os.environ, "PYTHONPATH": str(_ROOT / "deploy/kafka")}
    done = subprocess.run([sys.executable, tool], env=path, stdout=subprocess.PIPE, text=True, check=True, timeout=1200)
    java, folder = done.stdout.splitlines()
    return java, Path(folder)


class RegistryUnderTest:
    """Apicurio's registry on loopback, with a store in memory: a stop forgets everything.

    Args:
        folder: Where its log is.
    """

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}{_API}"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        java, home = fetch_registry()
        (jar,) = home.glob("*runner.jar")
        self._folder.mkdir(parents=True, exist_ok=True)
        options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx384m"]
        own = [f"-Dquarkus.http.port={self.port}", "-Dquarkus.http.host=127.0.0.1", "-Dquarkus.log.console.color=false"]
        with (self._folder / "registry.log").open("ab") as output:
            self._process = subprocess.Popen(
                [java, *options, *own, "-jar", str(jar)], stdout=output, stderr=output, stdin=subprocess.DEVNULL
            )
        eventually(self._answers, what=lambda: f"the registry answers: {self._folder / 'registry.log'}")

    def stop(self) -> None:
        """End it, paused or not."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Pause it for the time of a block: connections are taken, and nothing answers."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._process.pid, signal.SIGCONT)

    def register(self, subject: str, schema: object, kind: str = "AVRO") -> int:
        """Register a schema, and return its id; one that is no text is written as JSON."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return int(self.ask(f"/subjects/{subject}/versions", {"schema": text, "schemaType": kind})["id"])

    def schema(self, number: int) -> dict[str, Any]:
        """Return a schema by its id."""
        found: dict[str, Any] = self.ask(f"/schemas/ids/{number}")
        return found

    def configure(self, subject: str, compatibility: str) -> None:
        """Say how schemas of a subject must go with those before them."""
        with httpx.Client(trust_env=False, timeout=60) as client:
            client.put(f"{self.url}/config/{subject}", json={"compatibility": compatibility}).raise_for_status()

    def ask(self, path: str, content: object = None) -> Any:
        """Return what it answers, to a GET, or a POST of some content."""
        with httpx.Client(trust_env=False, timeout=60) as client:
            found = client.get(self.url + path) if content is None else client.post(self.url + path, json=content)
        return found.raise_for_status().json()

    def _answers(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return self.ask("/subjects") is not None
        return False
