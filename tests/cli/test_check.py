import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from oracle.planning.kinds import decode_plan
from oracle.predictors.rectangles import RectanglesTrainer
from oracle.state.folder import FolderStore
from oracle.state.genesis import Genesis, write_genesis
from oracle.state.keys import create_key_file, read_key_file
from tests.predictors.plans import planned
from tests.support.folders import write_config, write_parquet
from tests.support.shards import bodies, first_snapshot

_ALL = [
    "configuration",
    "state folder is there and private",
    "state folder takes the next snapshot",
    "plan, re-checked by the accountant",
    "key file",
    "sink's folder can be written",
    "snapshot opens under this key and plan",
    "sink goes with the state",
    "source can be read from the state's position",
]


@pytest.fixture
def ready(tmp_path):
    """Return a folder with a state of a real plan, a log and a configuration; the accountant passes the plan."""
    plan = planned()
    snapshot = first_snapshot(plan)
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    with FolderStore.open(folder, create_key_file(folder / "key")) as store:
        store.write_plan(plan.encode())
        store.save(snapshot)
    _write_queries(tmp_path / "q.jsonl", 20)
    write_config(tmp_path)
    return tmp_path


def _write_queries(path, count, seed=1):
    """Write queries of the plan's one feature."""
    values = np.random.default_rng(seed).random(count)
    path.write_text("".join(f'{{"id":"q{number}","x":[{value:.6f}]}}\n' for number, value in enumerate(values)))


def _tree(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_good(cli, ready):
    """Everything is fine, and nothing has changed."""
    before = _tree(ready)
    result = cli("check", ready / "c.toml")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines() == [f"ok     {what}" for what in _ALL]
    found = msgspec.json.decode(cli("check", ready / "c.toml", "--json").out)
    assert found == [{"what": what, "problem": None} for what in _ALL]
    assert _tree(ready) == before


def test_good_beside_a_running_daemon(cli, ready):
    """It does not need the state folder's lock."""
    with FolderStore.open(ready / "state", bytes(32)):
        result = cli("check", ready / "c.toml")
    assert result.code == 0
    assert "a daemon is serving this state now" in result.out


def test_good_with_standard_input(cli, ready):
    """Standard input is not read."""
    write_config(ready, source={"kind": "stdin", "path": None}, sink={"kind": "stdout", "path": None})
    assert cli("check", ready / "c.toml").code == 0


def _problem(cli, folder, what):
    result = cli("check", folder / "c.toml", "--json")
    assert result.code == 1
    found = {finding["what"]: finding["problem"] for finding in msgspec.json.decode(result.out)}
    assert [name for name, problem in found.items() if problem] == [what]
    words = cli("check", folder / "c.toml")
    assert words.code == 1
    assert f"WRONG  {what}: {found[what]}" in words.out.splitlines()
    assert words.err == ""
    return found[what]


def test_wrong_configuration(cli, ready):
    """It is the only finding, for nothing else can be looked at."""
    write_config(ready, service={"log": "xml"})
    assert "service.log = 'xml'" in _problem(cli, ready, "configuration")


def test_missing_state(cli, ready):
    """The message says what makes one."""
    key = ready / "key"
    (ready / "state" / "key").rename(key)
    shutil.rmtree(ready / "state")
    write_config(ready, state={"key_file": str(key)})
    assert "perpetua init" in _problem(cli, ready, "state folder is there and private")


def test_missing_snapshot(cli, ready):
    """A plan without a snapshot is no state."""
    for path in (ready / "state").glob("*.perp"):
        path.unlink()
    assert "perpetua init" in _problem(cli, ready, "snapshot opens under this key and plan")


def test_plan_that_the_accountant_refuses(cli, ready):
    """A plan that was edited to promise more than it keeps is found."""
    path = ready / "state" / "plan.json"
    plan = decode_plan(path.read_bytes())
    lies = msgspec.structs.replace(plan, epsilon=plan.epsilon / 2)
    for snapshot in (ready / "state").glob("*.perp"):
        snapshot.unlink()
    path.write_bytes(lies.encode())
    result = cli("check", ready / "c.toml")
    assert result.code == 1
    assert "WRONG  plan, re-checked by the accountant" in result.out


def test_plan_of_another_snapshot(cli, ready):
    """A plan that is not the snapshot's is found."""
    path = ready / "state" / "plan.json"
    path.write_bytes(path.read_bytes().replace(b'"interval"', b'"interbal"'))
    assert "not the plan of the snapshot" in _problem(cli, ready, "plan, re-checked by the accountant")


def test_missing_key(cli, ready):
    """Its path is named; the snapshot cannot be opened then."""
    (ready / "state" / "key").unlink()
    problem = _problem(cli, ready, "key file")
    assert str(ready / "state" / "key") in problem


def test_key_that_others_can_read(cli, ready):
    """The message is the command that mends it."""
    (ready / "state" / "key").chmod(0o644)
    assert "chmod 600" in _problem(cli, ready, "key file")


def test_wrong_key(cli, ready):
    """A key file of another state."""
    (ready / "state" / "key").unlink()
    create_key_file(ready / "state" / "key")
    assert _problem(cli, ready, _ALL[6]).endswith(f"another key than the one at hand, {ready / 'state' / 'key'}")


def test_damaged_snapshot(cli, ready):
    """One changed bit of the encrypted part is found."""
    (path,) = (ready / "state").glob("*.perp")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert "not the one that was written" in _problem(cli, ready, _ALL[6])


@pytest.mark.parametrize("setting", ["path", "ledger", "dead_letter"])
@pytest.mark.parametrize("kind", ["missing", "file"])
def test_folder_that_cannot_be_written(cli, ready, setting, kind):
    """Any of the sink's files: the folder is named, and what to do."""
    target = (ready / "none" if kind == "missing" else ready / "q.jsonl") / "out.jsonl"
    write_config(ready, sink={setting: str(target)})
    problem = _problem(cli, ready, "sink's folder can be written")
    assert str(target.parent) in problem
    assert "make the folder, or let this user write to it" in problem


def test_folder_of_a_ledger_beside_standard_output(cli, ready):
    """It is looked at there, too."""
    write_config(
        ready,
        source={"kind": "stdin", "path": None},
        sink={"kind": "stdout", "path": None, "ledger": str(ready / "none" / "ledger.jsonl")},
    )
    assert str(ready / "none") in _problem(cli, ready, "sink's folder can be written")


def test_sink_files_must_differ(cli, ready):
    """Ledger and answers in one file are refused."""
    write_config(ready, sink={"ledger": str(ready / "out.jsonl")})
    assert "a path of its own" in _problem(cli, ready, "sink's folder can be written")


@pytest.mark.parametrize("kind", ["missing", "folder"])
def test_bad_source(cli, ready, kind):
    """A log that is not there, or is no file."""
    (ready / "q.jsonl").unlink()
    if kind == "folder":
        (ready / "q.jsonl").mkdir()
    assert "q.jsonl" in _problem(cli, ready, _ALL[-1])


def test_folder_open_to_others(cli, ready):
    """The command that closes it is named."""
    (ready / "state").chmod(0o755)
    assert "chmod 700" in _problem(cli, ready, "state folder is there and private")


def test_sink_that_was_taken_away_or_log_that_was_cut(cli, ready):
    """What the daemon would refuse after a run is found before it is started again."""
    assert cli("serve", ready / "c.toml").code == 0
    log = (ready / "q.jsonl").read_bytes()
    (ready / "q.jsonl").write_bytes(log[:-200])
    assert "shorter (" in _problem(cli, ready, _ALL[-1])
    (ready / "q.jsonl").write_bytes(log)
    for path in ready.glob("out.jsonl*"):
        path.unlink()
    assert "it has no commit" in _problem(cli, ready, "sink goes with the state")


def test_parquet_without_a_feature(cli, ready):
    """The column that is missing is named, by `check` and by `serve`."""
    pyarrow.parquet.write_table(pa.table({"c": [0.5]}), ready / "q.parquet")
    write_config(
        ready,
        source={"kind": "parquet", "path": str(ready / "q.parquet")},
        sink={"kind": "parquet", "path": str(ready / "out.parquet")},
    )
    assert "a: must be one column of numbers" in _problem(cli, ready, _ALL[-1])
    served = cli("serve", ready / "c.toml")
    assert served.code == 2
    assert "a: must be one column of numbers" in served.err


def test_bad_parquet_source(cli, ready):
    """A file that is not what its name says."""
    (ready / "q.parquet").write_bytes(b"nonsense")
    write_config(
        ready,
        source={"kind": "parquet", "path": str(ready / "q.parquet")},
        sink={"kind": "parquet", "path": str(ready / "out.parquet")},
    )
    assert "cannot be read as what its name says" in _problem(cli, ready, _ALL[-1])


def test_what_check_passes_serve_runs(cli, ready):
    """The same configuration is served, and checked again afterwards."""
    assert cli("serve", ready / "c.toml").code == 0
    assert cli("check", ready / "c.toml").code == 0
    assert len((ready / "out.jsonl").read_bytes().splitlines()) == 20


def _serve_says(cli, folder):
    result = cli("serve", folder / "c.toml")
    assert result.code != 0
    return result.err.splitlines()[-1]


def _held_back(folder):
    """Keep the first snapshot only, as if the daemon had been killed before the next one."""
    (path,) = (folder / "state").glob("*.perp")
    return path, path.read_bytes()


@pytest.mark.parametrize("setting", ["path", "ledger", "dead_letter"])
@pytest.mark.parametrize("way", ["plain", "dots", "link", "hard link"])
def test_sink_on_its_own_source(cli, ready, setting, way):
    """Both settings are named, and the log stays; also behind links and dots."""
    log = (ready / "q.jsonl").read_bytes()
    (ready / "sub").mkdir()
    paths = {name: ready / name for name in ("link.jsonl", "hard.jsonl")}
    paths["link.jsonl"].symlink_to(ready / "q.jsonl")
    paths["hard.jsonl"].hardlink_to(ready / "q.jsonl")
    target = {
        "plain": ready / "q.jsonl",
        "dots": ready / "sub" / ".." / "q.jsonl",
        "link": paths["link.jsonl"],
        "hard link": paths["hard.jsonl"],
    }[way]
    assert cli("serve", ready / "c.toml").code == 0
    write_config(ready, sink={setting: str(target)})
    wanted = f"sink.{setting} = '{target}': is source.path too"
    assert wanted in _problem(cli, ready, "sink's folder can be written")
    assert wanted in _serve_says(cli, ready)
    assert (ready / "q.jsonl").read_bytes() == log


@pytest.mark.parametrize("suffix", [".commit", ".commit.lock", ".commit.tmp"])
def test_source_on_the_sinks_record(cli, ready, suffix):
    """What stands beside the answers is not a log either."""
    path = ready / f"out.jsonl{suffix}"
    write_config(ready, source={"path": str(path)})
    (ready / "q.jsonl").rename(path)
    assert "is source.path too" in _serve_says(cli, ready)
    assert len(path.read_bytes().splitlines()) == 20


def test_source_within_the_sinks_folder(cli, ready):
    """A part is no log of the sink that numbers the parts."""
    folder = ready / "out.parquet"
    folder.mkdir()
    pyarrow.parquet.write_table(pa.table({"a": [0.5], "b": [0.5]}), folder / "part-00000007.parquet")
    write_config(
        ready,
        source={"kind": "parquet", "path": str(folder / "part-00000007.parquet")},
        sink={"kind": "parquet", "path": str(folder)},
    )
    assert "is source.path too" in _serve_says(cli, ready)


@pytest.mark.parametrize("name", ["key", "plan.json", "lock", "snapshot", "forks"])
def test_sink_on_the_state(cli, ready, name):
    """A sink's file may not be one that the state keeps."""
    (snapshot,) = (ready / "state").glob("*.perp")
    special = {"snapshot": snapshot, "forks": ready / "state.forks.jsonl"}
    path = special.get(name, ready / "state" / name)
    before = path.read_bytes() if path.exists() else None
    write_config(ready, sink={"ledger": str(path)})
    assert f"sink.ledger = '{path}': is a file of the state" in _problem(cli, ready, "sink's folder can be written")
    assert "is a file of the state" in _serve_says(cli, ready)
    assert (path.read_bytes() if path.exists() else None) == before


def test_sink_files_that_are_one_are_both_named(cli, ready):
    """Also where one of them is not a setting of its own."""
    write_config(ready, sink={"dead_letter": str(ready / "out.jsonl.commit")})
    problem = _problem(cli, ready, "sink's folder can be written")
    assert "sink.dead_letter" in problem
    assert "the commit record" in problem
    write_config(ready, sink={"dead_letter": str(ready / "state" / ".." / "ledger.jsonl")})
    problem = _problem(cli, ready, "sink's folder can be written")
    assert "is sink.ledger too" in problem
    assert "sink.dead_letter" in problem


@pytest.mark.parametrize("what", ["cut answers", "no ledger", "cut ledger", "new answers", "no answers"])
def test_what_serve_refuses_of_a_used_sink(cli, ready, what):
    """The finding is the very sentence that serve stops with, and no new file is made by either."""
    assert cli("serve", ready / "c.toml").code == 0
    if what == "cut answers":
        (ready / "out.jsonl").write_bytes((ready / "out.jsonl").read_bytes()[:-5])
    elif what == "cut ledger":
        (ready / "ledger.jsonl").write_bytes(b"")
    elif what == "no ledger":
        write_config(ready, sink={"ledger": None})
    elif what == "new answers":
        write_config(ready, sink={"path": str(ready / "new.jsonl")})
    else:
        (ready / "out.jsonl").unlink()
    before = _tree(ready)
    problem = _problem(cli, ready, "sink goes with the state")
    assert _serve_says(cli, ready) == f"perpetua: {problem}"
    assert _tree(ready) == before
    assert ("it has no commit" in problem) == (what == "new answers")


@pytest.mark.parametrize("what", ["a part", "folder", "stream"])
def test_what_serve_refuses_of_a_used_parquet_sink(cli, ready, what):
    """A missing part, or a stream that was cut."""
    write_parquet(ready / "q.parquet", bodies(20))
    answers = ready / ("out.arrow" if what == "stream" else "out.parquet")
    write_config(
        ready,
        source={"kind": "parquet", "path": str(ready / "q.parquet"), "rows_per_message": 8},
        sink={"kind": "parquet", "path": str(answers)},
    )
    assert cli("serve", ready / "c.toml").code == 0
    assert cli("check", ready / "c.toml").code == 0
    if what == "a part":
        (answers / "part-00000001.parquet").unlink()
    elif what == "folder":
        shutil.rmtree(answers)
    else:
        answers.write_bytes(answers.read_bytes()[:-5])
    before = _tree(ready)
    problem = _problem(cli, ready, "sink goes with the state")
    assert _serve_says(cli, ready) == f"perpetua: {problem}"
    assert _tree(ready) == before


@pytest.mark.parametrize("how", ["another state", "another log", "shorter log", "good"])
def test_log_since_the_snapshot(cli, ready, how):
    """A fresh state beside the answers of another one, or a log that was exchanged: serve's sentence, too."""
    path, data = _held_back(ready)
    assert cli("serve", ready / "c.toml").code == 0
    for newer in (ready / "state").glob("*.perp"):
        newer.unlink()
    path.write_bytes(data)
    if how == "another state":
        rows = np.random.default_rng(2).random((planned().declared, 1))
        trainer = RectanglesTrainer(planned(), bytes(32))
        trainer.add(rows, np.asarray(((rows > 0.05) & (rows < 0.95)).all(axis=1)))
        path.unlink()
        with FolderStore.open(ready / "state", read_key_file(ready / "state" / "key")) as store:
            store.save(replace(first_snapshot(planned()), arrays=trainer.finish().export()))
    elif how == "another log":
        _write_queries(ready / "q.jsonl", 20, seed=2)
    elif how == "shorter log":
        (ready / "q.jsonl").write_bytes((ready / "q.jsonl").read_bytes()[:-10])
    if how == "good":
        before = _tree(ready)
        result = cli("check", ready / "c.toml")
        assert (result.code, result.err) == (0, "")
        assert "ok     log is the one that was answered since the snapshot" in result.out.splitlines()
        assert _tree(ready) == before
        return
    problem = _problem(cli, ready, "log is the one that was answered since the snapshot")
    assert ("shorter (" in problem) == (how == "shorter log")
    said = _serve_says(cli, ready)
    assert said == f"perpetua: {problem}" or how == "shorter log"


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"a": ["x"]}, "every message would be rejected (wrong-type): a: must be one column of numbers"),
        ({"b": [0.5]}, "every message would be rejected (missing-feature): a: must be one column of numbers"),
        ({"a": [True]}, "(wrong-type): a: must be"),
        ({"a": [1], "id": [0.5]}, "(bad-id): id: must be a column of strings or signed integers"),
    ],
)
@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_columns_that_reject_every_message(cli, ready, columns, complaint, suffix):
    """Rows would be lost without an answer; check and serve say so, and nothing is written."""
    table = pa.table(columns)
    if suffix == ".parquet":
        pyarrow.parquet.write_table(table, ready / "q.parquet")
    else:
        with pa.OSFile(str(ready / "q.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    write_config(
        ready,
        source={"kind": "parquet", "path": str(ready / f"q{suffix}")},
        sink={"kind": "parquet", "path": str(ready / "out.parquet")},
    )
    assert complaint in _problem(cli, ready, _ALL[-1])
    assert complaint in _serve_says(cli, ready)
    assert not (ready / "out.parquet").exists()


def test_log_without_its_last_newline(cli, ready):
    """It is served, grows by the newline and more, and is served on; all of it verifies, also from an old snapshot."""
    path, data = _held_back(ready)
    genesis = ready / "state.genesis"
    plan = planned()
    key = read_key_file(ready / "state" / "key")
    write_genesis(genesis, Genesis(key, data, plan.encode()))
    whole = (ready / "q.jsonl").read_bytes()
    (ready / "q.jsonl").write_bytes(whole[:-1])
    assert cli("serve", ready / "c.toml").code == 0
    assert cli("check", ready / "c.toml").code == 0
    verify = ("replay", ready / "q.jsonl", "--from", genesis, "--answers", ready / "out.jsonl", "--verify")
    assert cli(*verify).code == 0
    (ready / "q.jsonl").write_bytes(whole + b'{"x":[0.5]}')
    assert cli(*verify).code == 0
    for newer in (ready / "state").glob("*.perp"):
        newer.unlink()
    path.write_bytes(data)
    assert cli("check", ready / "c.toml").code == 0
    assert cli("serve", ready / "c.toml").code == 0
    assert cli(*verify).code == 0
    assert len((ready / "out.jsonl").read_bytes().splitlines()) == 21


def test_lock_that_another_user_left(cli, ready, monkeypatch):
    """As after one `serve` by root: the file is named, and whose it must be."""
    lock = ready / "state" / "lock"
    real = os.open

    def refused(path, flags, *mode):
        if Path(path) == lock and flags & os.O_RDWR:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, flags, *mode)

    monkeypatch.setattr(os, "open", refused)
    problem = _problem(cli, ready, "state folder takes the next snapshot")
    assert problem == f"{lock}: Permission denied; it must belong to the user that serves"


def test_folder_that_cannot_be_entered(cli, ready, monkeypatch):
    """What was found before it is printed all the same, and with --json it is JSON."""
    real = Path.stat

    def refused(path, **how):
        if path.parent == ready / "state":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, **how)

    monkeypatch.setattr(Path, "stat", refused)
    result = cli("check", ready / "c.toml")
    assert result.code == 1
    assert result.out.startswith("ok     configuration\nWRONG  state folder is there and private: ")
    found = msgspec.json.decode(cli("check", ready / "c.toml", "--json").out)
    assert found[1]["problem"].endswith("Permission denied")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('folder = "', 'folder = "\\u0000', "state.folder = '...': must not hold a zero byte"),
        ("[state]", '[web]\nhost = "a\\u0000b"\n[state]', "web.host = '...': must not hold a zero byte"),
    ],
)
def test_zero_bytes(cli, ready, old, new, said):
    """No file and no host has one in its name; the setting is named."""
    path = ready / "c.toml"
    path.write_text(path.read_text().replace(old, new, 1))
    assert _problem(cli, ready, "configuration") == said


def test_host_that_is_no_name(cli, ready):
    """Names that cannot be encoded are refused like those that there are none of."""
    (ready / "token").write_text("0123456789abcdef\n")
    (ready / "token").chmod(0o600)
    with (ready / "c.toml").open("a") as file:
        file.write(f'[web]\nhost = "a..b"\ntoken_file = "{ready / "token"}"\n')
    assert "must be an address of this machine" in _problem(cli, ready, "web: address can be listened at")


@pytest.mark.parametrize(
    ("variable", "near"),
    [("PERPETUA_WBE__PORT", "PERPETUA_WEB__PORT"), ("PERPETUA_SERVCE__LOG", "PERPETUA_SERVICE__LOG")],
)
def test_misspelt_variable(cli, ready, monkeypatch, variable, near):
    """A setting in the environment that is none is told, with the nearest one."""
    monkeypatch.setenv(variable, "1")
    said = f"{variable} = '...': in the environment: unknown setting; did you mean {near}?"
    assert _problem(cli, ready, "configuration") == said
