"""Markers of transactions at the log's end: no queries, and not to be taken for any, or for the lack of any."""

import itertools
import operator
import time

from connectors.kafka.offset_metadata import OffsetMetadata
from connectors.kafka.source import KafkaSource
from oracle.errors import LogDivergedError, SourceError
from tests.connectors.kafka.test_log_changes import commit_offset, committed, recreate, refused
from tests.support.kafka_here import serve_here
from tests.support.shards import bodies

_ASKED = 5


def _looked(model):
    found = committed(model)
    return OffsetMetadata.unpack(found.metadata).looked if found.offset >= 0 else 0


def _ask_in_a_transaction(model, count=_ASKED, seed=1):
    """Ask; a marker comes behind."""
    model.ask(bodies(count, seed=seed), transaction=f"{model.name}-asker")


def test_an_idle_daemon_notes_that_only_markers_are_behind_and_they_may_be_deleted(model):
    """Idle for longer than the topic keeps its records: nothing was lost, and a start finds it so."""
    config = model.config()
    config.write_text(config.read_text().replace("snapshot_rounds = 500", "snapshot_seconds = 1"))
    _ask_in_a_transaction(model)
    serve_here(config, lambda _log: model.count() >= _ASKED and _looked(model) == _ASKED + 1)
    model.delete_records(_ASKED + 1)
    more = bodies(3, seed=2)
    model.ask(more)
    serve_here(config, lambda _log: model.count() >= _ASKED + len(more))
    assert model.values() == model.expected([*bodies(_ASKED), *more])


def test_a_clean_stop_notes_it_too_and_a_start_without_queries_keeps_it(model):
    """But what was asked behind the markers, and deleted before it was answered, is missed."""
    config = model.config()
    _ask_in_a_transaction(model)
    _serve_for(model, config, 1.0)
    rests = itertools.accumulate(itertools.repeat(2.0, 6), operator.mul)  # a slow machine may not have looked yet
    while _looked(model) == 0:
        _serve_for(model, config, next(rests))
    assert _looked(model) == _ASKED + 1
    model.delete_records(_ASKED + 1)
    serve_here(config, lambda log: any(line["event"] == "daemon.serving" for line in log))
    assert _looked(model) == _ASKED + 1
    model.ask(bodies(1, seed=2))
    model.delete_records(_ASKED + 2)
    refused(model, config, SourceError, "begins at offset 7: the queries from 6 to 7 were deleted")


def _serve_for(model, config, seconds):
    """Serve until all is answered, and for a while longer."""
    answered: list[float] = []

    def rested(_log):
        if answered or model.count() >= _ASKED:
            answered.append(time.monotonic())
        return bool(answered) and answered[-1] - answered[0] >= seconds

    serve_here(config, rested)


async def test_queries_fetched_but_not_answered_are_not_taken_for_nothing(model):
    """Of what was read, the first record behind a position ends what may be deleted; else it is all that was read."""
    _ask_in_a_transaction(model, count=2)
    _ask_in_a_transaction(model, count=2, seed=2)
    source = KafkaSource(model.settings, 0)
    await source.open(None)
    read = 0
    while read < 4:
        read += len(await source.fetch(1, 5.0))
    while source.progress.reached < 6:
        await source.fetch(1, 1.0)
    taken = [source.progress.take(position, b"") for position in (1, 2, 4, 5, 5)]
    assert [one.looked for one in taken] == [0, 3, 0, 6, 6]
    assert taken[-1].timestamp > 0
    await source.close()


def test_a_marker_in_the_place_of_the_last_answered_record_tells_of_another_log(model):
    """The topic made anew ends a transaction just there: there is no record whose time could be another one."""
    config = model.config()
    model.ask(bodies(_ASKED))
    serve_here(config, lambda _log: model.count() >= _ASKED)
    mark = committed(model)
    recreate(model, [])
    _ask_in_a_transaction(model, count=_ASKED - 1, seed=2)
    model.ask(bodies(3, seed=3))
    commit_offset(model, mark)
    refused(model, config, LogDivergedError, f"the record before offset {_ASKED} is missing or not the one")
