"""Fixtures on a real Mosquitto: one for each worker, and brokers of a test's own to stop, kill and pause."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.mosquitto import Mosquitto
from tests.support.mqtt import Asker, Heard, MqttModelUnderTest
from tests.support.shards import bodies
from tests.support.waiting import eventually

_numbers = itertools.count()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    """The worker's broker; tests that stop, kill or pause a broker start one of their own instead."""
    with Mosquitto(tmp_path_factory.mktemp("mosquitto")) as running:
        yield running


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Mosquitto]:
    """A running broker for one test, to stop, kill and pause at will."""
    with Mosquitto(tmp_path / "broker") as running:
        yield running


def unique_name(request: pytest.FixtureRequest) -> str:
    """Return a name of letters, digits and dashes that no other test of the worker uses."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name)[:60].strip("-")
    return f"{readable}-{next(_numbers)}"


@pytest.fixture
def model(broker: Mosquitto, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MqttModelUnderTest]:
    """A model with a state; what still serves it at the end is killed."""
    made = MqttModelUnderTest(broker, unique_name(request), tmp_path).create()
    yield made
    made.end()


@pytest.fixture
def own_model(own_broker: Mosquitto, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MqttModelUnderTest]:
    """The same on a broker of the test's own."""
    made = MqttModelUnderTest(own_broker, unique_name(request), tmp_path).create()
    yield made
    made.end()


@pytest.fixture
def served(model: MqttModelUnderTest) -> MqttModelUnderTest:
    """A model whose daemon is connected."""
    model.serve(model.config())
    model.wait_for_event("bus.connected")
    return model


def ask(model: MqttModelUnderTest, asker: Asker, contents: list[bytes], count: int | None = None) -> list[Heard]:
    """Publish queries, wait until the asker has heard so many messages (one each by default), and return them all."""
    wanted = len(asker.heard) + len(contents) if count is None else count
    for body in contents:
        asker.ask(model.queries, body)
    return wait_for(model, asker, wanted)


def wait_for(model: MqttModelUnderTest, asker: Asker, count: int) -> list[Heard]:
    """Wait until an asker has heard so many messages, and return all of them."""
    eventually(lambda: len(asker.heard) >= count, what=lambda: (len(asker.heard), model.log()[-5:]))
    return list(asker.heard)


def answer_one(model: MqttModelUnderTest) -> Asker:
    """Begin to serve a model, and return who has been answered one query."""
    model.serve(model.config())
    model.wait_for_event("bus.connected")
    asker = model.asker()
    ask(model, asker, bodies(1))
    return asker
