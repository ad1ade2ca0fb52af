"""Fixtures for the tests of deploy/."""

import socket

import pytest

from tests.connectors.kafka.conftest import broker, own_broker
from tests.support.prometheus import prometheus

__all__ = ["broker", "own_broker"]


@pytest.fixture(scope="session")
def run_prometheus():
    """Runs a real Prometheus that scrapes an exporter, in a folder."""

    def run(folder, subject, bearer=None):
        return prometheus(folder, f"127.0.0.1:{subject.port}", bearer or subject.bearer)

    return run


@pytest.fixture
def unused_port():
    """A port of 127.0.0.1 that is held, but where nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
