import contextlib
import datetime as dt
import stat

import numpy as np
import pytest

from oracle.cli.init import command as init
from oracle.errors import PlanError
from oracle.planning.kinds import decode_plan
from oracle.state.folder import FolderStore, newest_bytes, read_plan
from oracle.state.genesis import read_genesis
from oracle.state.keys import read_key_file
from tests.faults import Faults, SimulatedCrash
from tests.support.row_files import write_rows

pytestmark = pytest.mark.usefixtures("planned_once")

_ROWS = 6_050


def _columns(seed=1):
    values = np.random.default_rng(seed).random(_ROWS)
    return {"a": values.tolist(), "label": ((values > 0.25) & (values < 0.75)).tolist()}


@pytest.fixture
def rows(tmp_path):
    """Return a CSV file of labelled rows."""
    return write_rows(tmp_path / "rows.csv", _columns())


def _modes(folder):
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_state_is_made(cli, model, tmp_path, suffix):
    """A snapshot under the new key, bound to the plan; folder 0700, files 0600; the words are public facts only."""
    rows = write_rows(tmp_path / f"rows{suffix}", {"other": ["x"] * _ROWS, **_columns()})
    result = cli("init", model(), "--data", rows, "--state", tmp_path / "state")
    assert (result.code, result.err) == (0, "")
    folder = tmp_path / "state"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert _modes(folder) == dict.fromkeys(["snapshot-00000000000000000001.perp", "plan.json", "key", "lock"], 0o600)
    plan = decode_plan((folder / "plan.json").read_bytes())
    with FolderStore.open(folder, read_key_file(folder / "key")) as store:
        snapshot = store.load_latest(plan.digest)
    assert snapshot is not None
    assert (snapshot.generation, snapshot.position, snapshot.round) == (1, 0, 0)
    assert result.out.splitlines() == [
        "interval: epsilon = 8, sum of delta <= 0.001, 6,000 examples",
        f"state folder: {folder}",
        f"key file:     {folder / 'key'}  (keep it apart from copies of the state folder)",
    ]


@pytest.mark.parametrize("labels", ["bool", "integer", "float"])
def test_label_column(cli, model, tmp_path, labels):
    """Another name, and booleans or the numbers 0 and 1, are one; the words do not depend on the data."""
    columns = _columns()
    kinds = {"bool": bool, "integer": int, "float": float}
    rows = write_rows(
        tmp_path / "rows.parquet", {"a": columns["a"], "fly": [kinds[labels](label) for label in columns["label"]]}
    )
    result = cli("init", model(), "--data", rows, "--state", tmp_path / "state", "--label", "fly")
    assert result.code == 0
    (tmp_path / "state").rename(tmp_path / "first")
    opposite = write_rows(tmp_path / "rows.csv", {"a": columns["a"], "fly": [not label for label in columns["label"]]})
    assert cli("init", model(), "--data", opposite, "--state", tmp_path / "state", "--label", "fly") == result


def test_keys_and_secrets_are_new_each_time(cli, model, tmp_path, rows):
    """Two states of the same rows share neither key file nor snapshot, but the plan."""
    for name in ("one", "two"):
        assert cli("init", model(), "--data", rows, "--state", tmp_path / name).code == 0
    one, two = tmp_path / "one", tmp_path / "two"
    assert (one / "key").read_bytes() != (two / "key").read_bytes()
    assert newest_bytes(one) != newest_bytes(two)
    assert read_plan(one) == read_plan(two)


def test_key_and_genesis_elsewhere(cli, model, tmp_path, rows):
    """Both are made where asked, mode 0600; the genesis file holds key, plan and first snapshot."""
    key, genesis, folder = tmp_path / "k", tmp_path / "g", tmp_path / "deep" / "state"
    result = cli("init", model(), "--data", rows, "--state", folder, "--key", key, "--keep-genesis", genesis)
    assert result.code == 0
    assert f"genesis file: {genesis}" in result.out
    assert not (folder / "key").exists()
    assert {stat.S_IMODE(path.stat().st_mode) for path in (key, genesis)} == {0o600}
    kept = read_genesis(genesis)
    assert (kept.master_key, kept.plan) == (read_key_file(key), read_plan(folder))


def test_existing_state_is_refused(cli, refused, model, tmp_path, rows):
    """Nothing is overwritten: neither a state nor a genesis file."""
    folder, genesis = tmp_path / "state", tmp_path / "g"
    assert cli("init", model(), "--data", rows, "--state", folder, "--keep-genesis", genesis).code == 0
    before = {path: path.read_bytes() for path in [*folder.iterdir(), genesis]}
    message = refused(3, "init", model(), "--data", rows, "--state", folder)
    assert message == f"{folder}: holds a state already, and nothing is ever overwritten; name another folder"
    message = refused(3, "init", model(), "--data", rows, "--state", tmp_path / "new", "--keep-genesis", genesis)
    assert message == f"{genesis}: exists already, and nothing is ever overwritten"
    assert {path: path.read_bytes() for path in before} == before
    assert not (tmp_path / "new").exists()


def test_smaller_set_is_refused(refused, model, tmp_path):
    """Fewer rows than declared; the message does not say how many there are, and no folder is made."""
    columns = {name: values[:5_999] for name, values in _columns().items()}
    message = refused(
        2, "init", model(), "--data", write_rows(tmp_path / "r.csv", columns), "--state", tmp_path / "state"
    )
    assert message == "data: fewer rows than model.examples = 6000 declares"
    assert not (tmp_path / "state").exists()


def test_too_few_declared_examples(refused, model, tmp_path, rows):
    """A model that no plan works for is refused before the data is read."""
    assert "model.examples = 60" in refused(2, "init", model(60), "--data", rows, "--state", tmp_path / "state")


@pytest.mark.parametrize(
    ("column", "value", "suffix", "message"),
    [
        ("a", float("nan"), ".parquet", "column a: every value must be a finite number"),
        ("a", float("inf"), ".csv", "column a: every value must be a finite number"),
        ("a", None, ".csv", "column a: every row must have a value"),
        ("a", None, ".parquet", "column a: every row must have a value"),
        ("label", None, ".csv", "column label: every row must have a label"),
        ("label", None, ".parquet", "column label: every row must have a label"),
    ],
)
def test_bad_value(refused, model, tmp_path, column, value, suffix, message):  # noqa: PLR0913, PLR0917
    """One bad value in the last row: its column and the rule are named, and no state is made."""
    columns = {key: values[:6_000] for key, values in _columns().items()}
    columns[column] = [*columns[column][:-1], value]
    rows = write_rows(tmp_path / f"rows{suffix}", columns)
    assert message in refused(2, "init", model(), "--data", rows, "--state", tmp_path / "state")
    assert not (tmp_path / "state").exists()


_LABELS = "column label: must hold booleans, or the numbers 0 and 1"


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (
            "a",
            "secret77",
            {
                ".csv": "column a: holds something that is not a number; the first is in row 1",
                ".parquet": "column a: must hold numbers, not string",
            },
        ),
        (
            "a",
            dt.datetime(2013, 1, 1),  # noqa: DTZ001 -- a column of local times
            {
                ".csv": "column a: holds something that is not a number; the first is in row 1",
                ".parquet": "column a: must hold numbers, not timestamp[us]",
            },
        ),
        ("label", "secret77", f"{_LABELS}, not string"),
        ("label", 2, f"{_LABELS}; its type is int64, with other numbers"),
        ("label", 0.5, f"{_LABELS}; its type is double, with other numbers"),
    ],
)
def test_column_of_the_wrong_kind(  # noqa: PLR0913, PLR0917 -- fixtures and cases
    refused, model, tmp_path, suffix, column, value, message
):
    """The column and its type are named, its content is not quoted."""
    columns = _columns()
    columns[column] = [value] * _ROWS
    rows = write_rows(tmp_path / f"rows{suffix}", columns)
    line = refused(2, "init", model(), "--data", rows, "--state", tmp_path / "state")
    assert (message if isinstance(message, str) else message[suffix]) in line
    assert "secret77" not in line


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(("label", "missing"), [("label", "a"), ("fly", "fly")])
def test_missing_column(refused, model, tmp_path, suffix, label, missing):  # noqa: PLR0913, PLR0917 -- as above
    """Feature or label: the name that is missing is told."""
    columns = _columns()
    if missing == "a":
        columns["b"] = columns.pop("a")
    rows = write_rows(tmp_path / f"rows{suffix}", columns)
    message = refused(2, "init", model(), "--data", rows, "--state", tmp_path / "state", "--label", label)
    there = ", ".join(columns)
    advice = '; column = "..." in the model file names another' if missing == "a" else "; --label names another"
    assert f"column {missing} is missing: there are {there}{advice}" in message


@pytest.mark.parametrize(
    ("columns", "code", "message"),
    [
        (None, 4, "cannot be read: No such file or directory"),
        ({"b": [0.5], "label": [True]}, 2, "column a is missing"),
        ({"a": ["secret77"], "label": [True]}, 2, "column a: "),
        ({"a": [0.5], "label": ["secret77"]}, 2, _LABELS),
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("shards", [1, 2])
def test_file_and_columns_are_looked_at_before_the_plan_is_made(  # noqa: PLR0913, PLR0917 -- fixtures and cases
    refused, model, tmp_path, monkeypatch, columns, code, message, suffix, shards
):
    """A wrong name or column costs no planning, which takes seconds; types of a .csv file are those of its first rows.

    A file without rows has columns of any type: it is short, which is told after the plan.
    """
    planned = []

    def plan(*_arguments):
        planned.append(1)
        raise PlanError("planned")

    monkeypatch.setattr(init, "plan_shards", plan)
    path = tmp_path / f"rows{suffix}"
    if columns is not None:
        write_rows(path, columns)
    command = ["init", model(), "--data", path, "--state", tmp_path / "state", "--shards", str(shards)]
    assert message in refused(code, *command)
    assert not planned
    write_rows(path, {"a": [], "label": []})
    assert refused(2, *command) == "planned"
    assert planned == [1]


def test_label_must_not_be_a_feature(refused, model, tmp_path, rows):
    """A column cannot be both."""
    message = refused(2, "init", model(), "--data", rows, "--state", tmp_path / "state", "--label", "a")
    assert message == "--label = 'a': is a feature of the model"


@pytest.mark.parametrize(
    ("name", "content", "code", "message"),
    [
        ("none.csv", None, 4, "No such file"),
        ("none.parquet", None, 4, "No such file"),
        ("rows.parquet", b"secret77", 4, "not a well-formed file"),
        ("empty.csv", b"", 4, "it is empty"),
        ("ragged.csv", b"a,label\n0.5,true\nsecret77\n", 4, "a row has 1 fields, and the header 2"),
        ("latin.csv", b"a,label\n\xff,true\n", 2, "column a: holds something that is not a number"),
        ("late.csv", b"a,label\n" + b"0.5,1\n" * 200_000 + b"secret77,1\n", 2, "column a: holds something that is not"),
        ("late.csv", b"a,label\n" + b"0.5,1\n" * 200_000 + b"0.5,secret77\n", 2, f"{_LABELS} in every row"),
        ("short.csv", b"a,label\n", 2, "data: fewer rows than model.examples = 400000 declares"),
        ("twice.csv", b"a,label,a\n0.5,true,0.5\n", 2, "column a appears more than once"),
        ("rows.txt", b"", 2, "must end in one of .csv, .tsv, .parquet, .jsonl, .arrow"),
        ("folder.csv", "folder", 4, "cannot be read: Is a directory"),
    ],
)
def test_unreadable_data(refused, model, tmp_path, name, content, code, message):  # noqa: PLR0913, PLR0917
    """What is wrong is named, and nothing of its content: 4 if it is no such file at all, 2 if its rows do not do."""
    path = tmp_path / name
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    line = refused(code, "init", model(400_000), "--data", path, "--state", tmp_path / "state")
    assert name in line or line.startswith("data: ")
    assert message in line
    assert "secret77" not in line


def test_interrupted_init_can_be_run_again(cli, model, tmp_path, rows):
    """A crash at any system call that changes a file leaves no state behind, and the same command makes one."""
    folders = []
    for index in range(200):
        folder = tmp_path / f"state-{index}"
        command = ["init", model(), "--data", rows, "--state", folder, "--keep-genesis", tmp_path / f"genesis-{index}"]
        with Faults(crash_at=index) as faults, contextlib.suppress(SimulatedCrash):
            cli(*command)
        if not faults.reached:
            break
        finished = newest_bytes(folder) is not None if folder.exists() else False
        result = cli(*command)
        if result.code == 0:
            assert not finished
            assert read_genesis(tmp_path / f"genesis-{index}").master_key == read_key_file(folder / "key")
            plan = decode_plan((folder / "plan.json").read_bytes())
            with FolderStore.open(folder, read_key_file(folder / "key")) as store:
                assert store.load_latest(plan.digest) is not None
            folders.append(folder)
        else:
            assert finished, result.err
            assert "holds a state already" in result.err
    assert len(folders) >= 8
