"""Two daemons under one `source.instance`: the group has one place for both."""

import asyncio
from typing import Any

import pytest

from connectors.kafka.membership import KafkaMembership
from connectors.kafka.settings import KafkaSettings
from oracle.errors import RefusedError
from tests.support.kafka import wait_until
from tests.support.shards import bodies


def test_the_older_of_two_daemons_of_one_instance_ends_and_says_why(model):
    """The newer one has the place, as Kafka has it; the older one is refused by name, once, and takes nothing back."""
    config = model.config(source='session_seconds = 6\ninstance = "one"')
    contents = bodies(40)
    model.ask(contents[:20])
    older = model.serve(config, "older.log")
    wait_until(lambda: model.count() >= 20)
    newer = model.serve(config, "newer.log")
    assert older.wait(60) == 2
    (failed,) = [line["error"] for line in model.log("older.log") if line.get("event") == "daemon.failed"]
    assert "another process has joined as source.instance = 'one'" in failed
    model.ask(contents[20:])
    wait_until(lambda: model.count() >= 40)
    assert model.values() == model.expected(contents)
    assert model.events("newer.log").count("daemon.serving") <= 2
    newer.terminate()
    assert newer.wait(60) == 0


def test_a_restart_under_its_own_instance_is_not_taken_for_another(model):
    """A daemon that was killed comes back under its name and serves; one that was only slow does too."""
    config = model.config(source='session_seconds = 6\ninstance = "one"')
    contents = bodies(40)
    model.ask(contents[:20])
    first = model.serve(config)
    wait_until(lambda: model.count() >= 20)
    first.kill()
    first.wait(60)
    second = model.serve(config)
    model.ask(contents[20:])
    wait_until(lambda: model.count() >= 40)
    assert model.values() == model.expected(contents)
    second.terminate()
    assert second.wait(60) == 0


async def test_a_poll_within_the_rebalance_does_not_hide_it():
    """The client's poll ends with the rebalance, and that one never ends: the group has another in our place."""

    class Rebalancing:
        async def getmany(self, **_how):
            await asyncio.Event().wait()

    settings = KafkaSettings(
        servers=("nowhere:9092",), topic="queries", answers="answers", group="g", model="m", instance="one"
    )
    membership = KafkaMembership(settings)
    replaced = asyncio.get_running_loop().create_future()
    consumer: Any = Rebalancing()
    poll = asyncio.create_task(membership._poll(consumer, replaced))
    await asyncio.sleep(0)
    replaced.set_result(None)
    with pytest.raises(RefusedError, match=r"another process has joined as source\.instance = 'one'"):
        await poll
