"""The rules and the configuration for Prometheus, by promtool and in a real Prometheus."""

import re
import subprocess

import pytest
import yaml

from tests.support.monitored import METRICS, PAID_METRICS, REST_METRICS, TRUTH_METRICS, monitored
from tests.support.prometheus import DEPLOY, program

_FOLDER = DEPLOY / "prometheus"
_RULES = yaml.safe_load((_FOLDER / "perpetua.rules.yml").read_text())
_ALERTS = {rule["alert"]: rule for group in _RULES["groups"] for rule in group["rules"] if "alert" in rule}
_RECORDS = {rule["record"] for group in _RULES["groups"] for rule in group["rules"] if "record" in rule}
_UNIT_TESTS = sorted((DEPLOY.parent / "tests" / "deploy").glob("*.rules.test.yml"))
_NAME = re.compile(r"\b(?:\w+:)?perpetua_\w+(?::\w+)?")


def _promtool(*arguments):
    return subprocess.run([program("promtool"), *map(str, arguments)], capture_output=True, text=True, check=False)


def test_promtool_accepts_rules_and_configuration():
    """Prometheus's own tool finds no fault with either file, lint included."""
    rules = _promtool("check", "rules", "--lint=all", "--lint-fatal", _FOLDER / "perpetua.rules.yml")
    assert rules.returncode == 0, rules.stdout + rules.stderr
    config = _promtool("check", "config", "--syntax-only", _FOLDER / "prometheus.yml")
    assert config.returncode == 0, config.stdout + config.stderr


@pytest.mark.slow
@pytest.mark.parametrize("path", _UNIT_TESTS, ids=lambda path: path.name)
def test_every_alert_fires_when_it_must_and_only_then(path):
    """The unit tests of the rules pass."""
    result = _promtool("test", "rules", path)
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_alert_has_a_unit_test_in_which_it_fires_and_one_in_which_it_is_silent():
    """No alert is without both."""
    firing: set[str] = set()
    silent: set[str] = set()
    for path in _UNIT_TESTS:
        for group in yaml.safe_load(path.read_text())["tests"]:
            for check in group.get("promql_expr_test", []):
                for name in re.findall(r'ALERTS\{alertname="(\w+)"', check["expr"]):
                    (firing if check["exp_samples"] else silent).add(name)
    assert firing == silent == set(_ALERTS)


def test_rules_name_only_what_the_daemon_and_the_rules_export():
    """A rule on a metric that nobody exports would be silent for ever."""
    named = {name for rule in (*_ALERTS.values(), *_all_rules()) for name in _NAME.findall(rule["expr"])}
    assert named - _RECORDS <= METRICS | PAID_METRICS | REST_METRICS | TRUTH_METRICS
    assert len(named & METRICS) >= 15


def _all_rules():
    return [rule for group in _RULES["groups"] for rule in group["rules"]]


def test_the_runbook_has_a_paragraph_for_each_alert_and_no_other():
    """Whoever is woken by an alert finds it under its name."""
    headings = re.findall(r"^### (Perpetua\w+)$", (DEPLOY / "README.md").read_text(), re.MULTILINE)
    assert sorted(headings) == sorted(_ALERTS)


def test_a_shard_that_is_not_ready_raises_the_alert_in_a_real_prometheus(tmp_path, run_prometheus):
    """Prometheus scrapes with the token, is silent while all is well, and says which shard is not ready."""
    with monitored(shards=2, bearer="opens-it-for-tests") as subject, run_prometheus(tmp_path, subject) as server:
        server.until(lambda: server.query("model:perpetua_shards:count"), "the first rules are evaluated")
        server.until(lambda: server.query("shard:perpetua_rounds:rate5m > 0"), "there are rates")
        server.until(lambda: server.firing() == set(), "nothing is wrong")
        subject.gauges["perpetua_ready"].labels("vfr", "1").set(0)
        server.until(lambda: server.firing() == {"PerpetuaNotReady"}, "the alert fires")
        (alert,) = [alert for alert in server.get("alerts")["alerts"] if alert["state"] == "firing"]
        assert alert["labels"] == {
            "alertname": "PerpetuaNotReady", "severity": "critical", "model": "vfr", "shard": "1"
        }  # fmt: skip
        assert alert["annotations"]["summary"] == "shard 1 of vfr has not been ready for 5 minutes"
        subject.gauges["perpetua_ready"].labels("vfr", "1").set(1)
        server.until(lambda: server.firing() == set(), "the alert ends")


def test_a_target_that_refuses_the_token_is_down(tmp_path, run_prometheus):
    """A wrong token does not look like health."""
    with monitored(bearer="another") as subject, run_prometheus(tmp_path, subject, bearer="wrong") as server:
        server.until(lambda: server.firing() == {"PerpetuaDown"}, "the alert fires")
        assert server.query('up{job="perpetua"} == 0')
