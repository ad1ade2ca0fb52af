"""The word that a model is to pause."""

import pytest

from oracle.errors import NewerVersionError, StateError, StorageError
from oracle.state.paused import is_paused, read_paused, write_paused, write_resumed


def test_it_stays_until_it_is_taken_back(tmp_path):
    """Both are said once; the time of the first holds."""
    assert not is_paused(tmp_path)
    assert read_paused(tmp_path) is None
    assert write_paused(tmp_path)
    since = read_paused(tmp_path)
    assert not write_paused(tmp_path)
    assert read_paused(tmp_path) == since
    assert is_paused(tmp_path)
    assert write_resumed(tmp_path)
    assert not write_resumed(tmp_path)
    assert not is_paused(tmp_path)


def test_whatever_the_file_holds_it_is_a_pause(tmp_path):
    """A daemon need not understand it; a command says that it does not."""
    for held, error in ((b"", StateError), (b'{"version":9,"since":"now"}', NewerVersionError)):
        (tmp_path / "paused.json").write_bytes(held)
        assert is_paused(tmp_path)
        with pytest.raises(error):
            write_paused(tmp_path)
    assert write_resumed(tmp_path)


def test_a_folder_that_is_not_there(tmp_path):
    """Nothing pauses there, and nothing can be made to."""
    assert not is_paused(tmp_path / "gone")
    with pytest.raises(StorageError):
        write_paused(tmp_path / "gone")
