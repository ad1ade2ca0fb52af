"""What tests of several connectors ask: a Schema Registry."""

from collections.abc import Iterator

import pytest

from tests.support.registry import RegistryUnderTest


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryUnderTest]:
    """A real registry; each worker has one of its own, with a store in memory."""
    with RegistryUnderTest(tmp_path_factory.mktemp("registry")) as running:
        yield running
