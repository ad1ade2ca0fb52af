"""What is made of files is what they hold now, or what they last held that could be used."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.kept_files import KeptFiles
from connectors.secret_files import read_again, read_secret
from oracle.errors import InputError, PerpetuaError, StorageError
from tests.support.configs import write_secret


def _read(path):
    text = read_secret("field", path)
    if text == "bad":
        raise InputError("field", str(path), "bad")
    return text


@given(st.lists(st.sampled_from(["a", "b", "bad", None, "same", "link"]), max_size=12))
def test_it_is_the_last_that_could_be_used(tmp_path_factory, changes):
    """Whether files are written in place, exchanged, removed or linked; each change that is no good is told once."""
    folder = tmp_path_factory.mktemp("kept")
    path, told = write_secret(folder / "secret", "first"), []
    kept = KeptFiles([path, None], lambda: _read(path), lambda: told.append(1))
    assert kept.get() == "first"
    last = "first"
    for number, change in enumerate(changes):
        if change is None:
            path.unlink(missing_ok=True)
        elif change == "link":
            target = write_secret(folder / f"target-{number}", f"linked {number}")
            (folder / "link").unlink(missing_ok=True)
            (folder / "link").symlink_to(target)
            (folder / "link").replace(path)
        elif change != "same":
            write_secret(folder / "fresh", f"{change}\n").replace(path)
        try:
            last = _read(path)
        except PerpetuaError:
            before = len(told)
            assert (kept.get(), kept.get()) == (last, last)
            assert len(told) - before <= 1
        assert kept.get() == last


def test_what_could_never_be_used_is_an_error(tmp_path):
    """There is nothing to keep yet; once it can be used, it is."""
    path = tmp_path / "secret"
    kept = KeptFiles([path], lambda: _read(path))
    with pytest.raises(StorageError):
        kept.get()
    write_secret(path, "bad")
    with pytest.raises(InputError):
        kept.get()
    write_secret(path, "good")
    assert kept.get() == "good"


def test_files_that_have_not_changed_are_not_read_again(tmp_path):
    """Each connection asks."""
    path, read = write_secret(tmp_path / "secret", "text"), []
    kept = KeptFiles([path], lambda: read.append(1))
    for _ in range(5):
        kept.get()
    assert len(read) == 1


def test_a_pipe_is_not_read_again(tmp_path):
    """What a shell hands over as <(command) can be read once."""
    os.mkfifo(tmp_path / "pipe")
    assert read_again(tmp_path / "pipe") is None
    assert read_again(None) is None
    file = write_secret(tmp_path / "file", "text")
    assert read_again(file) == file
