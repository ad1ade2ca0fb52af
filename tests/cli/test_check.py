"""`perpetua check`: each thing that is wrong is the one finding."""

import errno
import os
import shutil
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet
import pytest

from oracle.planning.kinds import decode_plan
from oracle.state.folder import FolderStore
from oracle.state.keys import create_key_file
from tests.support.checked import ALL, problem_of, tree
from tests.support.folders import write_config


def test_good(cli, ready):
    """Everything is fine, and nothing has changed."""
    before = tree(ready)
    result = cli("check", ready / "c.toml")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines() == [f"ok     {what}" for what in ALL]
    found = msgspec.json.decode(cli("check", ready / "c.toml", "--json").out)
    assert found == [{"what": what, "problem": None} for what in ALL]
    assert tree(ready) == before


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


def test_wrong_configuration(cli, ready):
    """It is the only finding, for nothing else can be looked at."""
    write_config(ready, service={"log": "xml"})
    assert "service.log = 'xml'" in problem_of(cli, ready, "configuration")


def test_missing_state(cli, ready):
    """The message says what makes one."""
    key = ready / "key"
    (ready / "state" / "key").rename(key)
    shutil.rmtree(ready / "state")
    write_config(ready, state={"key_file": str(key)})
    assert "perpetua init" in problem_of(cli, ready, "state folder exists and is private")


def test_missing_snapshot(cli, ready):
    """A plan without a snapshot is no state."""
    for path in (ready / "state").glob("*.perp"):
        path.unlink()
    assert "perpetua init" in problem_of(cli, ready, "snapshot decrypts with this key and plan")


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
    assert "WRONG  plan verified by the accountant" in result.out


def test_plan_of_another_snapshot(cli, ready):
    """A plan that is not the snapshot's is found."""
    path = ready / "state" / "plan.json"
    path.write_bytes(path.read_bytes().replace(b'"interval"', b'"interbal"'))
    assert "not the plan of the snapshot" in problem_of(cli, ready, "plan verified by the accountant")


def test_missing_key(cli, ready):
    """Its path is named; the snapshot cannot be opened then."""
    (ready / "state" / "key").unlink()
    problem = problem_of(cli, ready, "key file")
    assert str(ready / "state" / "key") in problem


def test_key_that_others_can_read(cli, ready):
    """The message is the command that mends it."""
    (ready / "state" / "key").chmod(0o644)
    assert "chmod 600" in problem_of(cli, ready, "key file")


def test_wrong_key(cli, ready):
    """A key file of another state."""
    (ready / "state" / "key").unlink()
    create_key_file(ready / "state" / "key")
    assert problem_of(cli, ready, ALL[6]).endswith(f"encrypted with another key, {ready / 'state' / 'key'}")


def test_damaged_snapshot(cli, ready):
    """One changed bit of the encrypted part is found."""
    (path,) = (ready / "state").glob("*.perp")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert "the encrypted part is damaged" in problem_of(cli, ready, ALL[6])


@pytest.mark.parametrize("setting", ["path", "ledger", "dead_letter"])
@pytest.mark.parametrize("kind", ["missing", "file"])
def test_folder_that_cannot_be_written(cli, ready, setting, kind):
    """Any of the sink's files: the folder is named, and what to do."""
    target = (ready / "none" if kind == "missing" else ready / "q.jsonl") / "out.jsonl"
    write_config(ready, sink={setting: str(target)})
    problem = problem_of(cli, ready, "sink's folder is writable")
    assert str(target.parent) in problem
    assert "make the folder, or let this user write to it" in problem


def test_folder_of_a_ledger_beside_standard_output(cli, ready):
    """It is looked at there, too."""
    write_config(
        ready,
        source={"kind": "stdin", "path": None},
        sink={"kind": "stdout", "path": None, "ledger": str(ready / "none" / "ledger.jsonl")},
    )
    assert str(ready / "none") in problem_of(cli, ready, "sink's folder is writable")


def test_sink_files_must_differ(cli, ready):
    """Ledger and answers in one file are refused."""
    write_config(ready, sink={"ledger": str(ready / "out.jsonl")})
    assert "a path of its own" in problem_of(cli, ready, "sink's folder is writable")


@pytest.mark.parametrize("kind", ["missing", "folder"])
def test_bad_source(cli, ready, kind):
    """A log that is not there, or is no file."""
    (ready / "q.jsonl").unlink()
    if kind == "folder":
        (ready / "q.jsonl").mkdir()
    assert "q.jsonl" in problem_of(cli, ready, ALL[-1])


def test_folder_open_to_others(cli, ready):
    """The command that closes it is named."""
    (ready / "state").chmod(0o755)
    assert "chmod 700" in problem_of(cli, ready, "state folder exists and is private")


def test_sink_that_was_taken_away_or_log_that_was_cut(cli, ready):
    """What the daemon would refuse after a run is found before it is started again."""
    assert cli("serve", ready / "c.toml").code == 0
    log = (ready / "q.jsonl").read_bytes()
    (ready / "q.jsonl").write_bytes(log[:-200])
    assert "shorter (" in problem_of(cli, ready, ALL[-1])
    (ready / "q.jsonl").write_bytes(log)
    for path in ready.glob("out.jsonl*"):
        path.unlink()
    assert "it has no commit" in problem_of(cli, ready, "sink matches the state")


def test_parquet_without_a_feature(cli, ready):
    """The column that is missing is named, by `check` and by `serve`."""
    pyarrow.parquet.write_table(pa.table({"c": [0.5]}), ready / "q.parquet")
    write_config(
        ready,
        source={"kind": "parquet", "path": str(ready / "q.parquet")},
        sink={"kind": "parquet", "path": str(ready / "out.parquet")},
    )
    assert "a: must be one column of numbers" in problem_of(cli, ready, ALL[-1])
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
    assert "cannot be read as a .parquet file" in problem_of(cli, ready, ALL[-1])


def test_what_check_passes_serve_runs(cli, ready):
    """The same configuration is served, and checked again afterwards."""
    assert cli("serve", ready / "c.toml").code == 0
    assert cli("check", ready / "c.toml").code == 0
    assert len((ready / "out.jsonl").read_bytes().splitlines()) == 20


def test_lock_that_another_user_left(cli, ready, monkeypatch):
    """As after one `serve` by root: the file is named, and whose it must be."""
    lock = ready / "state" / "lock"
    real = os.open

    def refused(path, flags, *mode):
        if Path(path) == lock and flags & os.O_RDWR:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, flags, *mode)

    monkeypatch.setattr(os, "open", refused)
    problem = problem_of(cli, ready, "state folder has room for the next snapshot")
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
    assert result.out.startswith("ok     configuration\nWRONG  state folder exists and is private: ")
    found = msgspec.json.decode(cli("check", ready / "c.toml", "--json").out)
    assert found[1]["problem"].endswith("Permission denied")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('folder = "', 'folder = "\\u0000', "state.folder: must not hold a zero byte"),
        ("[state]", '[web]\nhost = "a\\u0000b"\n[state]', "web.host: must not hold a zero byte"),
    ],
)
def test_zero_bytes(cli, ready, old, new, said):
    """No file and no host has one in its name; the setting is named."""
    path = ready / "c.toml"
    path.write_text(path.read_text().replace(old, new, 1))
    assert problem_of(cli, ready, "configuration") == said


def test_host_that_is_no_name(cli, ready):
    """Names that cannot be encoded are refused like those that there are none of."""
    (ready / "token").write_text("0123456789abcdef\n")
    (ready / "token").chmod(0o600)
    with (ready / "c.toml").open("a") as file:
        file.write(f'[web]\nhost = "a..b"\ntoken_file = "{ready / "token"}"\n')
    assert "must be an address or name of this machine" in problem_of(cli, ready, "web: address is free")


@pytest.mark.parametrize(
    ("variable", "near"),
    [("PERPETUA_WBE__PORT", "PERPETUA_WEB__PORT"), ("PERPETUA_SERVCE__LOG", "PERPETUA_SERVICE__LOG")],
)
def test_misspelt_variable(cli, ready, monkeypatch, variable, near):
    """A setting in the environment that is none is told, with the nearest one."""
    monkeypatch.setenv(variable, "1")
    said = f"{variable}: in the environment: unknown setting; did you mean {near}?"
    assert problem_of(cli, ready, "configuration") == said
