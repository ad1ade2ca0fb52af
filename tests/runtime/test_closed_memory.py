"""Keys and private points stay in the process: no core dump, and no reading by another process of the same user."""

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.folders import command, environment, long_plan, make_state, write_config
from tests.support.shards import bodies

_SECONDS = 60.0
_BARE = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
"""Root may read every process's memory: so the daemon and who attacks it run without root's capabilities."""

_ATTACK = """
import ctypes, os, sys
pid, got = int(sys.argv[1]), []
for name in ("environ", "maps", "mem"):
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
            if name != "mem":
                file.read(1)
        got.append(name)
    except OSError:
        pass
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
if libc.ptrace(16, pid, None, None) == 0:  # PTRACE_ATTACH
    os.waitpid(pid, 0)
    libc.ptrace(17, pid, None, None)  # PTRACE_DETACH
    got.append("ptrace")
print(*got)
"""
_SLEEPER = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]


def _attack(pid):
    """Return what another process of the same user gets of this one."""
    line = [*_BARE, sys.executable, "-c", _ATTACK, str(pid)]
    return set(subprocess.run(line, stdout=subprocess.PIPE, check=True, text=True).stdout.split())


def _until(done):
    deadline = time.monotonic() + _SECONDS
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@contextlib.contextmanager
def _started(line, folder):
    """Start a process whose core dumps may have any size and go to a folder."""
    least, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (most, most))
    with (
        (folder / "said").open("wb") as said,
        subprocess.Popen([*_BARE, *line], stdout=said, stderr=said, cwd=folder, env=environment()) as process,
    ):
        resource.setrlimit(resource.RLIMIT_CORE, (least, most))
        try:
            _until(lambda: (folder / "said").stat().st_size)
            yield process
        finally:
            process.kill()


def _cores(folder):
    return [path.name for path in folder.iterdir() if path.name.startswith("core")]


def _ends_with(process, number):
    """Kill, and return the wait status."""
    os.kill(process.pid, number)
    _, status = os.waitpid(process.pid, 0)
    process.returncode = -number  # `Popen` has nobody left to wait for
    return status


@pytest.fixture
def folder(tmp_path):
    """A folder with a model, its state, and a query."""
    folder = tmp_path / "own"
    folder.mkdir()
    make_state(folder / "state", long_plan())
    (folder / "q.jsonl").write_bytes(bodies(1)[0] + b"\n")
    return folder


@contextlib.contextmanager
def _daemon(folder):
    config = write_config(folder, source={"follow": True}, service={"log": "json"})
    with _started(command("serve", config), folder) as process:
        _until(lambda: '"daemon.serving"' in (folder / "said").read_text())
        yield process


def _limits(pid):
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    return next(line.split()[4:6] for line in lines if line.startswith("Max core file size"))


@pytest.mark.parametrize("number", [signal.SIGABRT, signal.SIGSEGV])
def test_a_daemon_that_crashes_leaves_no_core(folder, tmp_path_factory, number):
    """Also where whoever started it allows core dumps of any size."""
    with _daemon(folder) as process:
        assert _limits(process.pid) == ["0", "0"]
        assert not os.WCOREDUMP(_ends_with(process, number))
    assert _cores(folder) == []
    other = tmp_path_factory.mktemp("other")
    with _started(_SLEEPER, other) as process:  # the check can fail: an open process leaves one, where the machine does
        dumped = os.WCOREDUMP(_ends_with(process, number))
    assert dumped or not _cores(other)


def test_another_process_of_the_user_reads_nothing_of_the_daemon(folder, tmp_path_factory):
    """Of an open process it reads a lot."""
    with _started(_SLEEPER, tmp_path_factory.mktemp("other")) as process:
        assert {"environ", "maps"} <= _attack(process.pid)
    with _daemon(folder) as process:
        assert _attack(process.pid) == set()


@pytest.mark.parametrize("name", ["init", "verify", "check", "status", "hypothesis", "topics", "plan"])
def test_every_command_closes_its_memory_before_it_looks_at_anything(tmp_path, name):
    """A command that waits for its first file, a pipe that nobody writes to, is closed already."""
    pipe = tmp_path / "c.toml"
    os.mkfifo(pipe)
    more = {"init": ["--data", "rows.csv", "--state", "state"], "verify": ["--from", "state"]}
    line = command(name, pipe, *more.get(name, []))
    with subprocess.Popen([*_BARE, *line], env=environment(), cwd=tmp_path, stderr=subprocess.PIPE) as process:
        try:
            _until(lambda: _limits(process.pid) == ["0", "0"] or process.poll() is not None)
            assert process.poll() is None
        finally:
            process.kill()


def test_a_closed_process_answers_as_any_other(folder):
    """Standard input and output work in a process whose /proc is root's."""
    config = write_config(folder, source={"kind": "stdin", "path": None}, sink={"kind": "stdout", "path": None})
    done = subprocess.run(
        [*_BARE, *command("serve", config)],
        input=bodies(1)[0] + b"\n",
        stdout=subprocess.PIPE,
        check=True,
        env=environment(),
        cwd=folder,
    )
    assert json.loads(done.stdout)["round"] == 0


def test_setpriv_is_there():
    """Else the tests above would say nothing where root runs them."""
    assert not _BARE or shutil.which(_BARE[0])
