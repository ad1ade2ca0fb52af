"""`perpetua serve` and `check` with `[web]`: the real daemon as a process, asked over HTTP."""

import io
import json
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from oracle.cli.serve.web import web_beside
from oracle.config.web import WebConfig
from oracle.errors import LogDivergedError
from oracle.telemetry.log import PublicLog
from oracle.telemetry.models import Models
from oracle.telemetry.registry import Registry
from tests.support.folders import command, environment, long_plan, make_state, perpetua, write_config, write_log
from tests.support.shards import bodies
from tests.support.waiting import TIMEOUT, eventually


class _Served:
    """A daemon as a process with a web server, whose log lines and answers can be asked for."""

    def __init__(self, folder, config, stdin=None):
        self._log = folder / "serve.log"
        self._out = (folder / "stdout").open("ab")
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                command("serve", config), stdin=stdin, stdout=self._out, stderr=log, env=environment()
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self._out.close()
        if self.process.stdin is not None:
            self.process.stdin.close()

    def lines(self):
        return [json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{")]

    def port(self):
        self.until(lambda: any(line["event"] == "web.listening" for line in self.lines()))
        return next(line["port"] for line in self.lines() if line["event"] == "web.listening")

    def ask(self, path, **headers):
        return httpx.get(f"http://127.0.0.1:{self.port()}{path}", headers=headers, trust_env=False, timeout=TIMEOUT)

    def until(self, done: Callable[[], bool]):
        def look():
            assert self.process.poll() is None, self._log.read_text()
            return done()

        eventually(look, what=self._log.read_text)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(TIMEOUT)


def _config(folder, web=None, service=None, **tables):
    service = {"log": "json", **(service or {})}
    return write_config(folder, service=service, web={"port": 0, **(web or {})}, **tables)


@pytest.fixture
def state(tmp_path):
    """Return a folder with a state."""
    make_state(tmp_path / "state", long_plan())
    return tmp_path


def _samples(text):
    return {
        (sample.name, sample.labels.get("reason", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_daemon_with_a_web_server(state):
    """Ready with all answers given; its metrics are what the files show; then the folder goes, and it says so."""
    write_log(state, 1000)
    with _Served(state, _config(state, source={"follow": True})) as served:
        answers = state / "out.jsonl"
        served.until(lambda: answers.exists() and answers.read_bytes().count(b"\n") == 1000)
        served.until(lambda: served.ask("/readyz").status_code == 200)
        assert served.ask("/livez").text == "alive\n"
        rejected = sum("error" in json.loads(line) for line in answers.read_text().splitlines())
        served.until(
            lambda: _samples(served.ask("/metrics").text).get(("perpetua_rounds_total", "")) == 1000 - rejected
        )
        found = _samples(served.ask("/metrics").text)
        assert found["perpetua_rejections_total", "wrong-dimension"] == rejected > 0
        assert found["perpetua_ready", ""] == 1
        assert 1 <= found["perpetua_commit_seconds_count", ""] <= found["perpetua_batches_total", ""]
        status = served.ask("/status").json()
        assert (status["ready"], status["shards"][0]["round"]) == (True, 1000 - rejected)
        assert "<title>Perpetua" in served.ask("/").text
        (state / "state").rename(state / "moved")
        served.until(lambda: served.ask("/readyz").status_code == 503)
        (reason,) = served.ask("/readyz").json()["not_ready"]
        assert (reason["shard"], reason["check"]) == (0, "folder")
        assert "shard 0: the snapshot folder cannot be written: No such file" in reason["text"]
        served.until(lambda: _samples(served.ask("/metrics").text)["perpetua_ready", ""] == 0)  # kept for a second
        assert served.ask("/livez").status_code == 200
        (state / "moved").rename(state / "state")
        served.until(lambda: served.ask("/readyz").status_code == 200)
        assert served.stop() == 0


def test_a_diverged_log_can_be_scraped_before_the_process_ends(cli, state):
    """The process shows what stopped it until it is told to stop, or for a while, and ends with code 3 all the same."""
    log = write_log(state, 300)
    shutil.copytree(state / "state", state / "old")
    assert cli("serve", _config(state)).code == 0
    shutil.rmtree(state / "state")
    (state / "old").rename(state / "state")
    first, *rest = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*rest, first]))
    with _Served(state, _config(state)) as served:
        served.until(lambda: any(line["event"] == "shard.failed" for line in served.lines()))
        found = _samples(served.ask("/metrics").text)
        assert (found["perpetua_log_divergences_total", ""], found["perpetua_ready", ""]) == (1, 0)
        assert served.ask("/readyz").status_code == 503
        assert served.ask("/status").json()["shards"][0]["state"] == "failed"
        assert served.stop() == 3
        assert served.lines()[-1]["event"] == "daemon.failed"


@pytest.mark.parametrize(("draining", "shown"), [(False, 1), (True, 0)])
async def test_a_diverged_log_is_shown_for_a_while(tmp_path, monkeypatch, draining, shown):
    """It ends by itself; a process that was told to stop does not wait, nor one without a web server."""
    monkeypatch.setattr("oracle.cli.serve.web._SHOWN_SECONDS", 0.2)
    for table in (WebConfig(port=0), None):
        registry = Registry(long_plan(), PublicLog(io.StringIO()), version="test")
        registry.shard(0)
        log = PublicLog(io.StringIO())
        models = Models.only(registry, lambda _shard: tmp_path, log)
        if draining:
            models.draining("SIGTERM")
        with pytest.raises(LogDivergedError):
            async with web_beside(table, models, log):
                raise LogDivergedError("log diverged")
        assert registry.telemetry.shards[0].divergences == (shown if table else 0)


def test_ready_only_when_restored(state):
    """While what was answered is read again it is not ready, in words; when that is done it is."""
    config = _config(state, source={"kind": "stdin", "path": None}, sink={"kind": "stdout", "path": None})
    lines = [body + b"\n" for body in bodies(200)]
    assert perpetua("serve", config, data=b"".join(lines)).returncode == 0
    with _Served(state, config, stdin=subprocess.PIPE) as served:
        served.until(lambda: served.ask("/readyz").status_code == 503)
        time.sleep(0.5)
        answer = served.ask("/readyz")
        assert answer.status_code == 503
        assert answer.json()["not_ready"] == [{"shard": 0, "check": "restored", "text": "shard 0 is restoring"}]
        found = _samples(served.ask("/metrics").text)
        assert found["perpetua_ready", ""] == 0
        assert ("perpetua_rounds_total", "") not in found
        assert served.process.stdin is not None
        served.process.stdin.write(b"".join(lines))
        served.process.stdin.flush()
        served.until(lambda: served.ask("/readyz").status_code == 200)
        served.until(lambda: _samples(served.ask("/metrics").text).get(("perpetua_rounds_total", "")) == 200)


def test_watching_changes_no_answer(cli, state):
    """Answers, ledger and mark of a daemon that is scraped all the time are those of one without a web server."""
    write_log(state, 3000)
    shutil.copytree(state / "state", state / "twin")
    plain = write_config(
        state,
        name="plain.toml",
        state={"folder": str(state / "twin")},
        sink={"path": str(state / "plain.jsonl"), "ledger": str(state / "plain-ledger.jsonl")},
    )
    assert cli("serve", plain).code == 0
    with _Served(state, _config(state, source={"follow": True}, service={"batch_rows": 50})) as served:
        answers = state / "out.jsonl"
        while not answers.exists() or answers.read_bytes().count(b"\n") < 3000:
            assert served.ask("/metrics").status_code == 200
            assert served.ask("/status").status_code == 200
        assert served.stop() == 0
    assert answers.read_bytes() == (state / "plain.jsonl").read_bytes()
    assert (state / "ledger.jsonl").read_bytes() == (state / "plain-ledger.jsonl").read_bytes()


def test_port_that_is_taken(cli, state):
    """One clear line, exit 2, and nothing was answered."""
    write_log(state, 10)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = cli("serve", _config(state, web={"port": port}))
    assert done.code == 2
    assert f"web.port = {port}: in use by another process at 127.0.0.1" in done.err.splitlines()[-1]
    assert not (state / "out.jsonl").exists() or (state / "out.jsonl").read_bytes() == b""


def test_token_that_others_can_read(cli, state):
    """It is refused before anything is served."""
    write_log(state, 10)
    token = state / "token"
    token.write_text("s3cret-of-the-site")
    token.chmod(0o644)
    done = cli("serve", _config(state, web={"token_file": str(token)}))
    assert done.code == 2
    assert "chmod 600" in done.err.splitlines()[-1]
    assert "s3cret-of-the-site" not in done.err


def _web_findings(cli, config):
    found = {finding["what"]: finding["problem"] for finding in json.loads(cli("check", config, "--json").out)}
    return {what: problem for what, problem in found.items() if what.startswith("web: ")}


def test_check_knows_of_it(cli, state):
    """A port that is free or taken, a token file that is fit or not; beside a daemon the port is not tried."""
    write_log(state, 10)
    token = state / "token"
    token.touch(mode=0o600)
    token.write_text("s3cret-of-the-site\n")
    listening = "web: address is free"
    assert _web_findings(cli, write_config(state)) == {}
    assert _web_findings(cli, _config(state, web={"token_file": str(token)})) == {
        "web: token file": None,
        listening: None,
    }
    token.chmod(0o640)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        config = _config(state, web={"token_file": str(token), "port": port})
        found = _web_findings(cli, config)
        assert "chmod 600" in found["web: token file"]
        assert "in use by another process" in found[listening]
    token.chmod(0o600)
    config = _config(state, web={"token_file": str(token), "port": port}, source={"follow": True})
    with _Served(state, config) as served:
        assert served.port() == port
        assert _web_findings(cli, config) == {
            "web: token file": None,
            "web: the port was not tried, as a daemon serves this state now": None,
        }
