"""A model leaves its topic or cluster for another: no query is answered twice, none left out, whatever dies between."""

import shutil
import subprocess
import sys
from dataclasses import replace

import msgspec
import pytest

from connectors.kafka.moving import TRAIL
from oracle.config.daemon import load_config
from oracle.errors import InputError, MisplacedError, MovedError, RefusedError, StateError
from oracle.hosting.kafka import open_model
from oracle.hosting.moving import export_offsets, export_secret, import_offsets
from oracle.state.folder import peek_folder
from oracle.state.moves import open_export, sealed
from tests.connectors.kafka.conftest import unique_name
from tests.connectors.kafka.test_log_changes import Mark, commit_offset, committed
from tests.support.folders import environment, make_state, perpetua
from tests.support.kafka_here import serve_here
from tests.support.shards import bodies, mixed_bodies

_BEFORE = 40


@pytest.fixture
def elsewhere(model, request):
    """A function that makes another place for the model, topics and a group, on its own cluster or another."""

    def make(broker=None):
        place = replace(model, broker=broker or model.broker, name=unique_name(request))
        place.create_topics()
        return place

    return make


def _served(place, name, contents, count, **sections):
    """Have queries answered there, cleanly to the end, and return the configuration."""
    config = place.config(name, **sections)
    place.ask(contents)
    serve_here(config, lambda _log: place.count() >= count)
    return config


def _exported(config):
    return export_offsets(open_model(load_config(config)))


def _imported(config, export, at=None, *, same=False):
    return import_offsets(open_model(load_config(config)), export, at or {}, same=same)


@pytest.mark.slow
def test_it_goes_on_in_another_cluster(model, own_broker, elsewhere):
    """By command: a log that was copied in part, behind other records; the answers are those of one run."""
    contents = mixed_bodies(_BEFORE + 30)
    config = _served(model, "here.toml", contents[:_BEFORE], _BEFORE)
    copy = shutil.copytree(model.folder / "state", model.folder / "copy")
    left = perpetua("offsets", "export", config, "--out", model.folder / "export.json")
    assert left.returncode == 0, left.stderr
    there = elsewhere(own_broker)
    there.ask(bodies(7, seed=9))
    there.ask(contents[_BEFORE - 25 :])
    target = there.config("there.toml")
    come = perpetua("offsets", "import", target, model.folder / "export.json")
    assert come.returncode == 0, come.stderr
    assert f"goes on at offset 32 (it left at {_BEFORE})".encode() in come.stdout
    assert f"{TRAIL} records before it compared".encode() in come.stdout
    serve_here(target, lambda _log: there.count() >= 30)
    assert [*model.values(), *there.values()] == model.expected(contents)
    started = [event.body for event in there.read(f"{there.name}.ledger") if event.body["kind"] == "shard-started"]
    assert [event["begins"] for event in started] == [32]
    shown = perpetua("offsets", "show", config)
    assert b"the model has left: nothing answers here any more" in shown.stdout
    for state in ("state", copy.name):
        with pytest.raises(MovedError, match="no copy of its state answers here"):
            serve_here(model.config("again.toml", state=state), lambda _log: False)
    assert model.count() == _BEFORE


def test_old_and_new_stretch_are_verified_each_in_its_own_log(model, elsewhere):
    """The old one from the genesis file, the new one from a copy of the state as it was when it came."""
    contents = bodies(_BEFORE + 20)
    config = _served(model, "here.toml", contents[:_BEFORE], _BEFORE)
    export = _exported(config)
    there = elsewhere()
    target = there.config("there.toml")
    _imported(target, export, {0: 0})
    shutil.copytree(model.folder / "state", model.folder / "come")
    _served(there, "there.toml", contents[_BEFORE:], 20)
    old = perpetua("verify", config, "--from", model.folder / "state.genesis")
    assert old.stdout.startswith(b"identical: 40 messages, 40 rounds"), old
    new = perpetua("verify", target, "--from", model.folder / "come")
    assert new.stdout.startswith(b"identical: 20 messages, 20 rounds"), new
    wrong = perpetua("verify", target, "--from", model.folder / "state.genesis")
    assert wrong.returncode == 3
    assert b"not the log that was answered" in wrong.stderr


def test_a_place_without_records_or_commits_is_not_taken_for_a_beginning(model, elsewhere):
    """At offset 0 with rounds behind it: if what was committed there is lost, nothing begins anew by itself."""
    contents = bodies(_BEFORE + 10)
    export = _exported(_served(model, "here.toml", contents[:_BEFORE], _BEFORE))
    there = elsewhere()
    _imported(there.config("there.toml"), export, {0: 0})
    other = elsewhere()
    other.ask(contents[_BEFORE:])
    with pytest.raises(StateError, match="has no commit") as caught:
        serve_here(other.config("other.toml"), lambda _log: False)
    assert not isinstance(caught.value, MisplacedError)
    assert other.count() == 0
    _served(there, "there.toml", contents[_BEFORE:], 10)
    assert [*model.values(), *there.values()] == model.expected(contents)


_DIES = """
import os, sys
import oracle.hosting.moving as moving
from oracle.cli.main import main
from oracle.state.folder import FolderStore
from connectors.kafka.sink import KafkaSink

def dying(owner, name, behind):
    real = getattr(owner, name)
    async def slow(*given):
        if behind:
            await real(*given)
        os._exit(77)
    def quick(*given):
        if behind:
            real(*given)
        os._exit(77)
    setattr(owner, name, slow if name in {"put", "commit", "trail_before"} else quick)

point = sys.argv.pop(1)
dying(*{
    "left": (moving, "trail_before", False),
    "unrecorded": (moving, "record_move", False),
    "recorded": (moving, "record_move", True),
    "committed": (KafkaSink, "put", True),
    "unsaved": (FolderStore, "save", False),
    "saved": (FolderStore, "save", True),
}[point])
main()
"""


def _dies(point, *line):
    died = subprocess.run(
        [sys.executable, "-c", _DIES, point, *map(str, line)],
        capture_output=True,
        env=environment(),
        timeout=120,
        check=False,
    )
    assert died.returncode == 77, died.stderr


@pytest.mark.parametrize("point", ["unrecorded", "recorded", "committed", "unsaved", "saved"])
def test_a_crash_between_any_two_steps_answers_nothing_twice(model, elsewhere, point):
    """Killed within the export and within the import: serving refuses until the same commands were run again."""
    contents = bodies(_BEFORE + 20)
    config = _served(model, "here.toml", contents[:_BEFORE], _BEFORE)
    there = elsewhere()
    there.ask(contents[_BEFORE - 10 :])
    target = there.config("there.toml")
    file = model.folder / "export.json"
    _dies("left", "offsets", "export", config, "--out", file)
    assert not file.exists()
    with pytest.raises(MovedError):
        serve_here(config, lambda _log: False)
    assert perpetua("offsets", "export", config, "--out", file).returncode == 0
    _dies(point, "offsets", "import", target, file)
    if point != "saved":
        with pytest.raises(StateError):
            serve_here(target, lambda _log: False)
        assert there.count() == 0
    come = perpetua("offsets", "import", target, file)
    assert come.returncode == 0, come.stderr
    serve_here(target, lambda _log: there.count() >= 20)
    assert [*model.values(), *there.values()] == model.expected(contents)


def test_there_and_back_again(model, elsewhere):
    """The place that was left takes the model again, at once, and behind what was answered elsewhere meanwhile."""
    contents = bodies(_BEFORE + 30)
    config = _served(model, "here.toml", contents[:_BEFORE], _BEFORE)
    export = _exported(config)
    assert _exported(config) == export
    _imported(config, export)
    model.ask(contents[_BEFORE : _BEFORE + 10])
    serve_here(config, lambda _log: model.count() >= _BEFORE + 10)
    (again,) = _imported(config, export)  # one that was cut off behind this shard: it has gone on, and is let be
    assert again.move.position == _BEFORE
    there = elsewhere()
    second = _exported(config)
    target = there.config("there.toml")
    _imported(target, second, {0: 0})
    with pytest.raises(StateError, match="by this export the state went to topic"):
        _imported(elsewhere().config("third.toml"), second, {0: 0})
    with pytest.raises(StateError, match="this is not where it went"):
        serve_here(elsewhere().config("fourth.toml"), lambda _log: False)
    _served(there, "there.toml", contents[_BEFORE + 10 : _BEFORE + 20], 10)
    model.ask(contents[_BEFORE + 10 :])  # as a mirror would copy them back, and new ones behind them
    back = _exported(target)
    (arrival,) = _imported(config, back)
    assert (arrival.move.position, arrival.compared) == (_BEFORE + 20, 10)
    serve_here(config, lambda _log: model.count() >= _BEFORE + 20)
    answers = model.values()
    assert [*answers[: _BEFORE + 10], *there.values(), *answers[_BEFORE + 10 :]] == model.expected(contents)


def test_what_is_refused(model, elsewhere):
    """Members, a state that is not at its last commit, places that cannot be the one, others' and altered files."""
    contents = bodies(_BEFORE)
    before = shutil.copytree(model.folder / "state", model.folder / "before")
    config = _served(model, "here.toml", contents, _BEFORE)
    with pytest.raises(StateError, match=r"round 40\), and the newest snapshot is at 0 .* stop it cleanly"):
        _exported(model.config("before.toml", state=before.name))
    daemon = model.serve(config)
    model.ask(bodies(1, seed=5))
    model.wait_for_answers(_BEFORE + 1)
    with pytest.raises(RefusedError, match="it has members"):
        _exported(config)
    daemon.terminate()
    assert daemon.wait(60) == 0
    export = _exported(config)
    there = elsewhere()
    target = there.config("there.toml")
    with pytest.raises(RefusedError, match="the records that were answered last are not there"):
        _imported(target, export)
    there.ask([*contents, *bodies(1, seed=5)])
    with pytest.raises(InputError, match=r"0=39'?: must be behind the record of .* that was answered last"):
        _imported(target, export, {0: 39})
    with pytest.raises(InputError, match="must be 41: what lies before that was answered"):
        _imported(target, export, {0: 0})
    with pytest.raises(InputError, match="must be from 0 to 41, the offsets of topic"):
        _imported(target, export, {0: 42})
    with pytest.raises(InputError, match="must name a partition below 1"):
        _imported(target, export, {1: 0})
    there.ask([*contents, *bodies(1, seed=5)])
    with pytest.raises(RefusedError, match="are there 2 times, up to offset 41 and 82"):
        _imported(target, export)
    secret = export_secret(open_model(load_config(config)))
    data = msgspec.json.encode(export)
    assert open_export(data, secret) == export
    shifted = replace_shard(export, position=40)
    for wrong in (b"{}", data[:-1], msgspec.json.encode(shifted), msgspec.json.encode(sealed(export, b"other"))):
        with pytest.raises(StateError, match="export: "):
            open_export(wrong, secret)
    header = peek_folder(model.folder / "state")
    assert header is not None
    assert header.position == 41
    used = elsewhere()
    (arrival,) = _imported(target, export, same=True)
    assert (arrival.move.position, arrival.compared) == (41, TRAIL)
    with pytest.raises(StateError, match="by this export the state went to topic"):
        _imported(used.config("used.toml"), export, {0: 0})


def test_a_place_that_was_used_is_refused(model, elsewhere):
    """A copy of the state has answered there, or another model; what a mirror has copied of our group is let be."""
    shutil.copytree(model.folder / "state", model.folder / "before")
    contents = bodies(_BEFORE)
    export = _exported(_served(model, "here.toml", contents, _BEFORE))
    make_state(model.folder / "another", model.plan, secret=b"another".ljust(32, b"."))
    for state in ("before", "another"):
        used = elsewhere()
        _served(used, f"{state}.toml", contents, _BEFORE, state=state)
        _served(used, f"{state}.toml", bodies(5, seed=7), _BEFORE + 5, state=state)
        with pytest.raises(StateError, match="offset 45 was committed by Perpetua in this place before"):
            _imported(used.config("used.toml"), export)
    there = elsewhere()
    there.ask(bodies(3, seed=8))
    there.ask(contents)
    commit_offset(there, Mark(30, committed(model).metadata))
    (arrival,) = _imported(there.config("there.toml"), export)
    assert arrival.move.position == _BEFORE + 3
    _served(there, "there.toml", bodies(5, seed=7), 5)
    assert [*model.values(), *there.values()] == model.expected([*contents, *bodies(5, seed=7)])


def replace_shard(export, **changes):
    """Return an export with a shard that stood elsewhere."""
    (shard,) = export.shards
    return msgspec.structs.replace(export, shards=(msgspec.structs.replace(shard, **changes),))
