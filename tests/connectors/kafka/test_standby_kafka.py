"""A process that follows what another one serves takes it over without a restore, when that one is killed."""

import asyncio
import contextlib
import io
from typing import Any

import pytest

from oracle.config.daemon import load_config
from oracle.hosting.kafka import KafkaGroup, check_topics, open_model
from oracle.state.waiting import DeferredStore
from oracle.telemetry.log import PublicLog
from oracle.telemetry.registry import Registry
from tests.support.kafka import wait_until
from tests.support.kafka_here import run_here
from tests.support.shards import bodies
from tests.support.waiting import until


def _config(model):
    """Write a configuration of a daemon that follows, and writes no snapshot between its first and its last."""
    path = model.config(source="session_seconds = 2\nstandby = true")
    path.write_text(
        path.read_text().replace("snapshot_rounds = 500", "snapshot_rounds = 99999\nsnapshot_seconds = 999")
    )
    return path


def test_a_killed_owner_is_succeeded_by_one_that_is_there_already(model):
    """Two processes, whichever the group gives the partition to; the answers are those of one run."""
    contents = bodies(900)
    config = _config(model)
    processes = {"one.log": model.serve(config, "one.log")}
    wait_until(lambda: "daemon.serving" in model.events("one.log"), what=lambda: model.log("one.log")[-5:])
    model.ask(contents[:300])
    model.wait_for_answers(300)
    processes["two.log"] = model.serve(config, "two.log")

    def following():
        return next((log for log in processes if model.events(log)[-1:] == ["shard.followed"]), None)

    wait_until(following, what=lambda: [model.log(log)[-5:] for log in processes])
    follows = following() or "two.log"
    model.ask(contents[300:600])
    model.wait_for_answers(600)
    (owner,) = set(processes) - {follows}
    processes[owner].kill()
    processes[owner].wait()
    model.ask(contents[600:])
    model.wait_for_answers(900)
    assert "daemon.recovered" in model.events(follows)
    assert model.values() == model.expected(contents)
    processes[follows].terminate()
    assert processes[follows].wait(60) == 0


class _Followed:
    """In the place of a standby: what was followed so far."""

    def __init__(self, follower):
        self._follower = follower

    running = contextlib.nullcontext

    async def take(self, _partition):
        return self._follower.shard


@pytest.mark.slow
def test_what_was_followed_is_not_restored(model, monkeypatch):
    """Step by step behind a real owner, whose snapshot is old; then no snapshot is read and no round re-executed."""
    contents = bodies(900)
    config = _config(model)
    owner = model.serve(config)

    async def run():
        served = await check_topics(open_model(load_config(config)))
        registry = Registry(served.plan, PublicLog(stream, "json", "m"), version="test", grouped=True)
        group = KafkaGroup(served.settings, [served.settings.topic], lambda _text: None)
        parts: Any = group.open_fleet(served, registry, "test", lambda: None)
        fleet, place = parts
        follower = place.follower(0)
        for count in (300, 600):
            model.ask(contents[count - 300 : count])
            await asyncio.to_thread(model.wait_for_answers, count)
            await follower.follow()
            assert (follower.shard.position, follower.shard.round) == (count, count)
        owner.kill()
        owner.wait()
        place.standby = _Followed(follower)
        monkeypatch.setattr(DeferredStore, "load_latest", None)
        model.ask(contents[600:])
        member = asyncio.create_task(group.membership.run(lambda _error: None))
        serving = asyncio.create_task(fleet.run(place))
        await until(lambda: model.count() >= 900)
        fleet.stop()
        await serving
        member.cancel()
        await asyncio.wait({member})
        await group.close()

    stream = io.StringIO()
    run_here(run())
    (recovered,) = [line for line in stream.getvalue().splitlines() if "daemon.recovered" in line]
    assert '"rounds": 0' in recovered
    assert model.values() == model.expected(contents)
