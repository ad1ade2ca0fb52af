import fcntl
import os
import stat
from functools import partial

import pytest

from oracle.accounting.ledger import ReplayForked, encode
from oracle.errors import StateError, StorageError
from oracle.state.forks import forks_path, read_forks, record_fork
from tests.faults import Faults, SimulatedCrash


def _event(salt, number):
    return ReplayForked(round=7, phase=2, fork=salt, number=number, epsilon=4.0, delta=1e-6, delta_sum=1e-3)


@pytest.fixture
def origin(tmp_path):
    """Return a state folder, with nothing in it."""
    (tmp_path / "state").mkdir()
    return tmp_path / "state"


def test_forks_come_back_in_order(origin):
    """Each is numbered, and the file beside the origin is its owner's only."""
    events = [record_fork(origin, partial(_event, salt)) for salt in ("aa", "bb", "cc")]
    assert [(event.fork, event.number) for event in events] == [("aa", 1), ("bb", 2), ("cc", 3)]
    assert read_forks(origin) == events
    path = origin.with_name("state.forks.jsonl")
    assert path.read_bytes() == b"".join(encode(event) + b"\n" for event in events)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(origin.iterdir()) == []


def test_links_lead_to_one_record(origin, monkeypatch):
    """However the origin is named, its forks are counted in one place."""
    record_fork(origin, partial(_event, "aa"))
    origin.with_name("link").symlink_to(origin)
    assert [fork.fork for fork in read_forks(origin.with_name("link"))] == ["aa"]
    monkeypatch.chdir(origin)
    assert record_fork(origin / ".." / "state" / ".", partial(_event, "bb")).number == 2
    assert len(read_forks(type(origin)())) == 2


def test_forks_at_once_wait_for_each_other(origin):
    """While one is numbered and written, the file is held, so the next one counts it."""

    def make(number):
        with forks_path(origin).open("rb") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return _event("aa", number)

    record_fork(origin, make)
    assert record_fork(origin, partial(_event, "bb")).number == 2


def _calls(origin):
    with Faults() as faults:
        record_fork(origin, partial(_event, "cc"))
    forks_path(origin).unlink()
    return faults.calls


@pytest.mark.parametrize("before", [0, 1])
def test_failure_at_any_call_records_nothing(origin, before):
    """The error says so; what was recorded before stands, and the next fork is recorded."""
    calls = _calls(origin)
    assert calls == ["open", "fsync", "fsync", "write", "fsync"]
    for index in range(len(calls)):
        forks_path(origin).unlink(missing_ok=True)
        for _ in range(before):
            record_fork(origin, partial(_event, "aa"))
        with Faults(fail_at=index) as faults, pytest.raises(StorageError, match="so nothing was answered"):
            record_fork(origin, partial(_event, "bb"))
        assert faults.reached
        assert [fork.fork for fork in read_forks(origin)] == ["aa"] * before
        assert record_fork(origin, partial(_event, "cc")).number == before + 1


def test_crash_at_any_call_leaves_a_record_that_can_be_read(origin):
    """It holds the fork or not; the next one is recorded behind it, on a line of its own."""
    torn = 0
    for index in range(len(_calls(origin))):
        forks_path(origin).unlink(missing_ok=True)
        record_fork(origin, partial(_event, "aa"))
        with Faults(crash_at=index), pytest.raises(SimulatedCrash):
            record_fork(origin, partial(_event, "bb"))
        torn += not forks_path(origin).read_bytes().endswith(b"\n")
        left = [fork.fork for fork in read_forks(origin)]
        assert left in (["aa"], ["aa", "bb"])
        assert record_fork(origin, partial(_event, "cc")).number == len(left) + 1
        assert [fork.fork for fork in read_forks(origin)] == [*left, "cc"]
    assert torn


@pytest.mark.parametrize("line", [b"?", b'{"kind":"plan-ended","round":1}', b'{"kind":"later"}', b"\xff"])
def test_foreign_lines_are_refused(origin, line):
    """What cannot be understood cannot be counted, so nothing is added to it."""
    record_fork(origin, partial(_event, "aa"))
    path = forks_path(origin)
    path.write_bytes(path.read_bytes() + line + b"\n")
    before = path.read_bytes()
    for work in (read_forks, lambda folder: record_fork(folder, partial(_event, "bb"))):
        with pytest.raises(StateError, match="line 2"):
            work(origin)
    assert path.read_bytes() == before


def test_folder_that_cannot_be_written_is_named(origin, monkeypatch):
    """An origin kept where nothing can be written must be copied first."""

    def denied(*_arguments: object) -> int:
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(StorageError, match=r"state\.forks\.jsonl: cannot be written, so nothing was answered: Perm"):
        record_fork(origin, partial(_event, "aa"))
