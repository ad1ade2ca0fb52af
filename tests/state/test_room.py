import subprocess
import sys

import pytest

from oracle.errors import StorageError
from oracle.state.room import check_room

_CHILD = """
import resource, sys
from pathlib import Path
from oracle.errors import StorageError
from oracle.state.room import check_room
resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
check_room(Path(sys.argv[1]), 65536)
try:
    check_room(Path(sys.argv[1]), 65537)
except StorageError as exc:
    print(exc)
"""


def test_nothing_is_left(tmp_path):
    """The file that was tried is gone, and so is one that a crash had left."""
    (tmp_path / ".perpetua-check").write_bytes(b"left over")
    check_room(tmp_path, 100_000)
    assert list(tmp_path.iterdir()) == []


def test_no_folder(tmp_path):
    """What is wrong is said with the folder's name, and what to do."""
    with pytest.raises(
        StorageError, match=r"none: a snapshot could not be written: No such file .*let this user write"
    ):
        check_room(tmp_path / "none", 1)


def test_no_room(tmp_path):
    """A file as large as the next snapshot must fit; the process may write no larger one."""
    done = subprocess.run([sys.executable, "-c", _CHILD, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout == (
        f"{tmp_path}: a snapshot could not be written: File too large; let this user write to it, and make room\n"
    )
    assert list(tmp_path.iterdir()) == []
