import subprocess
import sys

import pytest

from oracle.errors import StorageError
from oracle.state.space import check_space, folder_problem

_CHILD = """
import resource, sys
from pathlib import Path
from oracle.errors import StorageError
from oracle.state.space import check_space
resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
check_space(Path(sys.argv[1]), 65536)
try:
    check_space(Path(sys.argv[1]), 65537)
except StorageError as exc:
    print(exc)
"""


def test_trying_a_folder(tmp_path):
    """A file in its place is told like a missing one; a folder stays as it was, whatever is in it."""
    (tmp_path / "file").write_text("x")
    assert folder_problem(tmp_path) is None
    check_space(tmp_path, 100_000)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert "Not a directory" in (folder_problem(tmp_path / "file") or "")
    assert "No such file" in (folder_problem(tmp_path / "none") or "")


def test_no_folder(tmp_path):
    """What is wrong is said with the folder's name, and what to do."""
    with pytest.raises(StorageError, match=r"none: cannot be written: No such file .*; let this user write to it"):
        check_space(tmp_path / "none", 1)


def test_no_room(tmp_path):
    """A file as large as the next snapshot must fit; the process may write no larger one."""
    done = subprocess.run([sys.executable, "-c", _CHILD, tmp_path], capture_output=True, text=True, check=True)
    said = f"{tmp_path}: cannot be written: File too large; let this user write to it, and make room for a snapshot\n"
    assert done.stdout == said
    assert list(tmp_path.iterdir()) == []
