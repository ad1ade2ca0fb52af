"""`perpetua check` and `serve` refuse the same sinks and sources, and lose nothing."""

import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from oracle.predictors.rectangles import RectanglesTrainer
from oracle.state.folder import FolderStore
from oracle.state.genesis import Genesis, write_genesis
from oracle.state.keys import read_key_file
from tests.predictors.plans import planned
from tests.support.checked import ALL, problem_of, tree, write_queries
from tests.support.folders import write_config, write_parquet
from tests.support.shards import bodies, first_snapshot


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
    assert wanted in problem_of(cli, ready, "sink's folder is writable")
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
    assert f"sink.ledger = '{path}': is a file of the state" in problem_of(cli, ready, "sink's folder is writable")
    assert "is a file of the state" in _serve_says(cli, ready)
    assert (path.read_bytes() if path.exists() else None) == before


def test_sink_files_that_are_one_are_both_named(cli, ready):
    """Also where one of them is not a setting of its own."""
    write_config(ready, sink={"dead_letter": str(ready / "out.jsonl.commit")})
    problem = problem_of(cli, ready, "sink's folder is writable")
    assert "sink.dead_letter" in problem
    assert "the commit record" in problem
    write_config(ready, sink={"dead_letter": str(ready / "state" / ".." / "ledger.jsonl")})
    problem = problem_of(cli, ready, "sink's folder is writable")
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
    before = tree(ready)
    problem = problem_of(cli, ready, "sink matches the state")
    assert _serve_says(cli, ready) == f"perpetua: {problem}"
    assert tree(ready) == before
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
    before = tree(ready)
    problem = problem_of(cli, ready, "sink matches the state")
    assert _serve_says(cli, ready) == f"perpetua: {problem}"
    assert tree(ready) == before


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
        write_queries(ready / "q.jsonl", 20, seed=2)
    elif how == "shorter log":
        (ready / "q.jsonl").write_bytes((ready / "q.jsonl").read_bytes()[:-10])
    if how == "good":
        before = tree(ready)
        result = cli("check", ready / "c.toml")
        assert (result.code, result.err) == (0, "")
        assert "ok     log matches the answers since the snapshot" in result.out.splitlines()
        assert tree(ready) == before
        return
    problem = problem_of(cli, ready, "log matches the answers since the snapshot")
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
    assert complaint in problem_of(cli, ready, ALL[-1])
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
    verify = ("verify", ready / "q.jsonl", "--from", genesis, "--answers", ready / "out.jsonl")
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
