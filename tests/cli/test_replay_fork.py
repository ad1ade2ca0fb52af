import asyncio
import hashlib
import itertools
import stat
from types import SimpleNamespace

import msgspec
import pyarrow as pa
import pyarrow.parquet
import pytest

from connectors.local.jsonl import JsonlSource
from oracle.accounting.ledger import PhaseStarted, ReplayForked, SideRearmed, decode, encode
from oracle.cli.replay import fork as replay_fork
from oracle.cli.replay.fork import Outputs, check_outputs, publish
from oracle.errors import StorageError
from oracle.mechanisms.keys import FORK_BYTES
from oracle.runtime.fork import fork_cost
from oracle.state.folder import FolderStore
from oracle.state.forks import forks_path, read_forks
from oracle.state.format import decode as decode_snapshot
from oracle.state.genesis import read_genesis
from oracle.state.keys import read_key_file
from tests.faults import Faults, SimulatedCrash
from tests.support.folders import long_plan, make_state, write_config, write_parquet
from tests.support.shards import bodies, first_snapshot, small_plan


def _replay(folder, *more, log="other.jsonl", origin="state", out="new.jsonl"):
    return ("fork", folder / log, "--from", folder / origin, "--out", folder / out, *more)


def _write(path, contents):
    path.write_bytes(b"".join(line + b"\n" for line in contents))


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a new state, its genesis file, and a log that nobody answered."""
    make_state(tmp_path / "state", small_plan())
    _write(tmp_path / "other.jsonl", bodies(300, seed=5))
    return tmp_path


@pytest.fixture
def seeded(monkeypatch):
    """Let forks have salts 1, 2, ... instead of random ones."""
    salts = (number.to_bytes(FORK_BYTES, "big") for number in itertools.count(1))
    monkeypatch.setattr(replay_fork, "secrets", SimpleNamespace(token_bytes=lambda _length: next(salts)))


def _fingerprint(*paths):
    files = [file for path in paths for file in (sorted(path.iterdir()) if path.is_dir() else [path])]
    return {
        str(file): (hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_mtime_ns, file.stat().st_mode)
        for file in files
    }


def _names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_refused_without_accepting_the_cost(refused, folder):
    """The refusal states the cost in numbers and says what to do; no file is left, not even a record."""
    before = _names(folder)
    line = refused(2, *_replay(folder))
    cost = fork_cost(small_plan(), first_snapshot())
    assert line == (
        "--accept-cost is not set: every record that the snapshot of round 0 (phase 1) holds pays another "
        f"epsilon = {cost.epsilon:g} and delta = {cost.delta:.3g} for this run, after the first one's and those of "
        f"0 forks recorded in state.forks.jsonl: epsilon = {2 * cost.epsilon:g} by these "
        "(forks of a genesis file, of its state folder and of copies add up, each recorded beside its own origin); "
        f"the sum of delta rises by up to {cost.delta_sum:.3g} for "
        "these records; the log's queries pay as the plan says. Add --accept-cost to spend it"
    )
    assert _names(folder) == before


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("origin", ["state", "state.genesis"])
def test_origin_is_untouched_and_the_fork_recorded(cli, served, origin):
    """State, genesis file and the first run's output stay bit for bit; what was spent is recorded beside the origin."""
    _write(served / "other.jsonl", bodies(500, seed=5))
    kept = (served / "state", served / "state.genesis", served / "out.jsonl", served / "ledger.jsonl")
    before, names = _fingerprint(*kept), set(_names(served))
    result = cli(*_replay(served, "--accept-cost", "--json", "--ledger", served / "new-ledger.jsonl", origin=origin))
    assert (result.code, result.err) == (0, "")
    assert _fingerprint(*kept) == before
    record = f"{origin}.forks.jsonl"
    made = {"new.jsonl", "new.jsonl.commit", "new.jsonl.commit.lock", "new-ledger.jsonl", record}
    assert set(_names(served)) - names == made
    assert all(stat.S_IMODE((served / name).stat().st_mode) == 0o600 for name in made)
    (fork,) = read_forks(served / origin)
    first = msgspec.json.decode(cli("status", served / "state", "--json").out)["round"] if origin == "state" else 0
    plan = long_plan()
    assert msgspec.json.decode(result.out) == {
        "messages": 500,
        "rounds": 500,
        "rejected": 0,
        "first_round": first,
        "complete": True,
        "fork": fork.fork,
        "number": 1,
        "extra_epsilon": plan.epsilon,
        "extra_delta": plan.phases[0].delta,
    }
    events = [decode(line) for line in (served / "new-ledger.jsonl").read_bytes().splitlines()]
    assert events[0] == fork
    assert any(isinstance(event, SideRearmed) for event in events)
    assert any(isinstance(event, PhaseStarted) and event.phase > fork.phase for event in events)
    answers = [msgspec.json.decode(line) for line in (served / "new.jsonl").read_bytes().splitlines()]
    assert [answer["id"] for answer in answers] == [f"q{number}" for number in range(500)]
    assert [answer["round"] for answer in answers] == list(range(first, first + 500))


@pytest.mark.usefixtures("seeded")
def test_noise_is_fresh_for_the_same_log_too(cli, folder):
    """The recorded log is another run when it is not verified: the first answers stand, each fork gives others."""
    (folder / "other.jsonl").rename(folder / "q.jsonl")
    assert cli("serve", write_config(folder)).code == 0
    for name in ("first.jsonl", "second.jsonl"):
        result = cli(*_replay(folder, "--accept-cost", log="q.jsonl", origin="state.genesis", out=name))
        assert result.code == 0
        assert f"{name}: 300 messages (0 rejected), 300 rounds from round 0; extra epsilon: 8, " in result.out
    outputs = [(folder / name).read_bytes() for name in ("out.jsonl", "first.jsonl", "second.jsonl")]
    assert len(set(outputs)) == 3
    assert {len(output.splitlines()) for output in outputs} == {300}
    arguments = ("--from", folder / "state.genesis", "--answers", folder / "out.jsonl")
    assert cli("verify", folder / "q.jsonl", *arguments).code == 0


def test_forks_add_up(cli, refused, folder):
    """Each is numbered and has a salt of its own; the next refusal, and `status`, count all of them."""
    for number in (1, 2):
        result = cli(*_replay(folder, "--accept-cost", out=f"{number}.jsonl"))
        assert f"(fork number {number} of it)" in result.out
    assert len({fork.fork for fork in read_forks(folder / "state")} | {"00" * FORK_BYTES}) == 3
    plan = small_plan()
    assert f"those of 2 forks recorded in state.forks.jsonl: epsilon = {4 * plan.epsilon:g} by these" in refused(
        2, *_replay(folder)
    )
    status = msgspec.json.decode(cli("status", folder / "state", "--json").out)
    assert (status["forks"], status["epsilon"], status["epsilon_with_forks"]) == (2, plan.epsilon, 3 * plan.epsilon)
    assert status["delta_of_forks"] == pytest.approx(2 * plan.declared * plan.phases[0].delta)


@pytest.mark.parametrize(("kind", "rows"), [("parquet", 100), ("arrow", 300)])
def test_parquet_and_arrow(cli, folder, kind, rows):
    """A log of rows is answered as a sink of that kind writes it."""
    write_parquet(folder / "other.parquet", bodies(300, seed=5))
    arguments = _replay(folder, "--rows-per-message", str(rows), log="other.parquet", out=f"new.{kind}")
    assert cli(*arguments, "--accept-cost").code == 0
    if kind == "parquet":
        table = pa.parquet.read_table(folder / "new.parquet")
    else:
        with pa.ipc.open_stream((folder / "new.arrow").read_bytes()) as reader:
            table = reader.read_all()
    assert table["id"].to_pylist() == [f"q{number}" for number in range(300)]
    assert table["round"].to_pylist() == list(range(300))
    assert set(table["label"].to_pylist()) <= {0, 1}
    assert stat.S_IMODE((folder / f"new.{kind}").stat().st_mode) & 0o77 == 0


def test_plan_that_ends_before_the_log(cli, folder):
    """What it still had rounds for stands; the message and the exit code say that it is not all."""
    rounds = small_plan().rounds
    _write(folder / "other.jsonl", [*bodies(rounds), b"?", *bodies(5)])
    result = cli(*_replay(folder, "--accept-cost", "--json"))
    assert (result.code, result.err) == (
        3,
        f"perpetua: round {rounds}: the plan's last phase has ended before the log did\n",
    )
    done = msgspec.json.decode(result.out)
    assert (done["messages"], done["rounds"], done["rejected"], done["complete"]) == (rounds + 1, rounds, 1, False)
    assert len((folder / "new.jsonl").read_bytes().splitlines()) == rounds + 1


@pytest.mark.parametrize(
    ("changes", "more", "code", "message"),
    [
        ({"out": "other.jsonl"}, (), 2, "--out = "),
        ({"out": "there.jsonl"}, (), 2, "exists already, and nothing is ever overwritten"),
        ({"out": "left.jsonl"}, (), 2, "left.jsonl.commit': exists already"),
        ({"out": "new.parquet"}, (), 2, "must end in .jsonl for a log like this"),
        ({"out": "new"}, (), 2, "must end in .jsonl for a log like this"),
        ({"out": "state/new.jsonl"}, (), 2, "lies in a state folder, which stays as it is"),
        ({"out": "state.forks.jsonl"}, (), 2, "each file must have a path of its own"),
        ({"out": "none/new.jsonl"}, (), 4, "its folder is missing or cannot be written"),
        ({}, ("--ledger", "new.jsonl"), 2, "each file must have a path of its own"),
        ({}, ("--ledger", "there.jsonl"), 2, "--ledger = "),
        ({}, ("--ledger", "state/l.jsonl"), 2, "lies in a state folder"),
        ({"log": "empty.jsonl"}, (), 2, "the log holds no message"),
        ({"log": "none.jsonl"}, (), 4, "cannot be opened"),
        ({"log": "rows.parquet", "out": "new.jsonl"}, (), 2, "must end in .parquet or .arrow for a log like this"),
        ({"log": "rows.parquet", "out": "new.arrow"}, (), 2, "a: must be one column of numbers"),
        ({"log": "rows.parquet", "out": "new.arrow"}, ("--rows-per-message", "9999999"), 2, "the plan's limit"),
        ({"origin": "none"}, (), 3, "genesis file"),
    ],
)
def test_refused_before_anything_is_paid(  # noqa: PLR0913, PLR0917 -- what is varied, and the fixtures
    refused, folder, monkeypatch, changes, more, code, message
):
    """A wrong path, log or option ends with one line, and no fork is recorded, and nothing written."""
    (folder / "there.jsonl").touch()
    (folder / "left.jsonl.commit").touch()
    (folder / "empty.jsonl").touch()
    pa.parquet.write_table(pa.table({"b": [1.0]}), folder / "rows.parquet")
    monkeypatch.chdir(folder)
    before = _fingerprint(folder / "state"), _names(folder)
    assert message in refused(code, *_replay(folder, "--accept-cost", *more, **changes))
    assert (_fingerprint(folder / "state"), _names(folder)) == before


def test_out_must_be_named(refused, folder):
    """Accepting the cost is not enough."""
    arguments = [
        argument for argument in _replay(folder, "--accept-cost") if argument not in {"--out", folder / "new.jsonl"}
    ]
    assert refused(2, *arguments) == "--out is not set: must name the file that the answers go to"
    assert read_forks(folder / "state") == []


def test_plan_without_a_round_left(refused, cli, folder):
    """A state at its plan's end cannot be forked, and pays nothing for the try."""
    plan = small_plan()
    _write(folder / "q.jsonl", bodies(plan.rounds))
    assert cli("serve", write_config(folder)).code == 0
    assert "the plan's last phase has ended" in refused(3, *_replay(folder, "--accept-cost"))
    assert read_forks(folder / "state") == []


@pytest.mark.parametrize("more", [(), ("--accept-cost",)])
def test_nominal_epsilon(refused, tmp_path, more):
    """Where a plan proves nothing, no cost can be stated, so none can be accepted."""
    make_state(tmp_path / "state", msgspec.structs.replace(small_plan(), profile="paper"))
    _write(tmp_path / "other.jsonl", bodies(3))
    before = _names(tmp_path)
    assert "its epsilon is nominal" in refused(2, *_replay(tmp_path, *more))
    assert _names(tmp_path) == before


def test_damaged_record_of_forks(refused, folder):
    """Where nobody knows what was spent already, nothing more is."""
    forks_path(folder / "state").write_bytes(b"?\n")
    for more in ((), ("--accept-cost",)):
        assert "state.forks.jsonl: line 1: not a ledger event" in refused(3, *_replay(folder, *more))
    assert "state.forks.jsonl: line 1" in refused(3, "status", folder / "state")
    assert not (folder / "new.jsonl").exists()


def _publish(folder, name):
    genesis = read_genesis(folder / "state.genesis")
    plan = small_plan()
    outputs = Outputs(folder / "state", folder / name, folder / f"{name}.ledger")
    check_outputs(outputs, folder / "other.jsonl")
    source = JsonlSource(folder / "other.jsonl")
    snapshot = decode_snapshot(genesis.snapshot, genesis.master_key, plan.digest)
    return asyncio.run(publish(plan, snapshot, source, outputs, None))


def _recorded(folder):
    return {fork.fork: fork for fork in read_forks(folder / "state")}


@pytest.mark.parametrize("fault", ["crash_at", "fail_at"])
def test_fork_is_recorded_before_anything_is_shown(folder, fault):
    """Crashed or failed at any call that changes a file: answers and ledger speak of recorded forks only."""
    _write(folder / "other.jsonl", bodies(20, seed=5))
    with Faults() as faults:
        _publish(folder, "whole.jsonl")
    assert faults.calls[:5] == ["open", "fsync", "fsync", "write", "fsync"]
    shown = 0
    for index in range(len(faults.calls)):
        before = _recorded(folder)
        name = f"{index}.jsonl"
        with Faults(**{fault: index}) as broken, pytest.raises(SimulatedCrash if fault == "crash_at" else StorageError):
            _publish(folder, name)
        assert broken.reached
        new = [fork for salt, fork in _recorded(folder).items() if salt not in before]
        answers, ledger = folder / name, folder / f"{name}.ledger"
        if answers.exists() and answers.stat().st_size:
            shown += 1
            assert len(new) == 1
        if ledger.exists() and ledger.stat().st_size:
            line = encode(new[0]) + b"\n"
            assert line.startswith(ledger.read_bytes()[: len(line)])  # torn where it crashed
        if index > 5 or (fault == "crash_at" and index > 4):
            assert len(new) == 1
    assert shown
    assert [fork.number for fork in read_forks(folder / "state")] == list(range(1, len(_recorded(folder)) + 1))


def test_second_replay_to_the_same_place(cli, refused, folder):
    """Even of the same log: its answers would be other ones."""
    assert cli(*_replay(folder, "--accept-cost")).code == 0
    answers = (folder / "new.jsonl").read_bytes()
    assert "new.jsonl': exists already" in refused(2, *_replay(folder, "--accept-cost"))
    assert (folder / "new.jsonl").read_bytes() == answers
    (fork,) = read_forks(folder / "state")
    assert isinstance(fork, ReplayForked)


def test_state_that_a_daemon_holds(cli, folder):
    """Its newest snapshot is read; the daemon is not disturbed, and does not disturb."""
    with FolderStore.open(folder / "state", read_key_file(folder / "state" / "key")):
        assert cli(*_replay(folder, "--accept-cost")).code == 0
