"""A model on Kafka is retired: its ledger says so, and no copy of its state answers, wherever it is."""

import shutil

import pytest

from oracle.config.daemon import load_config
from oracle.errors import RetiredError
from oracle.hosting.kafka import open_model
from tests.support.folders import perpetua
from tests.support.kafka import wait_until
from tests.support.kafka_here import serve_here
from tests.support.shards import bodies


def _events(model):
    return [event.body for event in model.read(f"{model.name}.ledger")]


def test_retired_while_served_it_is_refused_and_then_it_ends(model):
    """By the folder and by the configuration, before the first snapshot too; stopped, it ends once and for all."""
    config = model.config()
    daemon = model.serve(config)
    wait_until(lambda: "daemon.serving" in model.events(), what=lambda: model.log()[-5:])
    for given in (model.folder / "state", config):
        refused = perpetua("retire", given)
        assert refused.returncode == 3
        assert b"another process holds it; stop it first" in refused.stderr
    model.ask(bodies(30))
    model.wait_for_answers(30)
    daemon.terminate()
    assert daemon.wait(60) == 0
    shutil.copytree(model.folder / "state", model.folder / "copy")
    for _ in range(2):
        ended = perpetua("retire", config)
        assert ended.returncode == 0, ended.stderr
    last = [event for event in _events(model) if event["kind"] == "model-retired"]
    assert len(last) == 1
    assert last[0]["round"] == 30
    with pytest.raises(RetiredError, match=r"model tiny was retired .* it answers no more"):
        open_model(load_config(config))
    model.ask(bodies(10))
    with pytest.raises(RetiredError, match="the model was retired here, and no copy of its state answers"):
        serve_here(model.config("copy.toml", state="copy"), lambda _log: model.count() > 30)
    assert model.count() == 30


def test_a_member_of_the_group_elsewhere_is_in_the_way(model):
    """Another host serves a copy of the state: its lock is not seen, but the group has it."""
    shutil.copytree(model.folder / "state", model.folder / "copy")
    daemon = model.serve(model.config("copy.toml", state="copy"))
    wait_until(lambda: "daemon.serving" in model.events(), what=lambda: model.log()[-5:])
    refused = perpetua("retire", model.config())
    assert refused.returncode == 2
    assert b"it has members" in refused.stderr
    assert (model.folder / "state" / "key").exists()
    daemon.terminate()
    assert daemon.wait(60) == 0
