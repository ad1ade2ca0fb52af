import contextlib
import json
import shutil

import msgspec
import pytest

from oracle.accounting.ledger import ModelRetired
from oracle.receipts.ledgers import read_ledger
from oracle.state.folder import FolderStore
from oracle.state.keys import read_key_file
from tests.faults import Faults, SimulatedCrash
from tests.support.folders import long_plan, make_state, write_config, write_parquet
from tests.support.sharded import make_sharded_state
from tests.support.shards import bodies

_RETIRED = "was retired (20"


@pytest.fixture
def config(served):
    """The configuration of what was served."""
    return served / "c.toml"


def test_keys_and_snapshots_are_erased_and_a_receipt_stays(cli, refused, served, config):
    """The ledger's last event and the signed receipt say so; nothing serves the folder, with the right words."""
    secrets = [(served / "state" / "key").read_bytes(), *map(_bytes, (served / "state").glob("snapshot*"))]
    (served / "state" / f".snapshot-{99:020d}.perp.tmp").write_bytes(b"what a crash has left")
    result = cli("retire", config)
    assert (result.code, result.err) == (0, "")
    assert not set(secrets) & {path.read_bytes() for path in served.rglob("*") if path.is_file()}
    assert {path.name for path in (served / "state").iterdir()} == {
        "lock",
        "plan.json",
        "receipt-key",
        "receipt-key.pub",
        "retired.json",
    }
    *_, last = read_ledger(served / "ledger.jsonl")
    assert isinstance(last, ModelRetired)
    assert last.round > 500
    receipt = served / "state.receipt-retired.json"
    checked = _checked(cli, receipt, "--ledger", served / "ledger.jsonl")
    assert "The model was retired then" in checked
    assert f"{last.round:,} rounds were answered" in checked
    for command in (
        ["serve", config],
        ["audit", "sign", served / "state"],
        ["skip", config, "--position", "9", "--yes"],
    ):
        assert _RETIRED in refused(3, *command)
    verified = ["verify", served / "q.jsonl", "--from", served / "state", "--answers", served / "out.jsonl"]
    assert _RETIRED in refused(3, *verified)
    assert _RETIRED in cli("check", config).out
    status = json.loads(cli("status", served / "state", "--json").out)
    assert status["shards"] == [msgspec.to_builtins(last) | {"kind": "model-retired"}]
    assert "its keys are erased" in cli("status", served / "state").out


def _bytes(path):
    return path.read_bytes()


def _checked(cli, *arguments):
    """Check a receipt and return what it says; of the tests' plan nothing is proved, and nothing else is wrong."""
    said = cli("audit", "receipt", *arguments).out
    (wrong,) = [line for line in said.splitlines() if "NOT HOLD" in line]
    assert wrong.endswith("plan.examples = 3302: must be from 1 to 400, the declared ones")
    return said


def test_a_second_time_changes_nothing(cli, served, config):
    """The same words, the same files; with the folder in place of the configuration too."""
    first = cli("retire", config)
    before = {path: path.read_bytes() for path in served.rglob("*") if path.is_file()}
    assert cli("retire", config) == first
    assert cli("retire", served / "state").code == 0
    assert {path: path.read_bytes() for path in served.rglob("*") if path.is_file()} == before


@pytest.mark.usefixtures("planned_once")
def test_a_new_state_has_a_folder_of_its_own(refused, served, cli, model):
    """`init` overwrites nothing, a retired state neither."""
    assert cli("retire", served / "state").code == 0
    (served / "rows.csv").write_text("a,label\n" + "0.5,1\n0.01,0\n" * 4000)
    said = refused(3, "init", model(), "--data", served / "rows.csv", "--state", served / "state")
    assert "holds a state already" in said


def test_what_is_served_is_not_retired(refused, served):
    """Its lock says so; nothing is changed."""
    before = {path: path.read_bytes() for path in served.rglob("*") if path.is_file()}
    with FolderStore.open(served / "state", read_key_file(served / "state" / "key")):
        assert "another process holds it; stop it first" in refused(3, "retire", served / "state")
    assert {path: path.read_bytes() for path in served.rglob("*") if path.is_file()} == before


def test_a_copy_of_the_state_answers_no_more(cli, refused, served, config):
    """The last commit says so to every copy, though its key and snapshots are whole."""
    shutil.copytree(served / "state", served / "copy")
    assert cli("retire", config).code == 0
    other = write_config(served, name="copy.toml", state={"folder": str(served / "copy")})
    assert "the model was retired here, and no copy of its state answers" in refused(3, "serve", other)
    assert "the model was retired here" in refused(3, "skip", other, "--position", "9", "--yes")
    assert cli("retire", other).code == 0  # and is erased like the first


def test_answers_behind_the_newest_snapshot_are_counted_first(cli, refused, served, config):
    """An end that says less than was answered would be no last word: a clean stop comes before."""
    old = served / "old"
    shutil.copytree(served / "state", old)
    with (served / "q.jsonl").open("ab") as log:
        log.write(b'{"x":[0.5,0.5]}\n' * 9)
    assert cli("serve", config).code == 0
    other = write_config(served, name="old.toml", state={"folder": str(old)})
    assert "was answered behind the newest snapshot" in refused(3, "retire", other)
    assert cli("serve", other).code == 0
    assert cli("retire", other).code == 0


def test_killed_at_any_call_it_is_served_or_retired(cli, tmp_path):
    """And the next call ends what was begun: one event in the ledger, one receipt, no key."""
    seen = set()
    for index in range(200):
        folder = tmp_path / str(index)
        folder.mkdir()
        make_state(folder / "state", long_plan())
        (folder / "q.jsonl").write_bytes(b'{"x":[0.5,0.5]}\n' * 9)
        config = write_config(folder)
        assert cli("serve", config).code == 0
        answered = (folder / "out.jsonl").read_bytes()
        with Faults(crash_at=index) as faults, contextlib.suppress(SimulatedCrash):
            cli("retire", config)
        result = cli("serve", config)
        seen.add(result.code)
        assert result.code == 0 or ("retired" in result.err and result.code == 3), result.err
        assert (folder / "out.jsonl").read_bytes() == answered
        assert cli("retire", config).code == 0
        assert not [*(folder / "state").glob("*snapshot*"), *(folder / "state").glob("key*")]
        events = read_ledger(folder / "ledger.jsonl")
        assert sum(isinstance(event, ModelRetired) for event in events) == 1
        _checked(cli, folder / "state.receipt-retired.json")
        if not faults.reached:
            break
    assert seen == {0, 3}
    assert index > 20


def test_the_key_of_another_state_is_let_be(cli, refused, tmp_path):
    """A key file is erased only where it is the state's own, wherever it is; another that opens nothing is refused."""
    for name in ("a", "b"):
        make_state(tmp_path / name, long_plan())
        (tmp_path / name / "key").rename(tmp_path / f"{name}.key")
    assert "encrypted with another key" in refused(3, "retire", tmp_path / "a", "--key", tmp_path / "b.key")
    assert "No such file" in refused(3, "retire", tmp_path / "a")
    assert cli("retire", tmp_path / "a", "--key", tmp_path / "a.key").code == 0
    assert not (tmp_path / "a.key").exists()
    shutil.copy(tmp_path / "b.key", tmp_path / "a.key")
    assert "now belongs to another state; left untouched" in refused(3, "retire", tmp_path / "a")
    assert (tmp_path / "a.key").exists()
    assert (tmp_path / "b").exists()


def test_no_state_is_none(refused, tmp_path):
    """Nothing is made where there is none."""
    (tmp_path / "empty").mkdir(mode=0o700)
    assert "holds no state" in refused(3, "retire", tmp_path / "empty")
    assert "holds no state" in refused(3, "retire", tmp_path / "none")
    assert not list((tmp_path / "empty").iterdir())


def test_many_shards_go_together(cli, refused, tmp_path):
    """One of them alone is refused; each has a receipt."""
    state = tmp_path / "state"
    make_sharded_state(state, long_plan(), 2)
    assert "is one shard of a state; retire the whole state" in refused(2, "retire", state / "shard-0000")
    assert cli("retire", state).code == 0
    assert not list(state.rglob("*snapshot*"))
    assert "was retired" in refused(3, "audit", "sign", state / "shard-0001", "--key", state / "key")
    for number in range(2):
        _checked(cli, tmp_path / f"{state.name}.receipt-retired-shard-000{number}.json")


@pytest.mark.parametrize("sink", ["parquet", "stdout"])
def test_every_sink_gets_the_last_event(cli, tmp_path, sink):
    """Parts of Parquet files, and lines that have left."""
    make_state(tmp_path / "state", long_plan())
    if sink == "parquet":
        write_parquet(tmp_path / "q.parquet", bodies(20))
        path = {"kind": "parquet", "path": str(tmp_path / "out.parquet")}
        source = {"kind": "parquet", "path": str(tmp_path / "q.parquet")}
    else:
        (tmp_path / "q.jsonl").write_bytes(b"\n".join(bodies(20)) + b"\n")
        path = {"kind": "stdout"}
        source = {"kind": "jsonl", "path": str(tmp_path / "q.jsonl")}
    config = write_config(tmp_path, source=source, sink={"path": None, **path})
    assert cli("serve", config).code == 0
    assert cli("retire", config).code == 0
    *_, last = read_ledger(tmp_path / "ledger.jsonl")
    assert isinstance(last, ModelRetired)
    assert last.round == 20
