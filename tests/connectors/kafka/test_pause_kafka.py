"""A model on Kafka is paused: its processes stay members and keep their partitions, and answer nothing meanwhile."""

import time

from tests.support.folders import perpetua
from tests.support.kafka import wait_until
from tests.support.shards import bodies


def _members(model):
    (found,) = model.broker.admin.describe_consumer_groups([model.group]).values()
    return [member.member_id for member in found.result().members]


def test_paused_and_resumed_over_a_restart(model):
    """By command: it holds for the process that runs, and for one that is started while it is paused."""
    config = model.config(extra="[web]\nport = 0\n")
    contents = bodies(60)
    first = model.serve(config)
    model.ask(contents[:20])
    model.wait_for_answers(20)
    before = _members(model)
    said = perpetua("pause", config)
    assert (said.returncode, said.stdout.strip().endswith(b": paused")) == (0, True)
    assert perpetua("pause", config).stdout.strip().endswith(b": was paused already")
    wait_until(lambda: "daemon.paused" in model.events(), what=lambda: model.log()[-5:])
    model.ask(contents[20:40])
    time.sleep(3)  # longer than its session
    assert model.count() == 20
    assert _members(model) == before
    assert b"paused" in perpetua("status", model.folder / "state").stdout
    first.terminate()
    assert first.wait(60) == 0
    second = model.serve(config, "second.log")
    wait_until(lambda: "daemon.paused" in model.events("second.log"), what=lambda: model.log("second.log")[-5:])
    assert model.count() == 20
    assert perpetua("resume", config).stdout.strip().endswith(b": goes on")
    model.ask(contents[40:])
    model.wait_for_answers(60)
    assert "daemon.resumed" in model.events("second.log")
    assert "paused" not in perpetua("status", model.folder / "state").stdout.decode()
    assert perpetua("resume", config).stdout.strip().endswith(b": was not paused")
    second.terminate()
    assert second.wait(60) == 0
    assert model.values() == model.expected(contents)
