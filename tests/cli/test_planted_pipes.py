"""Pipes and devices where a state's files should be: each command ends, names the file, and waits for nobody.

The names are not guessed: each file that a first run leaves is exchanged in turn.
"""

import os
import shutil
import subprocess

import pytest

from tests.support.folders import command, environment, long_plan, make_state, perpetua, write_config, write_log
from tests.support.shards import SECRET
from tests.support.waiting import TIMEOUT

_UNREAD = {".": {"c.toml", "state.genesis"}, "serve": {"state.forks.jsonl"}, "status": {"key", "lock"}}
"""What the user names, and what a command has no use for."""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Return a folder with a state that has answered."""
    folder = tmp_path_factory.mktemp("served") / "own"
    folder.mkdir()
    make_state(folder / "state", long_plan(), SECRET)
    write_log(folder, 50)
    assert perpetua("serve", _config(folder)).returncode == 0
    (folder / "state.forks.jsonl").touch()
    return folder


def _config(folder):
    return write_config(folder, sink={"dead_letter": str(folder / "dead.jsonl")})


def _plant(path, kind):
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path, 0o600)
    else:
        path.symlink_to("/dev/zero")  # it never ends


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), [("serve", "pipe"), ("serve", "device"), ("status", "pipe")])
def test_no_command_waits_for_a_pipe(served, tmp_path, name, kind):
    """Of each file in turn: the command ends with a code that says what to do, and names the file."""
    running = []
    unread = _UNREAD["."] | _UNREAD[name]
    for number, path in enumerate(sorted(path for path in served.rglob("*") if path.is_file())):
        inside = path.relative_to(served)
        if path.name in unread or (name == "status" and inside.parts[0] not in {"state", "state.forks.jsonl"}):
            continue
        folder = tmp_path / str(number)
        shutil.copytree(served, folder)
        _plant(folder / inside, kind)
        line = command("serve", _config(folder)) if name == "serve" else command("status", folder / "state")
        running.append((folder / inside, subprocess.Popen(line, stderr=subprocess.PIPE, env=environment())))
    assert len(running) >= (10 if name == "serve" else 3)
    try:
        for path, process in running:
            told = process.communicate(timeout=TIMEOUT)[1].decode()
            assert process.returncode in {2, 3, 4}, (path, told)
            assert str(path) in told, told
    finally:
        for _, process in running:
            process.kill()
