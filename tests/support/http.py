"""One model served over HTTP: its state, its daemons as processes, and what asks them."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from oracle.planning.plan import Plan
from tests.support.configs import write_secret
from tests.support.folders import command, long_plan, make_state
from tests.support.ports import free_port
from tests.support.served import Served
from tests.support.waiting import TIMEOUT, eventually

__all__ = ["OTHER", "TOKEN", "HttpModelUnderTest"]

TOKEN = "of-the-first-asker"  # noqa: S105 -- a token of the tests' own
OTHER = "of-the-other-asker"


@dataclass
class HttpModelUnderTest(Served):
    """A model with a port of its own, which its daemons keep.

    Attributes:
        folder: Where its state and configurations are.
        plan: The plan.
    """

    folder: Path
    plan: Plan = field(default_factory=long_plan)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    port: int = field(default_factory=free_port)

    def create(self) -> "HttpModelUnderTest":
        """Make the state and the tokens."""
        make_state(self.folder / "state", self.plan)
        write_secret(self.folder / "tokens", f"{TOKEN}\n{OTHER}\n")
        return self

    def config(self, *, extra: str = "", **sections: str) -> Path:
        """Write a configuration; `sections` are lines added to the table of that name."""
        text = f"""
[state]
folder = "{self.folder / "state"}"
{sections.get("state", "snapshot_rounds = 500")}
[http]
port = {self.port}
tokens_file = "{self.folder / "tokens"}"
{sections.get("http", "")}
[source]
kind = "http"
{sections.get("source", "")}
[sink]
kind = "http"
ledger = "{self.folder / "ledger.jsonl"}"
{sections.get("sink", "")}
[service]
log = "json"
{extra}
"""
        path = self.folder / "serve.toml"
        path.write_text(text)
        return path

    def serve(self, config: Path | None = None, launcher: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """Start a daemon, and wait until it serves; `launcher` are arguments of Python, to break it on purpose."""
        before = self.events().count("daemon.serving")
        line = [sys.executable, *launcher, "serve"] if launcher else command("serve")
        process = self.start([*line, str(config or self.config())], "serve.log")
        eventually(lambda: self.events().count("daemon.serving") > before, what=lambda: self.log()[-5:])
        return process

    def client(self, token: str = TOKEN) -> httpx.Client:
        """Return a client that shows a token."""
        return httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}",
            headers={"Authorization": f"Bearer {token}"},
            trust_env=False,
            timeout=TIMEOUT,
        )

    def stop(self, process: subprocess.Popen[bytes]) -> int:
        """Stop a daemon cleanly and return its exit code."""
        process.terminate()
        return process.wait(TIMEOUT)
