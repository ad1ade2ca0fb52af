"""What processes are called in a group, for whoever comes after them."""

import os
import subprocess
import sys

from oracle.state.members import MemberNames

_PROCESS = """
import sys, time
from pathlib import Path
from oracle.state.members import MemberNames

names = MemberNames(Path(sys.argv[1]), sys.argv[2])
names.ended()
for name in sys.argv[3:]:
    names.keep(name)
print("kept", flush=True)
time.sleep(600)
"""


def _process(folder, group, *names):
    line = [sys.executable, "-c", _PROCESS, folder, group, *names]
    process = subprocess.Popen(line, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"kept\n"
    return process


def _kill(process):
    process.kill()
    process.communicate()


def test_a_killed_process_is_told_until_it_is_forgotten(tmp_path):
    """By its last name, in its own group; one that runs is not told, nor is one that never had a name."""
    running, nameless, other = (
        _process(tmp_path, "g", "runs"),
        _process(tmp_path, "g"),
        _process(tmp_path, "other", "foreign"),
    )
    killed = _process(tmp_path, "g", "a much longer name", "dead")
    for process in (killed, nameless, other):
        _kill(process)
    names = MemberNames(tmp_path, "g")
    assert names.ended() == names.ended() == ["dead"]
    names.forget()
    assert len(list((tmp_path / "members").iterdir())) == 3  # this one's, the running one's, the nameless one's
    names.keep("self")
    assert names.ended() == []
    assert MemberNames(tmp_path, "g").ended() == []
    _kill(running)
    assert MemberNames(tmp_path, "g").ended() == ["runs"]


def test_a_file_without_a_name_is_removed_once_it_is_old(tmp_path):
    """It holds up nobody; a new one may be that of a process that starts."""
    names = MemberNames(tmp_path, "g")
    names.ended()
    (own,) = (tmp_path / "members").iterdir()
    for held in (b"", b"\xff", b"[]", b'{"group":"g"}'):
        damaged = tmp_path / "members" / "damaged"
        damaged.write_bytes(held)
        assert names.ended() == []
        assert damaged.exists()
        os.utime(damaged, (0, 0))
        assert names.ended() == []
        assert list((tmp_path / "members").iterdir()) == [own]


def test_a_folder_that_cannot_be_had(tmp_path):
    """Nothing is told or kept, and nothing fails."""
    (tmp_path / "members").write_bytes(b"")
    for folder in (tmp_path, tmp_path / "gone"):
        names = MemberNames(folder, "g")
        assert names.ended() == []
        names.keep("self")
    assert not (tmp_path / "gone").exists()
