import contextlib
import os
import re
import stat

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from oracle.cli.init import shards as init_shards
from oracle.cli.tables import labelled_batches
from oracle.planning.kinds import decode_plan
from oracle.predictors import split
from oracle.predictors.rectangles import RectanglesTrainer
from oracle.state.folder import FolderStore, newest_bytes, read_plan
from oracle.state.format import decode
from oracle.state.genesis import read_genesis
from oracle.state.keys import read_key_file
from oracle.state.shards import shard_count, shard_folder
from tests.faults import Faults, SimulatedCrash
from tests.support.folders import write_config

pytestmark = pytest.mark.usefixtures("planned_once")

EXAMPLES = 8_001
NAMES = ["shard-0000", "shard-0001"]


@pytest.fixture
def columns():
    """Return the columns of a few more rows than are declared."""
    values = np.random.default_rng(1).random(EXAMPLES + 40)
    return {"a": values.tolist(), "label": ((values > 0.1) & (values < 0.9)).tolist()}


@pytest.fixture
def rows(tmp_path, columns):
    """Return them as a CSV file."""
    pyarrow.csv.write_csv(pa.table(columns), tmp_path / "rows.csv")
    return tmp_path / "rows.csv"


@pytest.fixture
def arguments(model, rows, tmp_path):
    """Return the command that makes two shards in `state`."""
    return ["init", model(EXAMPLES), "--data", rows, "--state", tmp_path / "state", "--shards", "2"]


def _snapshots(folder, key_path):
    """Return every shard's plan and newest snapshot, decrypted."""
    found = []
    for number in range(shard_count(folder)):
        with FolderStore.open(shard_folder(folder, number), read_key_file(key_path)) as store:
            data = store.read_plan()
            assert data is not None
            plan = decode_plan(data)
            found.append((plan, store.load_latest(plan.digest)))
    return found


def _modes(folder):
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_shards_are_made(cli, model, tmp_path, columns, suffix):
    """A state folder a shard, one key, one plan with half of the examples and of delta; folders 0700, files 0600."""
    path, folder = tmp_path / f"rows{suffix}", tmp_path / "state"
    (pyarrow.csv.write_csv if suffix == ".csv" else pyarrow.parquet.write_table)(pa.table(columns), path)
    old = os.umask(0)
    try:
        result = cli("init", model(EXAMPLES), "--data", path, "--state", folder, "--shards", "2")
    finally:
        os.umask(old)
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines() == [
        "interval: epsilon = 8, sum of delta <= 0.001, 8,001 examples",
        "2 shards, each: sum of delta <= 0.0005, 4,000 examples; a record is in one shard only",
        f"state folder: {folder}",
        f"key file:     {folder / 'key'}  (keep it apart from copies of the state folder)",
    ]
    files = dict.fromkeys(["shards.json", "plan.json", "key", "lock"], 0o600)
    assert _modes(folder) == {**files, **dict.fromkeys(NAMES, 0o700)}
    for name in NAMES:
        expected = ["snapshot-00000000000000000001.perp", "plan.json", "lock"]
        assert _modes(folder / name) == dict.fromkeys(expected, 0o600)
        assert read_plan(folder / name) == (folder / "plan.json").read_bytes()
    for plan, snapshot in _snapshots(folder, folder / "key"):
        assert (plan.declared, plan.delta, plan.epsilon) == (4_000, 0.0005, 8.0)
        assert (snapshot.generation, snapshot.position, snapshot.round) == (1, 0, 0)


def test_each_shard_has_secrets_of_its_own(cli, arguments, tmp_path):
    """No two shards share a phase key; nor do two runs, nor a partition: another run's shards hold other points."""
    keys, points = set(), set()
    for name in ("one", "two"):
        assert cli(*arguments, "--state", tmp_path / name).code == 0
        for _, snapshot in _snapshots(tmp_path / name, tmp_path / name / "key"):
            keys.add(snapshot.arrays["key"].tobytes())
            points.add(snapshot.arrays["points"].tobytes())
    assert (len(keys), len(points)) == (4, 4)


def test_every_row_goes_to_one_shard(cli, arguments, monkeypatch, columns):
    """Over as many readings as there are shards: the parts are disjoint and together they are the declared rows."""
    parts: list[list[float]] = []

    class Recording(RectanglesTrainer):
        def __init__(self, plan, secret):
            super().__init__(plan, secret)
            parts.append([])

        def add(self, features, labels):
            parts[-1] += features[:, 0].tolist()
            super().add(features, labels)

    monkeypatch.setattr(init_shards, "_TOGETHER_BYTES", 1)
    monkeypatch.setattr(split, "new_trainer", Recording)
    assert cli(*arguments).code == 0
    assert [len(part) for part in parts] == [4_000, 4_000]
    assert sorted(parts[0] + parts[1]) == sorted(columns["a"][:8_000])
    assert parts[0] not in (columns["a"][:8_000:2], columns["a"][1:8_000:2])


def test_rows_that_change_between_readings_are_refused(  # noqa: PLR0913, PLR0917 -- fixtures
    cli, refused, arguments, tmp_path, monkeypatch, rows
):
    """A record could be in two shards, so nothing is made; the same command makes it from a file that holds still."""
    monkeypatch.setattr(init_shards, "_TOGETHER_BYTES", 1)
    readings = []

    def changing(*names):
        readings.append(names)
        for features, labels in labelled_batches(*names):
            yield features + (len(readings) == 2), labels

    monkeypatch.setattr(init_shards, "labelled_batches", changing)
    assert refused(2, *arguments) == f"{rows}: has changed while it was read; run the same command again"
    assert "has not finished this state" in refused(3, "status", tmp_path / "state")
    assert cli(*arguments).code == 0
    assert shard_count(tmp_path / "state") == 2


def test_one_shard_is_as_ever(cli, arguments, tmp_path):
    """`--shards 1` makes the folder that no option makes: the same names, and the same plan byte for byte."""
    assert cli(*arguments[:-2], "--shards", "1").code == 0
    assert cli(*arguments[:-2], "--state", tmp_path / "plain").code == 0
    assert _modes(tmp_path / "state") == _modes(tmp_path / "plain")
    assert read_plan(tmp_path / "state") == read_plan(tmp_path / "plain")
    assert "shards.json" not in _modes(tmp_path / "state")


def test_key_and_genesis_elsewhere(cli, arguments, tmp_path):
    """A genesis file a shard in a folder of mode 0700, each with the one key and its own first snapshot."""
    key, genesis, folder = tmp_path / "k", tmp_path / "g", tmp_path / "state"
    result = cli(*arguments, "--key", key, "--keep-genesis", genesis)
    assert result.code == 0
    assert f"genesis files: {genesis}" in result.out
    assert not (folder / "key").exists()
    assert stat.S_IMODE(genesis.stat().st_mode) == 0o700
    assert _modes(genesis) == dict.fromkeys([f"{name}.genesis" for name in NAMES], 0o600)
    for name in NAMES:
        kept = read_genesis(genesis / f"{name}.genesis")
        assert (kept.master_key, kept.plan) == (read_key_file(key), read_plan(folder / name))
    assert read_genesis(genesis / "shard-0000.genesis").snapshot != newest_bytes(folder / "shard-0001")


def test_existing_state_is_refused(cli, refused, arguments, tmp_path):
    """Shards are not overwritten, by one shard or by many; nor are others' genesis files."""
    folder, genesis = tmp_path / "state", tmp_path / "g"
    assert cli(*arguments, "--keep-genesis", genesis).code == 0
    before = {path: path.read_bytes() for path in [*folder.rglob("*"), *genesis.iterdir()] if path.is_file()}
    for command in (arguments, arguments[:-2]):
        assert refused(3, *command) == (
            f"{folder}: holds a state already, and nothing is ever overwritten; name another folder"
        )
    message = refused(3, *arguments, "--state", tmp_path / "new", "--keep-genesis", genesis)
    assert message == f"{genesis}: exists already, and nothing is ever overwritten"
    assert {path: path.read_bytes() for path in before} == before
    assert not (tmp_path / "new").exists()


def test_one_shards_state_is_not_overwritten(cli, refused, arguments):
    """Neither do shards take the place of a state of one."""
    assert cli(*arguments[:-2]).code == 0
    assert "holds a state already" in refused(3, *arguments)


@pytest.mark.parametrize("kind", ["file", "other files"])
def test_genesis_folder_that_is_taken(refused, arguments, tmp_path, kind):
    """A file, or a folder with anything else in it, is let be."""
    genesis = tmp_path / "g"
    if kind == "file":
        genesis.write_text("mine")
    else:
        genesis.mkdir(mode=0o700)
        (genesis / "mine").touch()
    assert refused(3, *arguments, "--keep-genesis", genesis) == (
        f"{genesis}: exists already, and nothing is ever overwritten"
    )
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("row", [0, 1, 7_999])
def test_bad_value(refused, model, tmp_path, columns, row):
    """Whichever shard it would go to: the column is named, and no folder is made."""
    columns["a"][row] = float("inf")
    pyarrow.parquet.write_table(pa.table(columns), tmp_path / "rows.parquet")
    command = ["init", model(EXAMPLES), "--data", tmp_path / "rows.parquet", "--state", tmp_path / "state"]
    assert "column a: every value must be a finite number" in refused(2, *command, "--shards", "2")
    assert not (tmp_path / "state").exists()


def test_smaller_set_is_refused(refused, model, tmp_path, columns):
    """Fewer rows than declared, even if the shards would not need the last one; no folder is made."""
    pyarrow.csv.write_csv(pa.table(columns).slice(0, EXAMPLES - 1), tmp_path / "r.csv")
    command = ["init", model(EXAMPLES), "--data", tmp_path / "r.csv", "--state", tmp_path / "state", "--shards", "2"]
    assert refused(2, *command) == "data: fewer rows than model.examples = 8001 declares"
    assert not (tmp_path / "state").exists()


def test_small_parts_are_refused(cli, refused, arguments, model, tmp_path):
    """Before the data is read; `plan` prints what a shard wants and says the same, and plans what does."""
    message = refused(2, *arguments, "--shards", "4")
    pattern = (
        r"--shards = 4: [\d,]+ training examples would be enough for each shard, which gets 2,000 of model.examples"
    )
    assert re.fullmatch(pattern + r" = 8,001; declare [\d,]+, or take --shards 2 at most", message)
    assert not (tmp_path / "state").exists()
    result = cli("plan", model(EXAMPLES), "--shards", "4")
    assert result.code == 2
    assert result.err.startswith(f"perpetua: {message}\n2,000 rows buy (`perpetua suggest` shows more):\n")
    assert "2,000 declared" in result.out
    result = cli("plan", model(EXAMPLES), "--shards", "2")
    assert result.code == 0
    assert result.out.splitlines()[0] == (
        "shards        2, each as follows; a record is in one of them only, and delta sums to at most 0.001 over all"
    )
    assert "delta sums to at most 0.0005 for ever" in result.out


def test_plan_is_the_shards(cli, arguments, model, tmp_path):
    """`plan --shards N --json` prints the plan that `init` binds each shard to."""
    assert cli(*arguments).code == 0
    printed = cli("plan", model(EXAMPLES), "--shards", "2", "--json").out.encode()
    assert decode_plan(printed).encode() == read_plan(tmp_path / "state" / "shard-0001")


@pytest.mark.parametrize("shards", ["0", "-3", "1025"])
def test_number_of_shards_is_bounded(refused, arguments, model, shards):
    """Both commands say the bound."""
    message = f"--shards = {shards}: must be from 1 to 1024"
    assert refused(2, *arguments, "--shards", shards) == message
    assert refused(2, "plan", model(), "--shards", shards) == message


def test_files_serve_one_shard(cli, refused, arguments, tmp_path):
    """`serve`, `check` and `replay` refuse the whole and say what to name; that works."""
    assert cli(*arguments).code == 0
    folder, shard = tmp_path / "state", tmp_path / "state" / "shard-0001"
    (tmp_path / "q.jsonl").write_text('{"x":[0.5]}\n' * 20)
    whole = write_config(tmp_path)
    message = (
        f"{folder}: has 2 shards and is served from Kafka; to serve one shard from files, name its folder, "
        f"such as {folder / 'shard-0000'}, and the key file (by default {folder / 'key'})"
    )
    assert refused(3, "serve", whole) == message
    assert refused(3, "fork", tmp_path / "q.jsonl", "--from", folder) == message
    result = cli("check", whole)
    assert result.code == 1
    assert result.out.splitlines()[1:] == [f"WRONG  state folder exists and is private: {message}"]
    one = write_config(tmp_path, name="one.toml", state={"folder": str(shard), "key_file": str(folder / "key")})
    assert cli("check", one).code == 0
    assert cli("serve", one).code == 0
    statuses = msgspec.json.decode(cli("status", folder, "--json").out)["shards"]
    assert [status["round"] for status in statuses] == [0, 20]


def test_interrupted_init_can_be_run_again(cli, refused, arguments, tmp_path):
    """A crash at any system call that changes a file leaves nothing that serves, and the same command makes a state."""
    made = 0
    for index in range(300):
        folder, genesis = tmp_path / f"state-{index}", tmp_path / f"genesis-{index}"
        command = [*arguments, "--state", folder, "--keep-genesis", genesis]
        with Faults(crash_at=index) as faults, contextlib.suppress(SimulatedCrash):
            cli(*command)
        if not faults.reached:
            break
        finished = (folder / "shards.json").exists()
        if not finished:
            assert re.search("has not finished|holds no state", refused(3, "status", folder))
            assert cli(*command).code == 0
            made += 1
        assert not list(tmp_path.rglob("*.tmp"))
        assert sorted(_modes(folder)) == ["key", "lock", "plan.json", *NAMES, "shards.json"]
        assert sorted(_modes(genesis)) == [f"{name}.genesis" for name in NAMES]
        for (plan, snapshot), name in zip(_snapshots(folder, folder / "key"), NAMES, strict=True):
            kept = read_genesis(genesis / f"{name}.genesis")
            assert (kept.master_key, kept.plan) == (read_key_file(folder / "key"), plan.encode())
            first = decode(kept.snapshot, kept.master_key, plan.digest)
            assert (first.arrays["key"] == snapshot.arrays["key"]).all()
    assert made >= 40


@pytest.mark.parametrize("shards", ["1", "3"])
def test_another_number_of_shards_after_an_interruption(cli, model, arguments, tmp_path, shards):
    """What the first try left is gone: the state is the one that was asked for last."""
    folder = tmp_path / "state"
    with Faults(crash_at=40) as faults, contextlib.suppress(SimulatedCrash):
        cli(*arguments)
    assert faults.reached
    assert (folder / "unfinished.json").exists()
    rows = tmp_path / "more.csv"
    values = np.random.default_rng(2).random(12_000)
    pyarrow.csv.write_csv(pa.table({"a": values, "label": values > 0.1}), rows)
    command = ["init", model(12_000), "--data", rows, "--state", folder, "--shards", shards]
    assert cli(*command).code == 0
    assert shard_count(folder) == int(shards)
    assert all(plan.declared == 12_000 // int(shards) for plan, _ in _snapshots(folder, folder / "key"))
    assert not (folder / "unfinished.json").exists()
