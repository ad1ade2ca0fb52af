"""`perpetua topics --create` on brokers that report new topics late, as busy ones do, or not at all."""

import contextlib
import dataclasses
import json

import pytest
from confluent_kafka import KafkaException

from connectors.kafka.metadata import look
from connectors.kafka.topics import describe, describe_made, make_missing
from oracle.cli.main import run
from oracle.errors import BusError
from tests.support.folders import long_plan, make_state
from tests.support.kafka import KafkaModelUnderTest


@pytest.fixture
def fresh(broker, request, tmp_path):
    """A model with a state, and no topic."""
    made = KafkaModelUnderTest(broker, f"{request.node.name.partition('[')[0]}", tmp_path)
    make_state(tmp_path / "state", long_plan())
    yield made
    for name in (made.queries, made.answers, made.marks, f"{made.name}.ledger", f"{made.name}.dead"):
        with contextlib.suppress(KafkaException):  # the test may not have made it
            broker.delete_topic(name)


@pytest.fixture
def late(monkeypatch):
    """Return a function after which brokers do not report a topic until they were asked so often."""
    asked = []

    def hide(name, times):
        async def late_look(client, names):
            found = await look(client, names)
            asked.append(found[name].there)
            if sum(asked) > times:
                return found
            return found | {name: dataclasses.replace(found[name], there=False, leaders={})}

        monkeypatch.setattr("connectors.kafka.topics.look", late_look)
        return asked

    return hide


def test_it_waits_until_all_that_it_made_are_reported(fresh, late, monkeypatch, capsys):
    """Created topics that are not reported yet are no problem to tell of: it ends with 0, and lists them."""
    config = fresh.config()
    asked = late(fresh.answers, 2)
    monkeypatch.setattr("sys.argv", ["perpetua", "topics", str(config), "--create", "--json"])
    with pytest.raises(SystemExit) as ended:
        run()
    found = json.loads(capsys.readouterr().out)
    assert (ended.value.code, found["problems"]) == (0, [])
    assert {fresh.queries, fresh.answers} <= set(found["made"]) == set(found["topics"])
    assert asked == [False, True, True, True]


async def test_it_says_which_one_is_not_reported(fresh, late):
    """Where brokers do not report one in time, that is trouble that may pass, and it names the topic."""
    settings = dataclasses.replace(fresh.settings, request_seconds=0.5)
    late(fresh.answers, 1000)
    made = await make_missing(settings, await describe(settings), 1, 2000, 1)
    with pytest.raises(BusError, match=rf"^topic {fresh.answers}: was created, but the brokers do not report it yet"):
        await describe_made(settings, made)
