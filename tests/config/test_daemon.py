from pathlib import Path

import pytest

from oracle.config.daemon import (
    Config,
    FileSinkConfig,
    FileSourceConfig,
    StdinSourceConfig,
    StdoutSinkConfig,
    load_config,
)
from oracle.errors import InputError, SourceError
from tests.support.folders import write_config

_SOURCES = "must be one of jsonl, parquet, stdin, kafka, mqtt and http"
_PIPES = '[state]\nfolder = "s"\n[source]\nkind = "stdin"\n[sink]\nkind = "stdout"\n'


def _load(folder: Path, text: str) -> Config:
    path = folder / "c.toml"
    path.write_text(text)
    return load_config(path)


def test_whole_file(tmp_path):
    """Every setting arrives; what is not set has its default."""
    config = _load(
        tmp_path,
        """
        [state]
        folder = "st"
        key_file = "k"
        snapshot_rounds = 7
        [source]
        kind = "parquet"
        path = "q.parquet"
        rows_per_message = 100
        [sink]
        kind = "parquet"
        path = "out.parquet"
        dead_letter = "dead.jsonl"
        [service]
        batch_rows = 5
        log = "json"
        """,
    )
    here = Path.cwd()
    assert (config.state.folder, config.state.key_path, config.state.snapshot_rounds) == (here / "st", here / "k", 7)
    assert config.state.snapshot_seconds == 60.0
    assert config.source == FileSourceConfig(kind="parquet", path=Path("q.parquet"), rows_per_message=100)
    assert config.sink == FileSinkConfig(kind="parquet", path=Path("out.parquet"), dead_letter=Path("dead.jsonl"))
    assert (config.service.batch_rows, config.service.log, config.service.drain_seconds) == (5, "json", 30.0)


def test_pipes(tmp_path):
    """The least there is: standard input and output; the key is in the state folder."""
    config = _load(tmp_path, _PIPES)
    assert (config.source, config.sink) == (StdinSourceConfig(kind="stdin"), StdoutSinkConfig(kind="stdout"))
    assert config.state.key_path == Path.cwd() / "s/key"


@pytest.mark.parametrize(
    ("text", "field", "near"),
    [
        (_PIPES.replace("folder =", "foldr ="), "state.foldr", "folder"),
        (_PIPES + "[service]\nbatch_row = 1\n", "service.batch_row", "batch_rows"),
        (_PIPES + "[services]\nlog = 1\n", "services", "service"),
        (_PIPES.replace("[state]", "[stat]"), "stat", "state"),
        (_PIPES.replace("[sink]", "[sink]\nledgers = 1"), "sink.ledgers", "ledger"),
        (_PIPES.replace('"stdin"', '"jsonl"\npath = "q"\nfolow = true'), "source.folow", "follow"),
        (_PIPES.replace('"stdin"', '"stdin"\npath = "q"'), "source.path", None),
        (_PIPES + "[service]\nfolder = 1\n", "service.folder", None),
        (_PIPES + "[zzz]\n", "zzz", None),
    ],
)
def test_unknown_setting(tmp_path, text, field, near):
    """It is named as written, with the nearest name that its table has, if any is near."""
    with pytest.raises(InputError) as caught:
        _load(tmp_path, text)
    assert caught.value.field == field
    assert caught.value.bound == "unknown setting of a configuration" + (f"; did you mean {near}?" if near else "")


def test_a_model_file_is_told_from_a_configuration(tmp_path):
    """Whoever names the wrong one of the two reads which is wanted, not that a setting is unknown."""
    with pytest.raises(InputError, match=r"CONFIG.toml = '.*': this is a model file; name the configuration"):
        _load(tmp_path, '[model]\nname = "m"\n')


@pytest.mark.parametrize(
    ("text", "field", "value", "bound"),
    [
        ("", "state", None, "must be set"),
        (_PIPES.replace('folder = "s"', ""), "state.folder", None, "must be set"),
        (_PIPES.replace('"stdin"', '"jsonl"'), "source.path", None, "must be set"),
        (_PIPES.replace('kind = "stdin"', ""), "source.kind", None, _SOURCES),
        (_PIPES.replace('"stdin"', '"amqp"'), "source.kind", "amqp", _SOURCES),
        (_PIPES.replace('"stdin"', '"kafak"'), "source.kind", "kafak", f"{_SOURCES}; did you mean kafka?"),
        (_PIPES.replace('"stdout"', '"Stdot"'), "sink.kind", "Stdot", "kafka, mqtt and http; did you mean stdout?"),
        (_PIPES + '[service]\nlog = "jsn"', "service.log", "jsn", "'json' or 'text'; did you mean json?"),
        (
            _PIPES.replace('"stdout"', '"stdin"'),
            "sink.kind",
            "stdin",
            "must be one of jsonl, parquet, stdout, kafka, mqtt and http",
        ),
        (_PIPES.replace('"s"', '"s"\nsnapshot_rounds = 0'), "state.snapshot_rounds", 0, "greater than or equal to 1"),
        (_PIPES.replace('"s"', '"s"\nsnapshot_seconds = 0'), "state.snapshot_seconds", 0, "greater than 0"),
        (_PIPES.replace('"s"', '"s"\nsnapshot_seconds = -1.5'), "state.snapshot_seconds", -1.5, "greater than 0"),
        (_PIPES + "[service]\nbatch_rows = 0", "service.batch_rows", 0, "greater than or equal to 1"),
        (_PIPES + "[service]\nbatch_rows = 1048577", "service.batch_rows", 1048577, "less than or equal to 1048576"),
        (_PIPES + '[service]\nbatch_rows = "many"', "service.batch_rows", "many", "integer"),
        (_PIPES + "[service]\nbatch_rows = 1.5", "service.batch_rows", 1.5, "integer"),
        (_PIPES + "[service]\ndrain_seconds = 3601", "service.drain_seconds", 3601, "less than or equal to 3600"),
        (_PIPES + '[service]\nlog = "xml"', "service.log", "xml", "'json' or 'text'"),
        (
            _PIPES.replace('"stdin"', '"parquet"\npath = "q"\nrows_per_message = 0').replace('"stdout"', '"parquet"'),
            "source.rows_per_message",
            0,
            "greater than or equal to 1",
        ),
    ],
)
def test_setting_outside_its_bound(tmp_path, text, field, value, bound):
    """Field, value and bound are named."""
    with pytest.raises(InputError) as caught:
        _load(tmp_path, text)
    assert (caught.value.field, caught.value.value) == (field, value)
    assert bound in caught.value.bound
    assert "\n" not in str(caught.value)


def _of_kinds(folder, source, sink):
    return write_config(
        folder,
        source={"kind": source, "path": None if source == "stdin" else "q"},
        sink={"kind": sink, "path": None if sink == "stdout" else "out"},
    )


@pytest.mark.parametrize(
    ("source", "sink"),
    [("parquet", "jsonl"), ("jsonl", "parquet"), ("stdin", "parquet"), ("parquet", "stdout")],
)
def test_kinds_that_do_not_fit(tmp_path, source, sink):
    """Arrow messages are not answered into lines, nor lines into Parquet."""
    path = _of_kinds(tmp_path, source, sink)
    with pytest.raises(InputError, match=rf'sink.kind.*must be parquet exactly if source.kind is \(it is "{source}"\)'):
        load_config(path)


@pytest.mark.parametrize(
    ("source", "sink"), [("jsonl", "jsonl"), ("parquet", "parquet"), ("stdin", "jsonl"), ("jsonl", "stdout")]
)
def test_kinds_that_fit(tmp_path, source, sink):
    """All other pairs are taken."""
    config = load_config(_of_kinds(tmp_path, source, sink))
    assert (config.source.kind, config.sink.kind) == (source, sink)


def test_environment_goes_before_the_file(tmp_path, monkeypatch):
    """Single settings of any table can be overridden, the others stay; an unset table can be set."""
    path = write_config(tmp_path, service={"batch_rows": 9, "log": "text"})
    monkeypatch.setenv("PERPETUA_SERVICE__LOG", "json")
    monkeypatch.setenv("PERPETUA_STATE__SNAPSHOT_ROUNDS", "17")
    monkeypatch.setenv("PERPETUA_SOURCE__PATH", "/other.jsonl")
    monkeypatch.setenv("PERPETUA_DEBUG", "1")
    config = load_config(path)
    assert (config.service.log, config.service.batch_rows) == ("json", 9)
    assert (config.state.snapshot_rounds, config.state.folder) == (17, tmp_path / "state")
    assert isinstance(config.source, FileSourceConfig)
    assert (config.source.kind, config.source.path) == ("jsonl", Path("/other.jsonl"))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("PERPETUA_SERVICE__LOG", "xml", "service.log = 'xml': .*'json' or 'text'"),
        ("PERPETUA_SERVICE__BATCH_ROWS", "0", "service.batch_rows = '0': .*greater than or equal to 1"),
        ("PERPETUA_SERVICE__LGO", "json", r"service.lgo: .*unknown setting of a configuration; did you mean log\?"),
        ("PERPETUA_STATE", "nonsense", "PERPETUA_.*environment.*state"),
    ],
)
def test_environment_is_checked_alike(tmp_path, monkeypatch, name, value, message):
    """A wrong setting in the environment is named as one in the file is."""
    monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=message):
        load_config(write_config(tmp_path))


def test_missing_file(tmp_path):
    """It is a source error with the path and the system's reason."""
    with pytest.raises(SourceError, match=r"none.toml: cannot be read: No such file"):
        load_config(tmp_path / "none.toml")


@pytest.mark.parametrize("data", [b"state", b"[state\n", b"a = 1\na = 2\n", b"\xff", b'{"state": 1}', b"a = 1\x00"])
def test_not_toml(tmp_path, data):
    """The message names the file and says that it is not TOML, in one line."""
    path = tmp_path / "c.toml"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"c.toml.*not TOML") as caught:
        load_config(path)
    assert "\n" not in str(caught.value)


def test_configuration_is_frozen(tmp_path):
    """Nothing changes it after it was checked."""
    config = _load(tmp_path, _PIPES)
    with pytest.raises(ValueError, match="frozen"):
        config.service.batch_rows = 3  # type: ignore[misc]


_WEB = ["127.0.0.1", "127.0.0.53", "::1", "localhost"]


@pytest.mark.parametrize("host", _WEB)
def test_web_on_loopback_needs_no_token(tmp_path, host):
    """Without the table there is no web server; with it, loopback addresses need nothing more."""
    assert load_config(write_config(tmp_path)).web is None
    web = load_config(write_config(tmp_path, web={"host": host})).web
    assert web is not None
    assert (web.port, web.token_file, web.ready_lag_seconds) == (9464, None, 60.0)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "example.org", "127.0.0.1.example.org"])  # noqa: S104
def test_web_elsewhere_needs_a_token(tmp_path, host):
    """An address that others can reach, and a name that may be one, is refused without a token file."""
    with pytest.raises(InputError, match=r"web\.token_file: must be set: host is ") as caught:
        load_config(write_config(tmp_path, web={"host": host}))
    assert host in str(caught.value)
    assert load_config(write_config(tmp_path, web={"host": host, "token_file": "t"})).web is not None


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("port", 65_536, "less than or equal to 65535"),
        ("port", -1, "greater than or equal to 0"),
        ("ready_lag_seconds", 0, "greater than 0"),
        ("host", "", "at least 1 character"),
        ("tokenfile", "x", "did you mean token_file?"),
    ],
)
def test_web_settings_outside_their_bounds(tmp_path, setting, value, words):
    """The setting and the bound are named; of a misspelt one the nearest name is."""
    with pytest.raises(InputError, match=rf"web\.{setting}") as caught:
        load_config(write_config(tmp_path, web={setting: value}))
    assert words in str(caught.value)
