"""A monitored model on a real broker: how far its answers are behind, standby, readiness, and metrics of its shards."""

import asyncio
import contextlib
import json
import time

import httpx
import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from connectors.base import Commit, Delivery, Lag, Replies, Reply
from connectors.kafka.sink import KafkaSink
from connectors.kafka.source import KafkaSource
from oracle.errors import BusError
from tests.connectors.kafka.conftest import unique_name
from tests.support.folders import perpetua
from tests.support.kafka import KafkaModelUnderTest, wait_until
from tests.support.shards import bodies
from tests.support.waiting import TIMEOUT

_WEB = "[web]\nport = 0\nready_lag_seconds = 5\n"


def _pair(model):
    """Return the model's source and sink, as the daemon has them, with a clock an hour ahead."""
    source = KafkaSource(model.settings, 0, clock=lambda: time.time() + 3600)
    return source, KafkaSink(model.settings, 0, source.progress)


async def _open(sink):
    """Open a sink; a broker that has just begun may not have a coordinator for the group yet."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            with contextlib.suppress(BusError):
                assert await sink.open() is None
                return
            await asyncio.sleep(0.2)


async def _fetch(source, count):
    """Fetch one by one until there are so many."""
    found: list[Delivery] = []
    async with asyncio.timeout(TIMEOUT):
        while len(found) < count:
            found += (await source.fetch(1, 0.2)).rows()
    return found


async def test_lag_is_what_is_not_committed(broker, request, tmp_path):
    """It counts from the last commit on, what is being committed too; its seconds are the oldest record's age.

    They are, where the broker sets the records' times: an asker can claim any.
    """
    model = KafkaModelUnderTest(broker, unique_name(request), tmp_path)
    model.create(**{"message.timestamp.type": "LogAppendTime"})
    model.ask(bodies(5))
    source, sink = _pair(model)
    assert source.lag() is None
    await _open(sink)
    await source.open(None)
    deliveries = await _fetch(source, 3)
    lag = source.lag()
    assert lag is not None
    assert lag.records == 5
    assert 3600 <= (lag.seconds or 0) < 7200
    seen = []
    real = sink._done_alone

    async def looking(*arguments):
        seen.append(source.lag())
        return await real(*arguments)

    sink._done_alone = looking
    for delivery, left in zip(deliveries, (4, 3, 2), strict=True):
        await sink.commit(Commit(Replies.of([Reply(b"{}")]), [], delivery.position, b"m"))
        assert seen[-1].records == left + 1  # while it was under way
        lag = source.lag()
        assert lag is not None
        assert lag.records == left
    (delivery, *_) = await _fetch(source, 2)
    assert (source.lag() or lag).seconds is not None
    await sink.commit(Commit(Replies.of([Reply(b"{}")] * 2), [], delivery.position + 1, b"m"))
    assert source.lag() == Lag(0, 0.0)
    await source.close()
    await sink.close()
    assert source.lag() is None


async def test_markers_are_no_lag_for_long(model):
    """Records of a transaction are counted when they are committed; its marker goes once it was passed over."""
    model.ask(bodies(2), transaction="t")
    model.ask(bodies(3), transaction="t", abort=True)
    source, sink = _pair(model)
    await _open(sink)
    await source.open(None)
    deliveries = await _fetch(source, 2)
    await sink.commit(Commit(Replies.of([Reply(b"{}")] * 2), [], deliveries[-1].position, b"m"))
    async with asyncio.timeout(TIMEOUT):
        while source.lag() != Lag(0, 0.0):
            assert list((await source.fetch(10, 0.2)).rows()) == []
    await source.close()
    await sink.close()


async def test_what_waits_behind_an_open_transaction_is_lag(model):
    """Committed queries that cannot be read for somebody's open transaction count; how old they are is not known."""
    producer = Producer({"bootstrap.servers": model.broker.servers, "transactional.id": f"{model.name}-open"})
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    producer.produce(model.queries, bodies(1)[0])
    assert producer.flush(TIMEOUT) == 0
    model.ask(bodies(3))
    source, sink = _pair(model)
    await _open(sink)
    await source.open(None)
    async with asyncio.timeout(TIMEOUT):
        while source.lag() != Lag(4, None):
            assert list((await source.fetch(10, 0.2)).rows()) == []
    producer.commit_transaction(TIMEOUT)
    await _fetch(source, 4)
    lag = source.lag()
    assert lag is not None
    assert (lag.records >= 4, lag.seconds) == (True, None)  # the asker's own times
    await source.close()
    await sink.close()


class _Monitored:
    """What can be asked of a daemon that was started with `[web]`."""

    def __init__(self, model, log):
        self._model, self._log = model, log
        wait_until(lambda: "web.listening" in model.events(log))
        self._port = next(line["port"] for line in model.log(log) if line.get("event") == "web.listening")

    def ask(self, path):
        return httpx.get(f"http://127.0.0.1:{self._port}{path}", trust_env=False, timeout=TIMEOUT)

    def reasons(self):
        return [(reason["shard"], reason["check"]) for reason in self.ask("/readyz").json()["not_ready"]]

    def metric(self, name):
        families = text_string_to_metric_families(self.ask("/metrics").text)
        return {
            int(sample.labels["shard"]): sample.value
            for family in families
            for sample in family.samples
            if sample.name == name
        }


def test_a_monitored_daemon_and_its_standby(model):
    """One serves and says how far it is behind; the other stands by, ready, and takes over when the first is gone."""
    config = model.config(extra=_WEB, sink="transaction_seconds = 10")
    first = model.serve(config, "first.log")
    one = _Monitored(model, "first.log")
    wait_until(lambda: one.ask("/readyz").json().get("text") == "serving 1 shard")
    second = model.serve(config, "second.log")
    two = _Monitored(model, "second.log")
    wait_until(lambda: one.ask("/readyz").status_code == two.ask("/readyz").status_code == 200)
    wait_until(lambda: one.ask("/status").json()["shards"] + two.ask("/status").json()["shards"])
    if one.ask("/status").json()["shards"] == []:
        (first, one), (second, two) = (second, two), (first, one)
    assert "standby" in two.ask("/readyz").json()["text"]
    assert two.metric("perpetua_ready") == {}
    model.ask([*bodies(100), b"?"])
    model.wait_for_answers(101)
    wait_until(lambda: one.metric("perpetua_rounds_total") == {0: 100})
    wait_until(lambda: one.metric("perpetua_lag_records") == one.metric("perpetua_lag_seconds") == {0: 0})
    (shard,) = one.ask("/status").json()["shards"]
    assert (shard["state"], shard["rejections"]) == ("serving", {"malformed": 1})
    first.terminate()
    assert first.wait(TIMEOUT) == 0
    wait_until(lambda: two.metric("perpetua_rounds_total") == {0: 100})
    wait_until(lambda: two.ask("/readyz").json().get("text") == "serving 1 shard")
    assert two.metric("perpetua_batches_total") == {0: 0}
    second.terminate()
    assert second.wait(TIMEOUT) == 0


@pytest.mark.parametrize("by", ["LogAppendTime", "CreateTime"])
def test_latency_begins_when_the_broker_took_the_query(broker, request, tmp_path, by):
    """Queries waited longer than a second for the daemon: five at most; where askers set the times, nothing is told."""
    model = KafkaModelUnderTest(broker, unique_name(request), tmp_path)
    model.create(**{"message.timestamp.type": by})
    model.ask([*bodies(4), b"?"])
    asked = time.monotonic()
    wait_until(lambda: time.monotonic() > asked + 1.2)
    try:
        model.serve(model.config(extra=_WEB))
        monitored = _Monitored(model, "serve.log")
        model.wait_for_answers(5)
        wait_until(lambda: monitored.metric("perpetua_rounds_total") == {0: 4})
        if by == "CreateTime":
            assert monitored.metric("perpetua_latency_seconds_count") == {}
            return
        wait_until(lambda: monitored.metric("perpetua_latency_seconds_count") == {0: 5})
        assert monitored.metric("perpetua_latency_seconds_sum")[0] >= 5 * 5.0
    finally:
        model.end()


def test_not_ready_without_a_folder(model):
    """The folder goes and comes back: what is wrong is said, and the shard goes on."""
    model.serve(model.config(extra=_WEB))
    monitored = _Monitored(model, "serve.log")
    wait_until(lambda: monitored.ask("/readyz").status_code == 200)
    (model.folder / "state").rename(model.folder / "moved")
    wait_until(lambda: monitored.reasons() == [(0, "folder")])
    (model.folder / "moved").rename(model.folder / "state")
    wait_until(lambda: monitored.ask("/readyz").status_code == 200)


@pytest.mark.slow
def test_not_ready_without_a_broker(own_broker, tmp_path):
    """It goes and comes back: what is wrong is said, the process lives, and the errors are kept.

    The shard has nothing to do, and no commit to make for a minute: the group's member looks every 15 seconds.
    """
    model = KafkaModelUnderTest(own_broker, "monitored", tmp_path).create()
    try:
        model.serve(model.config(extra=_WEB))
        monitored = _Monitored(model, "serve.log")
        wait_until(lambda: monitored.ask("/readyz").status_code == 200)
        own_broker.kill()
        wait_until(lambda: (None, "restored") in monitored.reasons())
        assert monitored.metric("perpetua_ready") == {0: 0}
        assert monitored.ask("/livez").status_code == 200
        assert monitored.ask("/status").json()["errors"][0]["event"] == "bus.unavailable"
        own_broker.start()
        wait_until(lambda: monitored.ask("/readyz").status_code == 200)
    finally:
        model.end()


def test_check_looks_at_the_web_table(model):
    """The port is tried where no daemon serves the state."""
    done = perpetua("check", model.config(extra=_WEB), "--json")
    found = {finding["what"]: finding["problem"] for finding in json.loads(done.stdout)}
    assert found["web: address is free"] is None
