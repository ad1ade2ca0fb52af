"""`[[models]]`: many models in one file are as many configurations, and none is in another one's way."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.config.daemon import load_config, load_configs
from oracle.config.models import model_documents
from oracle.errors import InputError

_TOP: dict[str, dict[str, Any]] = {
    "kafka": {"servers": ["b:9092"]},
    "source": {"kind": "kafka", "group": "g"},
    "sink": {"kind": "kafka"},
}


def _toml(value):
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_toml(inner)}' for key, inner in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return str(value).lower() if isinstance(value, bool | int | float) else f'"{value}"'


def _model(name, **tables):
    """Return an entry that is its own in all; `tables` go over it."""
    usual = {"state": {"folder": f"s-{name}"}, "source": {"topic": f"{name}.q"}, "sink": {"topic": f"{name}.a"}}
    merged = {table: {**usual.get(table, {}), **tables.get(table, {})} for table in (usual | tables)}
    return {"name": name, **merged}


@pytest.fixture
def read(tmp_path):
    """A function that reads a configuration of these entries, with `top` over what they have in common."""

    def read(*entries, **top):
        whole = {**_TOP, **{name: {**_TOP.get(name, {}), **table} for name, table in top.items()}}
        text = "".join(f"{name} = {_toml(table)}\n" for name, table in whole.items())
        text += "".join(
            "[[models]]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in entry.items()) for entry in entries
        )
        path = tmp_path / "many.toml"
        path.write_text(text)
        return load_configs(path)

    return read


def test_each_model_is_a_configuration_of_its_own(read, tmp_path):
    """What its entry leaves out is as at the top; one is chosen by name."""
    found = read(
        _model("a", state={"snapshot_rounds": 7}),
        _model("b", sink={"ledger": "b.l"}, truth={"folder": "t", "topic": "b.t"}),
        state={"snapshot_seconds": 5},
        service={"log": "json"},
    )
    assert list(found) == ["a", "b"]
    a, b = found["a"], found["b"]
    assert (a.entry, b.entry) == ("a", "b")
    assert (a.state.folder, a.state.snapshot_rounds, a.state.snapshot_seconds) == (Path.cwd() / "s-a", 7, 5)
    assert (b.state.folder, b.state.snapshot_rounds, b.state.snapshot_seconds) == (Path.cwd() / "s-b", 2_000_000, 5)
    assert (a.source.group, b.source.group, a.source.topic, b.source.topic) == ("g", "g", "a.q", "b.q")
    assert (a.sink.ledger, b.sink.ledger, a.truth, b.truth.topic) == (None, "b.l", None, "b.t")
    assert a.service.log == b.service.log == "json"
    assert load_config(tmp_path / "many.toml", "b") == b


def test_it_is_what_a_file_of_its_own_says(read, tmp_path):
    """A model that moves into `[[models]]` takes its tables with it, and all of them say what they said."""
    alone = {
        "kafka": {"servers": ["b:9092"]},
        "state": {"folder": "s", "key_file": "k", "snapshot_rounds": 3},
        "source": {"kind": "kafka", "topic": "q", "group": "g", "first_offset": {"0": 4}, "stop_at": 9},
        "sink": {"kind": "kafka", "topic": "a", "reply_topics": ["r"], "dead_letter": "d"},
    }
    path = tmp_path / "alone.toml"
    path.write_text("".join(f"{name} = {_toml(table)}\n" for name, table in alone.items()))
    own = {table: values for table, values in alone.items() if table != "kafka"}
    assert read({"name": "m", **own}, _model("other"))["m"].model_dump() == load_config(path).model_dump()


_VALUES = st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
_KEYS = st.sampled_from(["x", "y", "z"])
_TABLES = st.recursive(
    st.dictionaries(_KEYS, _VALUES, max_size=3), lambda inner: st.dictionaries(_KEYS, _VALUES | inner, max_size=3)
)


def _leaves(document, path=()):
    """Return every value with the way to it; an empty table is one."""
    if not isinstance(document, dict) or not document:
        return {path: document}
    found: dict[tuple[str, ...], Any] = {}
    for key, value in document.items():
        found |= _leaves(value, (*path, key))
    return found


@given(st.dictionaries(st.sampled_from(["state", "source", "sink", "kafka"]), _TABLES), _TABLES)
def test_an_entry_lies_over_the_top(top, own):
    """Each value of the entry is there; of the top, each that the entry has nothing for, on its way or behind it."""
    document = {**top, "models": [{"name": "m", "source": own}]}
    found, above = _leaves(model_documents(document)["m"]), _leaves({"source": own})
    for path, value in above.items():
        assert found.get(path) == value or (value == {} and any(other[: len(path)] == path for other in found))
    for path, value in _leaves(top).items():
        covered = any(path[: len(other)] == other or other[: len(path)] == path for other in above)
        assert covered or found[path] == value
    assert document["models"] == [{"name": "m", "source": own}], "nothing is changed in place"


@pytest.mark.parametrize(
    ("entry", "other", "field", "words"),
    [
        ({"source": {"topic": "a.q"}}, {}, "source.topic", "must be a topic of its own: it is source.topic of model a"),
        ({"sink": {"topic": "a.a"}}, {}, "sink.topic", "it is sink.topic of model a"),
        ({"source": {"topic": "a.a"}}, {}, "source.topic", "it is sink.topic of model a"),
        ({"sink": {"topic": "a.q"}}, {}, "sink.topic", "it is source.topic of model a"),
        ({"sink": {"ledger": "a.a"}}, {}, "sink.ledger", "it is sink.topic of model a"),
        ({"sink": {"reply_topics": ["a.q"]}}, {}, "sink.reply_topics", "it is source.topic of model a"),
        ({"sink": {"reply_topics": ["x"]}}, {"sink": {"ledger": "x"}}, "sink.reply_topics", "it is sink.ledger"),
        ({"sink": {"dead_letter": "x"}}, {"sink": {"ledger": "x"}}, "sink.dead_letter", "it is sink.ledger"),
        ({"sink": {"topic": "g.marks"}}, {}, "sink.topic", "it is sink.marks of model a"),
        (
            {"truth": {"folder": "t", "topic": "a.q"}},
            {},
            "truth.topic",
            "must be a topic of its own: it is source.topic of model a",
        ),
        ({"state": {"folder": "s-a"}}, {}, "state.folder", "outside of state.folder of model a"),
        ({"state": {"folder": "x/../s-a/"}}, {}, "state.folder", "outside of state.folder of model a"),
        ({"state": {"folder": "s-a/shard-0"}}, {}, "state.folder", "outside of state.folder of model a"),
        ({"state": {"folder": "."}}, {}, "state.folder", "outside of state.folder of model a"),
        ({"truth": {"folder": "s-a", "topic": "t"}}, {}, "truth.folder", "outside of state.folder of model a"),
        ({"source": {"group": "h"}}, {}, "source.group", "must be that of model a, which is 'g'"),
        ({"source": {"instance": "i"}}, {}, "source.instance", "must be that of model a, which is not set"),
        ({"source": {"session_seconds": 3}}, {}, "source.session_seconds", "must be that of model a, which is 10.0"),
        ({"sink": {"marks": "m"}}, {}, "sink.marks", "must be that of model a, which is not set"),
        ({"sink": {"transaction_seconds": 3}}, {}, "sink.transaction_seconds", "must be that of model a"),
    ],
)
def test_models_in_each_others_way(read, entry, other, field, words):
    """The error names both."""
    with pytest.raises(InputError) as caught:
        read(_model("a", **other), _model("b", **entry))
    assert caught.value.field == f"models.b.{field}"
    assert words in caught.value.bound


def test_what_models_may_have_in_common(read):
    """Notes and events say whose they are, and where an asker wants its answers is the asker's matter."""
    shared = {"ledger": "l", "dead_letter": "d", "reply_topics": ["r", "s"]}
    found = read(
        _model("a", sink=shared), _model("b", sink={**shared, "reply_topics": ["s", "r"]}), sink={"marks": "m"}
    )
    assert [config.sink.ledger for config in found.values()] == ["l", "l"]


@pytest.mark.parametrize(
    ("entries", "top", "field", "words"),
    [
        ([{"state": {}}], {}, "models[0].name", "must be set"),
        ([_model("a"), _model("b/c")], {}, "models[1].name", "must have 1 to 64 letters"),
        ([_model("a"), _model("..")], {}, "models[1].name", "must have 1 to 64 letters"),
        ([_model("a" * 65)], {}, "models[0].name", "must have 1 to 64 letters"),
        ([_model("a"), {**_model("b"), "name": 3}], {}, "models[1].name", "must have 1 to 64 letters"),
        ([_model("a"), _model("b"), _model("a")], {}, "models[2].name", "an entry before it has this name"),
        ([_model("a"), _model("b", web={"port": 1})], {}, "models.b.web", "unknown setting of a model"),
        ([_model("a", stat={})], {}, "models.a.stat", "did you mean state?"),
        ([_model("a", source={"topick": "x"})], {}, "models.a.source.topick", "did you mean topic?"),
        ([_model("a"), _model("b", state={"snapshot_rounds": 0})], {}, "models.b.state.snapshot_rounds", "greater"),
        ([_model("a"), _model("b")], {"state": {"snapshot_rounds": 0}}, "state.snapshot_rounds", "greater"),
        ([{**_model("a"), "source": {}}], {}, "models.a.source.topic", "must be set"),
        ([_model("a")], {"service": {"log": "xml"}}, "service.log", "'json' or 'text'"),
        ([_model("a")], {"source": {"group": "g h"}}, "source.group", "must have"),
        ([_model("a", sink={"topic": "a.q"})], {}, "models.a.source.topic and [sink]", "named twice"),
        ([_model("a")], {"truth": {"folder": "t"}}, "truth", "must stand in the entry of its model"),
    ],
)
def test_errors_name_the_entry(read, entries, top, field, words):
    """Or the top, where that is what is wrong."""
    with pytest.raises(InputError) as caught:
        read(*entries, **top)
    assert caught.value.field == field
    assert words in caught.value.bound


def test_the_group_must_be_set(tmp_path):
    """By default each model would have one of its own."""
    text = '[kafka]\nservers = ["b:9092"]\n[source]\nkind = "kafka"\n[sink]\nkind = "kafka"\n'
    text += "".join(
        f'[[models]]\nname = "{n}"\nstate.folder = "{n}"\nsource.topic = "{n}q"\nsink.topic = "{n}a"\n' for n in "ab"
    )
    path = tmp_path / "c.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"source\.group is not set: must be set, at the top"):
        load_configs(path)


def test_other_buses_serve_one_model(tmp_path):
    """Files, MQTT and HTTP."""
    path = tmp_path / "c.toml"
    path.write_text('[[models]]\nname = "a"\nstate.folder = "s"\nsource.kind = "stdin"\nsink.kind = "stdout"\n')
    with pytest.raises(InputError, match=r'models\.a\.source\.kind .*must be "kafka": a process serves many models'):
        load_configs(path)


@pytest.mark.parametrize("models", ["models = 3", "models = []", "models = [1]", '[models]\nname = "a"'])
def test_what_is_no_array_of_tables(tmp_path, models):
    """It says how it is written."""
    path = tmp_path / "c.toml"
    path.write_text(f'{models}\n[kafka]\nservers = ["b:9092"]\n')
    with pytest.raises(InputError, match=r"models: must be tables, one for each model: \[\[models\]\]"):
        load_configs(path)


def test_the_environment_goes_before_the_file_for_all(read, monkeypatch):
    """What models share; what must be each one's own clashes, and no variable sets one entry's."""
    monkeypatch.setenv("PERPETUA_SOURCE__GROUP", "h")
    monkeypatch.setenv("PERPETUA_SERVICE__LOG", "json")
    found = read(_model("a"), _model("b"))
    assert {(config.source.group, config.service.log) for config in found.values()} == {("h", "json")}
    monkeypatch.setenv("PERPETUA_SOURCE__TOPIC", "t")
    with pytest.raises(InputError, match=r"models\.b\.source\.topic = 't': must be a topic of its own"):
        read(_model("a"), _model("b"))
    monkeypatch.delenv("PERPETUA_SOURCE__TOPIC")
    monkeypatch.setenv("PERPETUA_MODELS__0__NAME", "z")
    with pytest.raises(InputError, match="in the environment: unknown setting"):
        read(_model("a"), _model("b"))


def test_one_of_many_must_be_chosen(read, tmp_path):
    """All names are told, and the nearest; a file of one model has none to choose."""
    read(_model("alpha"), _model("beta"))
    path = tmp_path / "many.toml"
    with pytest.raises(InputError, match=r"--model is not set: must name one of .*: alpha, beta"):
        load_config(path)
    with pytest.raises(InputError, match=r"--model = 'betta': must be one of alpha, beta; did you mean beta\?"):
        load_config(path, "betta")
    path.write_text('[state]\nfolder = "s"\n[source]\nkind = "stdin"\n[sink]\nkind = "stdout"\n')
    with pytest.raises(InputError, match=r"--model = 'x': must be left out: .* has no \[\[models\]\]"):
        load_config(path, "x")
