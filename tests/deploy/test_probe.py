"""The probe of containers, against an exporter that answers as the daemon does."""

import os
import subprocess
import sys

import pytest

from tests.support.monitored import monitored
from tests.support.prometheus import DEPLOY
from tests.support.waiting import TIMEOUT


def _probe(path, port, token_file=None):
    environment = os.environ | {"PERPETUA_WEB__PORT": str(port)}
    if token_file:
        environment["PERPETUA_WEB__TOKEN_FILE"] = str(token_file)
    command = [sys.executable, "-I", "-S", DEPLOY / "probe.py", *path]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT)


@pytest.fixture(scope="module")
def subject():
    """A daemon's web server that asks for a token."""
    with monitored(bearer="opens-it-for-tests") as subject:
        yield subject


def test_a_daemon_that_lives_needs_no_token(subject):
    """/livez is asked without the token."""
    assert _probe(["livez"], subject.port).returncode == 0


def test_readiness_needs_the_token_and_follows_the_shards(subject, tmp_path):
    """/readyz is asked with the token of the daemon's own file, and decides by the status."""
    token = tmp_path / "token"
    token.write_text("opens-it-for-tests\n")
    assert _probe(["readyz"], subject.port, token).returncode == 0
    subject.gauges["perpetua_ready"].labels("vfr", "1").set(0)
    refused = _probe(["readyz"], subject.port, token)
    subject.gauges["perpetua_ready"].labels("vfr", "1").set(1)
    assert refused.returncode == 1
    assert refused.stdout.startswith("503 ")


def test_a_wrong_token_or_none_is_not_ready(subject, tmp_path):
    """The probe fails where the daemon refuses it, and never prints the token."""
    token = tmp_path / "token"
    token.write_text("something-else")
    for result in (_probe(["readyz"], subject.port, token), _probe(["readyz"], subject.port)):
        assert result.returncode == 1
        assert result.stdout.startswith("401 ")
        assert "something-else" not in result.stdout + result.stderr
    assert _probe(["readyz"], subject.port, tmp_path / "missing").returncode == 1


def test_nothing_that_listens_is_not_alive(unused_port):
    """Without a daemon the probe fails, in one line."""
    result = _probe(["livez"], unused_port)
    assert result.returncode == 1
    assert result.stderr.splitlines() == ["no answer: ConnectionRefusedError"]


@pytest.mark.parametrize("arguments", [[], ["metrics"], ["livez", "readyz"]])
def test_a_probe_for_anything_else_is_refused(arguments):
    """Only the two paths are asked."""
    assert _probe(arguments, 1).returncode == 2
