"""Fixtures on a real broker: one for the whole run, whatever the number of workers, and topics of a test's own."""

import contextlib
import itertools
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.schema_registry import SchemaRegistryClient

from tests.support.broker import Broker, shared_broker
from tests.support.folders import long_plan
from tests.support.kafka import KafkaModelUnderTest
from tests.support.registry import RegistryUnderTest

_numbers = itertools.count()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The run's broker; tests that stop, kill or pause a broker start one of their own instead.

    Under pytest-xdist all workers share it: the base folder of each lies in the run's, and the run is their parent.
    """
    base = tmp_path_factory.getbasetemp()
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    folder = (base.parent if is_worker else base) / "kafka"
    with shared_broker(folder, die_with=os.getppid() if is_worker else os.getpid()) as running:
        yield running


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    """A running broker for one test, to stop, kill and pause at will."""
    with Broker(tmp_path / "broker") as running:
        yield running


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> Iterator[Callable[..., str]]:
    """A function that makes a topic of the test's own, deleted at its end, and returns its name.

    It takes the number of partitions, the topic's configuration and a word for its name.
    """
    made: list[str] = []

    def make(partitions: int = 1, config: Mapping[str, str] | None = None, word: str = "topic") -> str:
        name = f"{unique_name(request)}-{word}"
        made.append(broker.create_topic(name, partitions, config))
        return name

    yield make
    for name in made:
        with contextlib.suppress(KafkaException):  # the test may have deleted it
            broker.delete_topic(name)


@pytest.fixture
def client(registry: RegistryUnderTest) -> Iterator[SchemaRegistryClient]:
    """Confluent's client of the registry."""
    with SchemaRegistryClient({"url": registry.url}) as made:
        yield made


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    """A name for a consumer group that no other test uses."""
    return f"{unique_name(request)}-group"


def unique_name(request: pytest.FixtureRequest) -> str:
    """Return a name of letters, digits and dashes that no other test of the run uses."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name)[:100].strip("-")
    return f"{readable}-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}-{next(_numbers)}"


@pytest.fixture
def model(broker: Broker, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KafkaModelUnderTest]:
    """A model with topics of one partition and a state; what still serves it at the end is killed.

    A test may name its predictor by an indirect parameter.
    """
    plan = long_plan(getattr(request, "param", "rectangles"))
    made = KafkaModelUnderTest(broker, unique_name(request), tmp_path, plan=plan).create()
    yield made
    made.end()
