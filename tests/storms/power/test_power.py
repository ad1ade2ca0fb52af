"""After a loss of power at any moment what was told to be durable is there, and nothing half-written is served."""

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from tests.faults import SimulatedCrash
from tests.storms.power.disk import Call, Crash, Recorder, crashes
from tests.storms.power.workloads import WORKLOADS

_NOT_NEEDED: Final = {
    # Zeros under the old name are erased again at the next start.
    "durable.sync_folder < durable.remove < durable.erase < folder._erase",
    # Beside a state that is made, the use of an unfinished one is never taken up.
    "durable.sync_folder < durable.remove < data_ledger.made",
    # The commit record beside the folder is named and synced before anything is in it.
    "durable.sync_folder < durable.make_folder < parquet_sink._make_folder",
}
"""Syncs without which nothing is lost, because of another one behind them."""

_MEMORY: Final = Path("/dev/shm") if Path("/dev/shm").is_dir() else None  # noqa: S108 -- folders of mode 0700 in it


@cache
def _recorded(name: str, killed_at: int | None = None) -> tuple[Recorder, int]:
    """Return what a run asked of the system; where it was killed, what the next one did too, and from which call on."""
    workload = WORKLOADS[name]
    with TemporaryDirectory(dir=_MEMORY) as folder:
        root = Path(folder) / "root"
        root.mkdir(mode=0o700)
        for inner in workload.folders:
            (root / inner).mkdir(mode=0o700)
        recorder = Recorder(root, killed_at)
        start = 0
        if killed_at is not None:
            with recorder, suppress(SimulatedCrash):
                workload.run(root, recorder.said)
            start = len(recorder.calls)
        with recorder:
            workload.run(root, recorder.said)
        return recorder, start


def _problems(name: str, states: Iterator[Crash]) -> Iterator[tuple[Crash, BaseException]]:
    """Start again on each of them, and yield those that something is wrong with."""
    with TemporaryDirectory(dir=_MEMORY) as folder:
        for number, crash in enumerate(states):
            outer = Path(folder) / str(number)
            outer.mkdir()
            crash.make(outer / "root")
            try:
                WORKLOADS[name].check(outer / "root", crash)
            except Exception as exc:  # noqa: BLE001 -- whatever is wrong
                yield crash, exc


def _told(name: str, found: tuple[Crash, BaseException]) -> str:
    crash, problem = found
    lost, kept = ("\n".join(f"    {call}" for call in calls) or "    nothing" for calls in (crash.lost, crash.kept))
    return f"{name}: {problem!r}\n  lost:\n{lost}\n  unsynced, and there:\n{kept}\n  told: {str(crash.said)[:300]}"


@pytest.mark.parametrize("name", WORKLOADS)
def test_power_is_lost(name):
    """After any call; of what was not synced, anything may be there."""
    recorder, _ = _recorded(name)
    assert any(call.kind == "said" for call in recorder.calls)
    for found in _problems(name, crashes(recorder, recorder.calls)):
        pytest.fail(_told(name, found))


@pytest.mark.parametrize("name", WORKLOADS)
def test_process_dies_and_then_power_is_lost(name):
    """What a dead process had not synced is relied on by the next one only once it is."""
    seen: set[object] = set()
    for killed_at in range(1, len(_recorded(name)[0].calls), WORKLOADS[name].stride):
        recorder, start = _recorded(name, killed_at)
        for found in _problems(name, crashes(recorder, recorder.calls, start, seen)):
            pytest.fail(f"killed at call {killed_at}: {_told(name, found)}")


def _noticed(calls: list[Call], site: Call, name: str, killed_at: int | None) -> bool:
    """Return whether something is lost where nothing is synced from one place."""
    recorder, start = _recorded(name, killed_at)
    left = [call for call in calls if (call.kind, call.site, call.lines) != ("fsync", site.site, site.lines)]
    start = max(start - (len(calls) - len(left)), 0)
    return next(_problems(name, crashes(recorder, left, start)), None) is not None


def _runs(site: Call) -> Iterator[tuple[str, int | None]]:
    """Yield runs in which something is synced from there, whole ones first."""
    names = [name for name in WORKLOADS if any(call.lines == site.lines for call in _recorded(name)[0].calls)]
    yield from ((name, None) for name in names)
    for name in names:
        yield from ((name, at) for at in range(1, len(_recorded(name)[0].calls), WORKLOADS[name].stride))


def test_each_sync_is_missed():
    """Were any one of them left out, something would be lost: so this test sees it, and none is there for nothing."""
    calls = [call for name in WORKLOADS for call in _recorded(name)[0].calls if call.kind == "fsync"]
    sites = {(call.site, call.lines): call for call in calls if " < ".join(call.site) not in _NOT_NEEDED}
    assert len(sites) > len(_NOT_NEEDED)
    for site in sites.values():
        if not any(_noticed(_recorded(*run)[0].calls, site, *run) for run in _runs(site)):
            pytest.fail(f"nothing is lost without: {site}")
