"""One model takes over from another on one query topic: each query is answered once, by one of them, whatever dies."""

import shutil

import msgspec
import pytest

from connectors.kafka.offset_metadata import OffsetMetadata
from oracle.errors import InputError
from tests.support.folders import make_state, perpetua
from tests.support.kafka import wait_until
from tests.support.kafka_here import serve_here
from tests.support.kafka_launcher import CRASHED
from tests.support.shards import bodies, deliveries_of, new_shard, process_in_batches
from tests.support.waiting import TIMEOUT

_BEFORE = 40
_COPY = "green.copy"


def _secret(colour):
    return colour.encode().ljust(32, b".")


def _of(model, colour, **source):
    """Write the configuration of a model of a group of its own on the test's topics; make its state, and a copy."""
    lines = "\n".join(["session_seconds = 2", *(f"{name} = {value}" for name, value in source.items())])
    path = model.config(f"{colour}.toml", state=colour, source=lines, service="batch_rows = 16")
    path.write_text(path.read_text().replace(f'group = "{model.group}"', f'group = "{model.group}.{colour}"'))
    if not (model.folder / colour).exists():
        make_state(model.folder / colour, model.plan, secret=_secret(colour))
        shutil.copytree(model.folder / colour, model.folder / f"{colour}.copy")
    return path


def _marks(model, colour):
    """Return the metadata that a model has committed, oldest first."""
    topic = f"{model.group}.{colour}.marks"
    return [answer.body["metadata"] for answer in model.read(topic)] if topic in model.broker.topics() else []


def _begun(model, colour):
    """Return the offset that is committed as a model's beginning; None if nothing is."""
    marks = _marks(model, colour)
    return OffsetMetadata.unpack(marks[-1]).begun if marks else None


def _answers(model, colour, contents):
    """Return what a model answers in one uninterrupted run in memory, without the records' places."""
    return process_in_batches(new_shard(model.plan, _secret(colour)), deliveries_of(contents)).replies


@pytest.mark.parametrize("point", ["offsets", "end", "ended"])
def test_latest_is_fixed_by_the_first_commit(model, point):
    """Killed within the first commit: what it fixed, if it stands, holds; nothing is left out or answered again.

    A copy of the state as `init` made it, on another host, begins there too.
    """
    contents = bodies(_BEFORE + 30, 3)
    model.ask(contents[:_BEFORE])
    config = _of(model, "green", first_offset='"latest"')
    killed = model.serve(config, "green.log", trap=(point, 0))
    assert killed.wait(TIMEOUT) == CRASHED, model.log("green.log")[-5:]
    fixed = point == "ended"
    assert _begun(model, "green") == (_BEFORE if fixed else None)
    model.ask(contents[_BEFORE : _BEFORE + 10])
    begins = _BEFORE if fixed else _BEFORE + 10
    again = model.serve(config, "green.log")
    wait_until(lambda: _begun(model, "green") == begins, what=lambda: model.log("green.log")[-5:])
    model.ask(contents[_BEFORE + 10 : _BEFORE + 20])
    model.wait_for_answers(_BEFORE + 20 - begins)
    again.kill()
    again.wait()
    shutil.rmtree(model.folder / "green")
    (model.folder / _COPY).rename(model.folder / "green")
    model.ask(contents[_BEFORE + 20 :])
    expected = _answers(model, "green", contents[begins:])
    serve_here(_of(model, "green", first_offset=3), lambda _log: model.count() >= len(expected))  # it is past that
    assert model.values() == expected
    started = [event.body for event in model.read(f"{model.name}.ledger") if event.body["kind"] == "shard-started"]
    assert {event["begins"] for event in started} == {begins}


def test_latest_on_an_empty_topic_is_its_beginning(model):
    """Nothing is there yet; what comes before the next start is answered all the same."""
    config = _of(model, "green", first_offset='"latest"')
    serve_here(config, lambda _log: _begun(model, "green") == 0)
    contents = bodies(12)
    model.ask(contents)
    serve_here(config, lambda _log: model.count() >= len(contents))
    assert model.values() == _answers(model, "green", contents)


def test_latest_comes_too_late_for_a_state_that_has_begun(model):
    """It would skip what waits for it: refused, and nothing is answered."""
    model.ask([b"no query"] * 5)
    serve_here(_of(model, "green"), lambda _log: model.count() >= 5)
    shutil.rmtree(model.folder / "green")
    (model.folder / _COPY).rename(model.folder / "green")
    with pytest.raises(InputError, match=r"source.first_offset = 'latest': must not be set later"):
        serve_here(_of(model, "green", first_offset='"latest"'), lambda _log: False)


@pytest.mark.slow
@pytest.mark.parametrize("stop", [pytest.param(200, marks=pytest.mark.long), 207])
def test_blue_stops_where_green_begins_and_each_is_killed_on_the_way(model, stop):
    """At a position that both are told of beforehand; it need not be where a batch ends."""
    contents = bodies(400, 5)
    blue, green = _of(model, "blue", stop_at=stop), _of(model, "green", first_offset=stop)
    model.ask(contents[:100])
    for at, point in ((0, "ended"), (50, "offsets"), (90, "after"), (stop, "end"), (stop, "ended")):
        if at == stop:
            model.ask(contents[100:] if point == "end" else [])
        killed = model.serve(blue, "blue.log", trap=(point, at))
        assert killed.wait(TIMEOUT) == CRASHED, model.log("blue.log")[-5:]
    ended = model.serve(blue, "blue.log")
    assert ended.wait(TIMEOUT) == 0, model.log("blue.log")[-5:]
    assert model.count() == stop
    for at, point in ((stop + 60, "end"), (stop + 90, "after")):
        killed = model.serve(green, "green.log", trap=(point, at))
        assert killed.wait(TIMEOUT) == CRASHED, model.log("green.log")[-5:]
    assert perpetua("serve", blue).returncode == 0  # by accident: there is nothing left for it
    serve_here(green, lambda _log: model.count() >= len(contents))
    expected = [*_answers(model, "blue", contents[:stop]), *_answers(model, "green", contents[stop:])]
    assert model.values() == expected
    ids = [msgspec.json.decode(value)["id"] for value in model.values()]
    assert ids == [msgspec.json.decode(body)["id"] for body in contents]
    told = [event.body for event in model.read(f"{model.name}.ledger") if event.body["kind"].startswith("shard-")]
    assert {event.get("stops") for event in told} == {stop, None}
    assert {event["begins"] for event in told if "stops" not in event} == {stop}


def test_a_stop_behind_what_was_answered_is_refused(model):
    """Else the next model would answer the same queries again."""
    model.ask(bodies(30))
    serve_here(_of(model, "blue"), lambda _log: model.count() >= 30)
    with pytest.raises(
        InputError, match=r"source.stop_at.0 = 20: must be at least 30, the offset up to which topic .* answered"
    ):
        serve_here(_of(model, "blue", stop_at=20), lambda _log: False)
    result = perpetua("check", _of(model, "blue", stop_at=20))
    assert result.returncode == 1
    assert b"must be at least 30" in result.stdout
    serve_here(_of(model, "blue", stop_at=30), lambda _log: False)  # it ends by itself


def test_partitions_stop_where_each_is_told(model):
    """A table by partition, as of `first_offset`; a partition without a shard is refused."""
    with pytest.raises(InputError, match=r"source.stop_at.3.*must be below 1, the state's shards"):
        serve_here(_of(model, "blue", stop_at="{ 3 = 20 }"), lambda _log: False)
    model.ask(bodies(30))
    serve_here(_of(model, "blue", stop_at="{ 0 = 20 }"), lambda _log: False)
    assert model.count() == 20


def test_a_log_is_replayed_beyond_where_its_model_stops(model):
    """`stop_at` is of serving: what is behind it can be answered by a fork, and what was answered be verified."""
    model.ask(bodies(30))
    config = _of(model, "blue", stop_at=20)
    serve_here(config, lambda _log: False)
    genesis = model.folder / "blue.genesis"
    verified = perpetua("replay", config, "--from", genesis, "--verify")
    assert verified.stdout.startswith(b"identical: 20 messages"), verified
    forked = perpetua("replay", config, "--from", genesis, "--accept-cost", "--out", model.folder / "fork.jsonl")
    assert b"30 messages" in forked.stdout, forked


def test_a_model_that_began_at_the_end_is_verified_from_there(model):
    """Whatever the setting says by now."""
    model.ask(bodies(30))
    config = _of(model, "green", first_offset='"latest"')
    serve_here(config, lambda _log: _begun(model, "green") == 30)
    model.ask(bodies(15))
    serve_here(config, lambda _log: model.count() >= 15)
    for first in ('"latest"', 0):
        again = _of(model, "green", first_offset=first)
        verified = perpetua("replay", again, "--from", model.folder / "green.genesis", "--verify")
        assert verified.stdout.startswith(b"identical: 15 messages"), verified
