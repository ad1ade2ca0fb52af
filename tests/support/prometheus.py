"""A real Prometheus for tests: Debian's binary on a free port of 127.0.0.1, with the rules of deploy/, hurried."""

import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from tests.support.ports import free_port
from tests.support.waiting import TIMEOUT, eventually

DEPLOY: Final = Path(__file__).resolve().parents[2] / "deploy"
_INTERVAL: Final = "1s"
_HOLD: Final = "1s"
"""What every alert's `for` becomes."""


def program(name: str) -> str:
    """Return the path of a program of a Debian package; the test fails if it is missing."""
    path = shutil.which(name)
    assert path, f"{name} is missing: install Debian's package prometheus (or systemd for systemd-analyze)"
    return path


class Prometheus:
    """Asks a running server.

    Args:
        address: Its "http://host:port".
    """

    def __init__(self, address: str) -> None:
        self._address = address

    def get(self, path: str, **parameters: str) -> Any:
        """Return the data of an answer of the HTTP API.

        Raises:
            AssertionError: It refuses, with its reason: an expression that does not parse, for instance.
        """
        url = f"{self._address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:  # noqa: S310 -- always http
                return json.load(answer)["data"]
        except urllib.error.HTTPError as exc:
            raise AssertionError(f"{path} {parameters}: {exc.read().decode()}") from exc

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the samples of an instant query, those that are no number left out."""
        result: list[dict[str, Any]] = self.get("query", query=expression)["result"]
        return [sample for sample in result if sample["value"][1] != "NaN"]

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire."""
        return {alert["labels"]["alertname"] for alert in self.get("alerts")["alerts"] if alert["state"] == "firing"}

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until something holds.

        Raises:
            AssertionError: It does not.
        """
        eventually(condition, what=lambda: what)


@contextmanager
def prometheus(folder: Path, target: str, bearer: str) -> Iterator[Prometheus]:
    """Run a Prometheus with deploy/'s configuration and rules, at one target, every interval shortened.

    Args:
        folder: For its data and files.
        target: "host:port" to scrape in the place of the daemon.
        bearer: The token that it shows.
    """
    binary = program("prometheus")
    address = f"127.0.0.1:{free_port()}"
    _write_files(folder, target, bearer)
    options = [
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
        "--log.level=warn",
    ]
    with (folder / "log").open("w") as log, subprocess.Popen([binary, *options], stdout=log, stderr=log) as process:
        asked = Prometheus(f"http://{address}")
        try:
            asked.until(lambda: _answers(process, address, folder / "log"), "Prometheus is ready")
            yield asked
        finally:
            process.terminate()


def _write_files(folder: Path, target: str, bearer: str) -> None:
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": _INTERVAL, "evaluation_interval": _INTERVAL}
    (job,) = config["scrape_configs"]
    job["scrape_timeout"] = _INTERVAL
    job["static_configs"] = [{"targets": [target]}]
    job["authorization"]["credentials_file"] = "token"
    rules = yaml.safe_load((DEPLOY / "prometheus" / "perpetua.rules.yml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            if "for" in rule:
                rule["for"] = _HOLD
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    (folder / "perpetua.rules.yml").write_text(yaml.safe_dump(rules))
    (folder / "token").write_text(bearer)


def _answers(process: subprocess.Popen[bytes], address: str, log: Path) -> bool:
    assert process.poll() is None, f"Prometheus has ended: {log.read_text()}"
    try:
        with urllib.request.urlopen(f"http://{address}/-/ready", timeout=TIMEOUT):
            return True
    except OSError:
        return False
