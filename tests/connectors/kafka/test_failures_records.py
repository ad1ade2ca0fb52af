"""What else a log may hold: tombstones, control records, aborted transactions, holes of compaction."""

import itertools
import shutil

import pytest

from connectors.kafka.committed_offset import committed_offset
from connectors.kafka.settings import KafkaSettings
from oracle.errors import BusError, LogDivergedError
from tests.support.kafka import wait_until
from tests.support.kafka_here import serve_here
from tests.support.shards import bodies, mixed_bodies

_COMPACT = {
    "cleanup.policy": "compact",
    "segment.ms": "50",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
    "delete.retention.ms": "86400000",
}


def held(model):
    """Return what the query topic's readers of committed records see: offsets and bodies."""
    return [(query.offset, query.value or None) for query in model.read(model.queries)]


def test_control_records_and_aborted_transactions_are_no_queries(model):
    """Committed and aborted transactions among single queries and tombstones; a restore goes over all of them again."""
    shutil.copytree(model.folder / "state", model.folder / "aside")
    contents = mixed_bodies(120)
    lost = bodies(40, seed=2)
    model.ask(contents[:30])
    model.ask(contents[30:60], transaction=f"{model.name}-asker")
    model.ask(lost[:20], transaction=f"{model.name}-asker", abort=True)
    model.ask(contents[60:90])
    model.ask(lost[20:], transaction=f"{model.name}-asker", abort=True)
    config = model.config()
    serve_here(config, lambda _log: model.count() >= 90)
    assert held(model)[-1][0] > 89
    model.ask(contents[90:], transaction=f"{model.name}-asker")
    shutil.rmtree(model.folder / "state")
    shutil.move(model.folder / "aside", model.folder / "state")
    log = serve_here(config, lambda _log: model.count() >= len(contents))
    assert next(line["rounds"] for line in log if line["event"] == "daemon.recovered") > 0
    assert model.values() == model.expected(contents)
    assert None in contents


def compact(model, gone):
    """Write records of new keys until compaction has taken these offsets: it leaves the newest segment alone."""
    number = itertools.count()

    def taken():
        model.ask(bodies(1), key=b"%d after %d" % (next(number), gone[-1]))
        return not {offset for offset, _ in held(model)} & set(gone)

    wait_until(taken)


def test_holes_of_compaction_are_stepped_over_but_not_where_answers_were_given(model):
    """What compaction took before it was answered was no query; what it took between snapshot and commit is missed."""
    model.broker.configure_topic(model.queries, _COMPACT)
    old = bodies(13)
    model.ask(old[:1], key=b"first")
    for number, body in enumerate(old[1:]):
        model.ask([body], key=b"%d" % (number % 3))
    model.ask([None], key=b"tombstone")
    compact(model, range(1, 10))
    kept = held(model)
    assert [offset for offset, _ in kept][:5] == [0, 10, 11, 12, 13]
    assert kept[4][1] is None
    config = model.config()
    shutil.copytree(model.folder / "state", model.folder / "aside")
    serve_here(config, lambda _log: model.count() >= len(kept))
    assert model.values() == model.expected([body for _, body in kept])
    for number in range(3):
        model.ask([old[number]], key=b"%d" % number)
    compact(model, range(10, 13))
    shutil.rmtree(model.folder / "state")
    shutil.move(model.folder / "aside", model.folder / "state")
    answers = model.read()
    message = f"log diverged: {len(kept)} rounds were committed here, re-execution took {len(kept) - 3}"
    with pytest.raises(LogDivergedError, match=message):
        serve_here(config, lambda _log: False)
    assert model.read() == answers


async def test_a_coordinator_that_is_still_loading_is_not_taken_for_one_that_knows_of_no_commit(broker, monkeypatch):
    """The client passes over its error; nothing would be worse than to begin anew then."""
    settings = KafkaSettings(servers=(broker.servers,), topic="queries", answers="answers", group="loading", model="m")
    assert await committed_offset(settings, 0) is None

    async def loading(*_arguments, **_options):
        return {}

    monkeypatch.setattr("aiokafka.admin.client.AIOKafkaAdminClient.list_consumer_group_offsets", loading)
    with pytest.raises(BusError, match="group loading: its offsets cannot be read yet"):
        await committed_offset(settings, 0)
