"""What is closed while the brokers are gone leaves nothing running in the process, however often that happens."""

import asyncio

import pytest

from connectors.kafka.membership import KafkaMembership
from connectors.kafka.settings import KafkaSettings
from connectors.kafka.sink import KafkaSink
from connectors.kafka.source import KafkaSource
from oracle.errors import BusError
from tests.support.waiting import TIMEOUT

_SOURCES = 20


async def opened(sink):
    """Open a sink as soon as the new broker has a group coordinator."""
    while True:
        try:
            return await sink.open()
        except BusError:
            await asyncio.sleep(0.1)


async def left_by(broker, settings):
    """Return what still runs a while after all was closed that was open when the broker was killed."""
    before = asyncio.all_tasks()
    sources = [KafkaSource(settings, partition) for partition in range(_SOURCES)]
    sink = KafkaSink(settings, 0, sources[0].progress)
    await opened(sink)
    for source in sources:
        await source.open(None)
    member_of = asyncio.Event()

    async def revoked(_partitions):
        member_of.clear()

    membership = KafkaMembership(settings)
    held = asyncio.create_task(membership.hold(settings, _SOURCES, lambda _partitions: member_of.set(), revoked))
    member = asyncio.create_task(membership.run(lambda _error: None))
    await member_of.wait()
    fetching = [asyncio.create_task(source.fetch(1, 60.0)) for source in sources]
    await asyncio.to_thread(broker.kill)
    await asyncio.sleep(1.0)
    member.cancel()
    held.cancel()
    await asyncio.gather(*(source.close() for source in sources), sink.close(), member, held, return_exceptions=True)
    await asyncio.gather(*fetching, return_exceptions=True)
    if asyncio.all_tasks() - before:
        await asyncio.wait(asyncio.all_tasks() - before, timeout=TIMEOUT)
    return sorted(str(task.get_coro()) for task in asyncio.all_tasks() - before)


@pytest.mark.slow
def test_what_is_closed_while_the_broker_is_gone_leaves_no_task(own_broker):
    """Twenty sources, a sink and a member, at work when it is killed."""
    queries, answers = own_broker.create_topic("queries", _SOURCES), own_broker.create_topic("answers")
    settings = KafkaSettings(
        servers=(own_broker.servers,), topic=queries, answers=answers, group="g", model="m", request_seconds=3.0
    )
    assert asyncio.run(left_by(own_broker, settings)) == []
