"""The real daemon, with the web server set as the compose file and the manifests do, under a real Prometheus."""

import json
import re
import subprocess
import sys
from functools import partial

import pytest

from tests.support.folders import command, environment, long_plan, make_state, write_config, write_log
from tests.support.monitored import METRICS, TRUTH_METRICS
from tests.support.ports import free_port
from tests.support.prometheus import DEPLOY, prometheus
from tests.support.waiting import TIMEOUT

_DASHBOARD = json.loads((DEPLOY / "grafana" / "perpetua.json").read_text())
_LATENCY = {f"perpetua_latency_seconds_{part}" for part in ("bucket", "count", "sum")}
_ONLY_KAFKA = {"perpetua_lag_records", "perpetua_lag_seconds", *_LATENCY}
"""What a file cannot tell."""


@pytest.fixture
def daemon(tmp_path):
    """A daemon that answers a growing log; its process, and the environment that its probe needs too."""
    make_state(tmp_path / "state", long_plan())
    write_log(tmp_path, 500)
    config = write_config(tmp_path, source={"follow": True}, state={"snapshot_seconds": 1}, service={"log": "json"})
    token = tmp_path / "token"
    token.write_text("opens-it-for-tests\n")
    token.chmod(0o400)
    web = {"HOST": "0.0.0.0", "PORT": str(free_port()), "TOKEN_FILE": str(token)}  # noqa: S104 -- as in a container
    variables = environment() | {f"PERPETUA_WEB__{name}": value for name, value in web.items()}
    log = tmp_path / "serve.log"
    with log.open("wb") as stream, subprocess.Popen(command("serve", config), stderr=stream, env=variables) as process:
        yield process, variables
        process.kill()


def _probe(variables):
    command = [sys.executable, "-I", "-S", str(DEPLOY / "probe.py"), "readyz"]
    return subprocess.run(command, env=variables, capture_output=True, check=False, timeout=TIMEOUT).returncode


def test_the_real_daemon_fills_the_dashboard_and_raises_alerts(tmp_path, daemon):
    """Every metric and query is the daemon's own; it is ready by the probe; and when it ends, an alert fires."""
    process, variables = daemon
    folder = tmp_path / "prometheus"
    folder.mkdir()
    target = f"127.0.0.1:{variables['PERPETUA_WEB__PORT']}"
    with prometheus(folder, target, "opens-it-for-tests") as server, (tmp_path / "q.jsonl").open("ab") as log:

        def grows():
            """More queries, until there are rates of everything."""
            assert process.poll() is None, (tmp_path / "serve.log").read_text()
            log.write(b'{"id":"a","x":[0.5,0.5]}\nnonsense\n')
            log.flush()
            return server.query("rate(perpetua_snapshot_seconds_count[1m]) > 0 and rate(perpetua_rounds_total[1m]) > 0")

        server.until(grows, "there are rates")
        assert _probe(variables) == 0
        names = {name for name in server.get("label/__name__/values") if name.startswith("perpetua_")}
        assert names == METRICS - _ONLY_KAFKA
        (model,) = server.get("label/model/values")
        for panel in _DASHBOARD["panels"]:
            for target in panel.get("targets", []):
                if not (_ONLY_KAFKA | TRUTH_METRICS) & set(re.findall(r"perpetua_\w+", target["expr"])):
                    expression = target["expr"].replace("$__rate_interval", "1m")
                    expression = expression.replace("$model", model).replace("$shard", "0")
                    server.until(partial(server.query, expression), f"{panel['title']}: {expression}")
        # In the fifth of sixteen short phases, and of each 25 queries one is none; the first only if it saw it.
        fitting = {"PerpetuaDeltaNearlySpent", "PerpetuaRejections"}
        server.until(lambda: server.firing() <= fitting, "nothing else is wrong")
        process.terminate()
        assert process.wait(TIMEOUT) == 0
        server.until(lambda: "PerpetuaDown" in server.firing(), "the alert fires")
        assert _probe(variables) == 1
