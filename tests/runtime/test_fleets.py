"""Many models in one process: what ends one of them does not end the others, and the end tells of it."""

import asyncio
import io
import json
import os
import signal
import time
from pathlib import Path

import pytest

from connectors.retry import Backoff
from oracle.errors import BusError, RefusedError, ResourceError, StateError, StorageError
from oracle.runtime.fleet import Fleet
from oracle.runtime.fleets import Fleets
from oracle.telemetry.log import PublicLog
from oracle.telemetry.models import Models
from oracle.telemetry.observers import Observers
from oracle.telemetry.registry import Registry
from tests.support.shards import small_plan
from tests.support.waiting import limits_of, until


class _Shard:
    """A shard that serves until it is told to stop, or to end, or to fail."""

    def __init__(self):
        self.serving = True
        self.stopped = False
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def stop(self):
        self.stopped = True
        self.end()

    def end(self, error=None):
        if not self._ended.done():
            self._ended.set_result(0) if error is None else self._ended.set_exception(error)

    async def run(self):
        return await self._ended


class _Group:
    """A group that gives each model that is in it one partition, and can fail."""

    def __init__(self):
        self.error = asyncio.get_running_loop().create_future()

    async def run(self, _on_trouble):
        await self.error


class _Place:
    def __init__(self, fleet, served):
        self._fleet = fleet
        self._served = served

    async def run(self, _on_trouble):
        self._served()
        self._fleet.assigned(frozenset({0}))
        await asyncio.Event().wait()


class _Process:
    """Models of one shard each.

    Attributes:
        shards: All shards that were made of each model, the newest last.
        broken: What opening a model raises, by name.
    """

    def __init__(self, *names, pause=0.0, drain_seconds=30.0):
        self.output = io.StringIO()
        log = PublicLog(self.output, "json", "" if len(names) > 1 else names[0])
        self.models = Models(names, log, version="1")
        self.shards: dict[str, list[_Shard]] = {name: [] for name in names}
        self.broken: dict[str, Exception] = {}
        opens = {name: lambda name=name: self._open(name) for name in names}
        self.fleets = Fleets(
            opens, self.models, drain_seconds=drain_seconds, pauses=lambda: Backoff(pause or 0.001, pause or 0.001)
        )
        self.group = _Group()
        self.running = asyncio.create_task(self.fleets.run(self.group))

    async def _open(self, name):
        await asyncio.sleep(0)
        if name in self.broken:
            raise self.broken[name]
        registry = Registry(small_plan(), self.models.log_of(name), version="1", grouped=True, model=name)
        self.models.opened(name, registry, lambda _shard: Path())

        def shard(_partition):
            self.shards[name].append(_Shard())
            return self.shards[name][-1]

        fleet = Fleet(shard, registry, drain_seconds=1.0, retry_seconds=0.0, clock=time.monotonic)
        return fleet, _Place(fleet, lambda: self.models.served(name))

    async def serving(self, *names):
        """Wait until each of these has a shard that serves."""
        await until(lambda: all(self.shards[name] and not self.shards[name][-1]._ended.done() for name in names))

    def events(self, event):
        lines = map(json.loads, self.output.getvalue().splitlines())
        return [(line.get("model"), line.get("error")) for line in lines if line["event"] == event]


async def test_models_are_served_beside_each_other_and_stop_together():
    """Each has its shards; a stop ends all of them cleanly."""
    process = _Process("a", "b", "c")
    await process.serving("a", "b", "c")
    process.fleets.stop()
    await process.running
    assert all(shards[-1].stopped for shards in process.shards.values())
    assert process.events("model.failed") == []


@pytest.mark.parametrize("error", [StateError("no state"), RefusedError("no topic"), RuntimeError("secret")])
async def test_a_model_that_cannot_be_opened_stops_no_other_and_is_tried_again(error):
    """It is down, in words that hide what is foreign, once in the log; mended, it is served, and is down no more."""
    process = _Process("a", "b")
    process.broken["a"] = error
    await process.serving("b")
    await until(lambda: "a" in process.models.all_down)
    text = process.models.all_down["a"].text
    assert text == ("internal error: RuntimeError" if isinstance(error, RuntimeError) else str(error))
    observers = Observers(process.models, 60.0)
    assert ("a", "model") in {(found.model, found.check) for found in observers.not_ready()}
    await asyncio.sleep(0.02)  # several tries
    del process.broken["a"]
    await process.serving("a")
    assert process.events("model.failed") == [("a", text)]
    assert not process.models.all_down
    assert not process.shards["b"][0].stopped
    process.fleets.stop()
    await process.running


async def test_a_model_whose_shards_have_all_failed_is_opened_again():
    """The other one serves on with the same shard."""
    process = _Process("a", "b")
    await process.serving("a", "b")
    process.shards["a"][0].end(StateError("log diverged"))
    await until(lambda: len(process.shards["a"]) == 2)
    assert process.events("model.failed") == [("a", "log diverged")]
    assert len(process.shards["b"]) == 1
    assert not process.shards["b"][0].stopped
    process.fleets.stop()
    await process.running


async def test_the_end_tells_which_failed():
    """A stop is clean for those that serve; the process then ends with the error of the one that does not."""
    process = _Process("a", "b", "c", pause=60.0)
    process.broken["b"] = StorageError("disk")
    process.broken["c"] = StateError("key")
    await process.serving("a")
    await until(lambda: len(process.models.all_down) == 2)
    process.fleets.stop()
    with pytest.raises(StorageError, match=r"^model b: disk; model c failed too$"):
        await process.running
    assert process.shards["a"][0].stopped


async def test_where_none_can_go_on_the_process_ends():
    """One has failed, one has answered all that it is to answer: nobody is served any more."""
    process = _Process("a", "b", pause=60.0)
    process.broken["a"] = RefusedError("denied")
    await process.serving("b")
    await until(lambda: "a" in process.models.all_down)
    assert not process.running.done()
    process.shards["b"][0].end()
    with pytest.raises(RefusedError, match=r"^model a: denied$"):
        await process.running


async def test_where_all_have_ended_so_does_the_process():
    """Without an error."""
    process = _Process("a", "b")
    await process.serving("a", "b")
    process.shards["a"][0].end()
    await asyncio.sleep(0.01)
    assert not process.running.done()
    process.shards["b"][0].end()
    await process.running


async def test_the_only_model_ends_the_process_with_its_own_error():
    """Nothing is tried again, and nothing is said of models."""
    process, error = _Process("a"), StateError("no state")
    process.broken["a"] = error
    with pytest.raises(StateError) as caught:
        await process.running
    assert caught.value is error
    assert process.events("model.failed") == []


async def test_want_of_resources_ends_all():
    """A restart mends it, and what is short is the process's."""
    process = _Process("a", "b", pause=60.0)
    await process.serving("a", "b")
    process.shards["a"][0].end(ResourceError("no memory"))
    with pytest.raises(ResourceError, match="model a: no memory"):
        await process.running
    assert process.shards["b"][0].stopped


async def test_a_group_that_refuses_us_ends_all():
    """All are stopped cleanly before that is told."""
    process = _Process("a", "b")
    await process.serving("a", "b")
    process.group.error.set_exception(RefusedError("group g: denied"))
    with pytest.raises(RefusedError, match=r"^group g: denied$"):
        await process.running
    assert all(shards[-1].stopped for shards in process.shards.values())


async def test_trouble_with_the_group_is_every_models_and_is_logged_once():
    """None is in the group then."""
    process = _Process("a", "b")
    await process.serving("a", "b")
    process.models.bus_failed(BusError("nobody answers"))
    assert process.events("bus.unavailable") == [(None, "nobody answers")]
    told = [one.registry.telemetry for one in process.models.all_opened.values()]
    assert [(one.model, one.joined, one.bus_failures) for one in told] == [("a", False, 1), ("b", False, 1)]
    process.fleets.stop()
    await process.running


async def test_the_limit_ends_with_the_stop(monkeypatch):
    """What a process does after its shards have stopped cannot make it exit with 124."""
    limits = limits_of(monkeypatch)
    process = _Process("a", "b")
    process.fleets.install_signals(lambda _code: None)
    await process.serving("a", "b")
    os.kill(os.getpid(), signal.SIGTERM)
    await process.running
    (limit,) = limits
    assert limit.cancelled()
    assert process.events("daemon.draining") == [(None, None)]
