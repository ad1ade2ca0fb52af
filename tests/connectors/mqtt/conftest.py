"""Fixtures on a real Mosquitto: one for each worker, and brokers of a test's own to stop, kill and pause."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.mosquitto import Mosquitto
from tests.support.mqtt import MqttModelUnderTest

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
