import shutil

import msgspec
import pyarrow as pa
import pyarrow.parquet
import pytest

from oracle.planning.plan import Plan
from oracle.state.folder import FolderStore
from oracle.state.keys import create_key_file
from tests.predictors.plans import planned
from tests.support.folders import write_config, write_log
from tests.support.shards import first_snapshot

_ALL = [
    "configuration",
    "state folder is there and private",
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
    write_log(tmp_path, 20)
    write_config(tmp_path)
    return tmp_path


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
    plan = Plan.decode(path.read_bytes())
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
    assert "another key" in _problem(cli, ready, _ALL[5])


def test_damaged_snapshot(cli, ready):
    """One changed bit of the encrypted part is found."""
    (path,) = (ready / "state").glob("*.perp")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert "not the one that was written" in _problem(cli, ready, _ALL[5])


@pytest.mark.parametrize("setting", ["path", "ledger", "dead_letter"])
@pytest.mark.parametrize("kind", ["missing", "file"])
def test_folder_that_cannot_be_written(cli, ready, setting, kind):
    """Any of the sink's files: the folder is named, and what to do."""
    target = (ready / "none" if kind == "missing" else ready / "q.jsonl") / "out.jsonl"
    write_config(ready, sink={setting: str(target)})
    problem = _problem(cli, ready, "sink's folder can be written")
    assert str(target.parent) in problem
    assert "make the folder, or let this user write to it" in problem


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
    assert "must have one column a" in _problem(cli, ready, _ALL[-1])
    served = cli("serve", ready / "c.toml")
    assert served.code == 2
    assert "must have one column a" in served.err


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
