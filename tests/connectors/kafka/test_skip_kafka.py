"""A message on Kafka that stops a partition's shard is passed over, and nothing else is different."""

import json
import re
import shutil
import sys

import pytest

from oracle.accounting.ledger import MessageSkipped, decode
from tests.support.folders import perpetua
from tests.support.kafka import wait_until
from tests.support.poisoned import FAILING, body
from tests.support.shards import bodies

_SKIP = re.compile(r"the record at offset (\d+)\) .* --partition 0 --position (\d+)")


def _serve(model, config):
    return model.start([sys.executable, "-m", "tests.support.poisoned", "serve", str(config)], "serve.log")


def test_partition_goes_on_behind_a_message_that_was_passed_over(model):
    """The daemon names the record; `skip` commits; the answers to all others are those of a log without it."""
    config = model.config()
    contents = [*bodies(30), body(FAILING, 0.5), *bodies(30, seed=2)]
    model.ask(contents)
    assert _serve(model, config).wait(60) == 3
    text = next(line["error"] for line in model.log() if line.get("event") == "shard.failed")
    found = _SKIP.search(text)
    assert found is not None, text
    assert (int(found[1]), int(found[2])) == (30, 31)
    assert len(model.values()) == 30
    checked = perpetua("check", config)
    assert b"shard 0: last commit is at position 30; the next message ends at 31" in checked.stdout
    assert perpetua("skip", config, "--position", "30", "--yes").returncode == 2
    skipped = perpetua("skip", config, "--position", "31", "--yes")
    assert skipped.returncode == 0, skipped.stderr
    daemon = _serve(model, config)
    wait_until(lambda: model.count() >= len(contents))
    daemon.terminate()
    assert daemon.wait(60) == 0
    values = model.values()
    assert json.loads(values.pop(30))["error"] == "skipped"
    expected = model.expected([*contents[:30], b"?", *contents[31:]])
    assert values == [*expected[:30], *expected[31:]]
    events = [decode(answer.value) for answer in model.read(f"{model.name}.ledger", partitions=1)]
    assert [event for event in events if isinstance(event, MessageSkipped)] == [MessageSkipped(30, 31)]
    (note,) = model.read(f"{model.name}.dead", partitions=1)
    assert json.loads(note.value)["reason"] == "skipped"
    verdict = perpetua("replay", config, "--from", model.folder / "state.genesis", "--verify")
    assert verdict.stdout.startswith(b"identical: 61 messages, 60 rounds"), verdict


@pytest.mark.slow
def test_two_skips_and_a_lost_snapshot(model):
    """The list stands in the group's offset: a state that knows of neither re-executes past both."""
    config = model.config()
    contents = [*bodies(5), body(FAILING, 0.5), *bodies(5, seed=2), body(FAILING, 0.25), *bodies(5, seed=3)]
    model.ask(contents)
    state, old = model.folder / "state", model.folder / "old"
    shutil.copytree(state, old)
    for position in (6, 12):
        daemon = _serve(model, config)
        assert daemon.wait(60) == 3
        assert perpetua("skip", config, "--position", str(position), "--yes").returncode == 0
    daemon = _serve(model, config)
    wait_until(lambda: model.count() >= len(contents))
    daemon.kill()
    daemon.wait(60)
    shutil.rmtree(state)
    old.rename(state)
    model.ask(bodies(3, seed=4))
    daemon = _serve(model, config)
    wait_until(lambda: model.count() >= len(contents) + 3)
    daemon.terminate()
    assert daemon.wait(60) == 0
    replies = [json.loads(value) for value in model.values()]
    assert [index for index, reply in enumerate(replies, 1) if reply.get("error") == "skipped"] == [6, 12]
    assert replies[-1]["round"] == len(contents) - 2 + 2


@pytest.mark.slow
def test_message_right_behind_a_snapshot_is_passed_over_in_public(model):
    """The state stands where the commit does, so that nothing is read again before the message that is passed over."""
    config = model.config()
    model.ask(bodies(30))
    daemon = _serve(model, config)
    wait_until(lambda: model.count() >= 30)
    daemon.terminate()
    assert daemon.wait(60) == 0
    model.ask([body(FAILING, 0.5), *bodies(5, seed=2)])
    assert _serve(model, config).wait(60) == 3
    text = next(line["error"] for line in model.log() if line.get("event") == "shard.failed")
    found = _SKIP.search(text)
    assert found is not None, text
    assert perpetua("skip", config, "--position", found[2], "--yes").returncode == 0
    daemon = _serve(model, config)
    wait_until(lambda: model.count() >= 36)
    daemon.terminate()
    assert daemon.wait(60) == 0
    assert [json.loads(value).get("error") for value in model.values()] == [*[None] * 30, "skipped", *[None] * 5]
    events = [decode(answer.value) for answer in model.read(f"{model.name}.ledger", partitions=1)]
    assert [event for event in events if isinstance(event, MessageSkipped)] == [MessageSkipped(30, int(found[2]))]
