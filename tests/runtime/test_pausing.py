"""A daemon that is to pause: what was taken is answered and durable, and nothing more is taken until it goes on."""

import asyncio
import io
import json

from oracle.runtime.pausing import PauseWatch
from oracle.telemetry.log import PublicLog
from oracle.telemetry.records import State
from oracle.telemetry.reporter import Reporter
from tests.support.memory_bus import MemoryLog, MemorySink
from tests.support.shards import (
    CountingSource,
    bodies,
    daemon_over,
    deliveries_of,
    new_shard,
    new_store,
    process_in_batches,
    small_plan,
)
from tests.support.waiting import until


def _daemon(log, paused):
    output = io.StringIO()
    reporter = Reporter(small_plan(), PublicLog(output, "json", "tiny"))
    source = CountingSource(log)
    daemon = daemon_over(log, new_store(), MemorySink(log), source=source, reporter=reporter, paused=paused)
    return daemon, source, reporter, output


def _events(output):
    return [json.loads(line)["event"] for line in output.getvalue().splitlines()]


async def test_nothing_is_taken_while_it_pauses_and_it_goes_on_where_it_was():
    """Told once each; the answers are those of a run that never paused; a stop asked for meanwhile is a clean one."""
    contents = bodies(60)
    log = MemoryLog.of(contents[:20], live=True)
    paused = False
    daemon, source, reporter, output = _daemon(log, lambda: paused)
    running = asyncio.create_task(daemon.run())
    await until(lambda: len(log.replies) == 20)
    paused = True
    await until(lambda: reporter.telemetry.state is State.PAUSED)
    asked = source.fetches
    for body in contents[20:]:
        log.append(body)
    await asyncio.sleep(1.0)
    assert (source.fetches, len(log.replies)) == (asked, 20)
    assert not reporter.telemetry.answers
    paused = False
    await until(lambda: len(log.replies) == 60)
    assert reporter.telemetry.state is State.SERVING
    paused = True
    await until(lambda: reporter.telemetry.state is State.PAUSED)
    daemon.stop()
    assert await running == 60
    assert [reply.body for reply in log.replies] == process_in_batches(new_shard(), deliveries_of(contents)).replies
    assert [event for event in _events(output) if event in {"daemon.paused", "daemon.resumed"}] == [
        "daemon.paused",
        "daemon.resumed",
        "daemon.paused",
    ]


async def test_paused_from_its_start_it_restores_and_answers_nothing():
    """It is where its commits are, and what waits is answered as soon as it goes on."""
    log = MemoryLog.of(bodies(30), live=True)
    paused = True
    daemon, source, reporter, _ = _daemon(log, lambda: paused)
    running = asyncio.create_task(daemon.run())
    await until(lambda: reporter.telemetry.state is State.PAUSED)
    assert reporter.telemetry.restored
    assert (source.fetches, log.replies) == (0, [])
    paused = False
    await until(lambda: len(log.replies) == 30)
    daemon.stop()
    assert await running == 30


async def test_the_watch_knows_at_once_looks_again_and_keeps_what_it_knows_of_a_disk_that_fails():
    """A folder that cannot be looked at changes nothing, and the watch goes on."""
    said: list[bool | OSError] = [True]

    def look():
        if isinstance(said[0], OSError):
            raise said[0]
        return said[0]

    watch = PauseWatch(look)
    async with watch.watching():
        assert watch()
        said[0] = OSError("gone")
        await asyncio.sleep(1.2)
        assert watch()
        said[0] = False
        await until(lambda: not watch())
