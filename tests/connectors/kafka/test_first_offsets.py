"""Partitions whose logs begin at different offsets: one number cannot serve them, a table by partition can."""

import asyncio
from dataclasses import replace

import pytest

from connectors.kafka.source import KafkaSource
from oracle.config.daemon import load_config
from oracle.errors import InputError, SourceError
from oracle.hosting.kafka import open_model
from tests.connectors.kafka.conftest import unique_name
from tests.support.kafka import KafkaModelUnderTest
from tests.support.shards import bodies


@pytest.fixture
def uneven(broker, request, tmp_path):
    """Settings of a topic whose partition 0 has the records 50 to 60, and partition 1 those from 2 to 5."""
    model = KafkaModelUnderTest(broker, unique_name(request), tmp_path, partitions=2).create()
    for partition, (first, last) in enumerate(((50, 60), (2, 5))):
        model.ask(bodies(last), partition=partition)
        model.delete_records(first, partition=partition)
    return model.settings


def begun(settings, partition):
    """Return where a state that has answered nothing begins."""

    async def look():
        source = KafkaSource(settings, partition)
        try:
            await source.open(None)
            return source.progress.reached
        finally:
            await source.close()

    return asyncio.run(look())


def test_each_partition_begins_where_its_own_log_does(uneven):
    """The number that one of them needs is behind the other's end; a table gives each its own."""
    with pytest.raises(
        SourceError, match=r"begins at offset 50: .* source.first_offset.0 = 50 for this partition alone$"
    ):
        begun(uneven, 0)
    one = replace(uneven, first_offset=50)
    assert begun(one, 0) == 50
    with pytest.raises(SourceError, match=r"ends at offset 5, before source.first_offset = 50; .*first_offset.1 = 2$"):
        begun(one, 1)
    each = replace(uneven, first_offset={0: 50, 1: 2})
    assert (begun(each, 0), begun(each, 1)) == (50, 2)


def test_a_partition_without_a_shard_has_no_first_offset(model):
    """One that the state has no shard for is a slip, and is refused before anything is served."""
    config = model.config(source="first_offset.1 = 20")
    with pytest.raises(InputError, match=r"source.first_offset.1.*must be below 1"):
        open_model(load_config(config))
