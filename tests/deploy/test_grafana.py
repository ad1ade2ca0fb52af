"""The Grafana dashboard: its queries in a real Prometheus, its structure, and how it is provisioned."""

import json
import re
from functools import partial

import pytest
import yaml

from tests.support.monitored import METRICS, TRUTH_METRICS, monitored
from tests.support.prometheus import DEPLOY

_DASHBOARD = json.loads((DEPLOY / "grafana" / "perpetua.json").read_text())
_PANELS = [panel for panel in _DASHBOARD["panels"] if panel["type"] != "row"]
_QUERIES = [(panel["title"], target["expr"]) for panel in _PANELS for target in panel["targets"]]
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_LABEL_VALUES = re.compile(r"label_values\((?P<series>.+), (?P<label>\w+)\)")
_KNOWN = {"bytes", "cps", "dateTimeFromNow", "none", "percentunit", "s", "sci", "short"}
"""Grafana's names of the units that are used."""


def _substituted(expression):
    """Put values in the panel_box of the dashboard's variables, as Grafana does."""
    for name, value in {"$__rate_interval": "1m", "$model": "vfr", "$shard": "(0|1)"}.items():
        expression = expression.replace(name, value)
    assert "$" not in expression
    return expression


@pytest.fixture(scope="module")
def server(tmp_path_factory, run_prometheus):
    """A Prometheus that has monitored two shards for long enough that there are rates."""
    with (
        monitored(bearer="opens-it-for-tests") as subject,
        run_prometheus(tmp_path_factory.mktemp("prometheus"), subject) as server,
    ):
        server.until(lambda: server.query("sum by (le) (rate(perpetua_answer_seconds_bucket[1m])) > 0"), "rates")
        yield server


def test_every_query_of_the_dashboard_returns_series(server):
    """No panel stays empty: each expression parses, and finds what the daemon exports."""
    assert len(_QUERIES) >= 30
    for title, expression in _QUERIES:
        server.until(partial(server.query, _substituted(expression)), f"{title}: {expression}")


def test_the_variables_find_the_model_and_its_shards(server):
    """The lists at the top are filled from labels that are there."""
    found = {}
    for variable in _DASHBOARD["templating"]["list"]:
        match = _LABEL_VALUES.fullmatch(variable.get("definition", ""))
        if match:
            assert variable["query"]["query"] == variable["definition"]
            series = {"match[]": _substituted(match["series"])}
            found[variable["name"]] = server.get(f"label/{match['label']}/values", **series)
    assert found == {"model": ["vfr"], "shard": ["0", "1"]}


def test_the_annotation_with_alerts_parses(server):
    """Alerts are marked on every panel; while none fires there is none to mark."""
    (annotation,) = _DASHBOARD["annotations"]["list"]
    assert annotation["datasource"] == _SOURCE
    assert server.query(annotation["expr"]) == []


def test_every_metric_of_the_daemon_is_shown():
    """Whatever `serve` and `truth` export has a panel_box on the dashboard (of a histogram, one of its parts)."""
    text = " ".join(expression for _, expression in _QUERIES)
    shown = set(re.findall(r"perpetua_\w+", text))
    exported = METRICS | TRUTH_METRICS
    assert shown <= exported
    families = {re.sub(r"_(bucket|count|sum)$", "", name) for name in exported}
    assert families == {re.sub(r"_(bucket|count|sum)$", "", name) for name in shown}


def test_panels_have_ids_of_their_own_units_and_the_chosen_data_source():
    """Panels are told apart, say what their numbers are, and work with any Prometheus that is chosen."""
    ids = [panel["id"] for panel in _DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    for panel in _PANELS:
        assert panel["fieldConfig"]["defaults"]["unit"] in _KNOWN, panel["title"]
        assert panel["title"], panel["id"]
        assert panel["description"], panel["id"]
        references = [target["refId"] for target in panel["targets"]]
        assert len(references) == len(set(references)), panel["title"]
        for holder in (panel, *panel["targets"]):
            assert holder["datasource"] == _SOURCE, panel["title"]
    assert "${datasource}" in {f"${{{variable['name']}}}" for variable in _DASHBOARD["templating"]["list"]}


def test_panels_neither_overlap_nor_leave_the_screen():
    """Every panel has a panel_box of its own on Grafana's grid of 24 columns."""
    taken: set[tuple[int, int]] = set()
    for panel in _DASHBOARD["panels"]:
        panel_box = panel["gridPos"]
        assert panel_box["x"] + panel_box["w"] <= 24, panel["title"]
        cells = {
            (column, line)
            for column in range(panel_box["x"], panel_box["x"] + panel_box["w"])
            for line in range(panel_box["y"], panel_box["y"] + panel_box["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


def test_grafana_is_provisioned_with_the_dashboard_and_the_prometheus_of_the_compose_file():
    """The files that Grafana reads at its start point to where the compose file puts things."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    mounts = {mount["target"]: mount["source"] for mount in compose["services"]["grafana"]["volumes"][1:]}
    provisioning = DEPLOY / "grafana" / "provisioning"
    assert (DEPLOY / mounts["/etc/grafana/provisioning"]).resolve() == provisioning
    (source,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert "prometheus" in compose["services"]
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    assert source["jsonData"]["timeInterval"] == config["global"]["scrape_interval"]
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "perpetua.yml").read_text())["providers"]
    shown = mounts[f"{provider['options']['path']}/perpetua.json"]
    assert (DEPLOY / shown).resolve() == DEPLOY / "grafana" / "perpetua.json"
