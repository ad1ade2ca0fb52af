import os
import stat

import pytest

from oracle.errors import KeyFileError, StorageError
from oracle.state.keys import create_key_file, journal_key, read_key_file


def test_key_comes_back(tmp_path):
    """A new key file holds the key that was returned, for its owner only, whatever the umask."""
    old = os.umask(0)
    try:
        key = create_key_file(tmp_path / "key")
    finally:
        os.umask(old)
    assert len(key) == 32
    assert read_key_file(tmp_path / "key") == key
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert create_key_file(tmp_path / "other") != key


def test_key_is_never_overwritten(tmp_path):
    """Making a key where one is changes nothing."""
    key = create_key_file(tmp_path / "key")
    with pytest.raises(KeyFileError, match="already exists"):
        create_key_file(tmp_path / "key")
    assert read_key_file(tmp_path / "key") == key


def test_missing_folder_is_named(tmp_path):
    """A folder that is not there is a storage error."""
    with pytest.raises(StorageError, match="No such file"):
        create_key_file(tmp_path / "nowhere" / "key")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o610, 0o777])
def test_open_key_files_are_refused_with_a_hint(tmp_path, mode):
    """A key that others can touch is refused, and the message says how to close it."""
    create_key_file(tmp_path / "key")
    (tmp_path / "key").chmod(mode)
    with pytest.raises(KeyFileError, match="chmod 600"):
        read_key_file(tmp_path / "key")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "perpetua-key 1\n",
        "perpetua-key 2\n" + "0" * 64 + "\n",
        "0" * 64 + "\n",
        "perpetua-key 1\n" + "0" * 63 + "\n",
        "perpetua-key 1\n" + "0" * 65 + "\n",
        "perpetua-key 1\n" + "g" * 64 + "\n",
        "perpetua-key 1\n" + "0" * 64 + "\n\n",
        "perpetua-key 1\n" + "0" * 100_000,
    ],
)
def test_malformed_key_files_are_refused_without_showing_them(tmp_path, text):
    """What is not a key file is refused, and nothing of it stands in the message."""
    path = tmp_path / "key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(KeyFileError, match="not a key file") as caught:
        read_key_file(path)
    assert "000" not in str(caught.value)


def test_missing_key_file_is_named(tmp_path):
    """A missing key file is a key file error."""
    with pytest.raises(KeyFileError, match="No such file"):
        read_key_file(tmp_path / "key")


def test_pipes_and_folders_are_no_key_files(tmp_path):
    """Only a regular file is read, so that a named pipe cannot hang the daemon."""
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(KeyFileError, match="regular"):
        read_key_file(tmp_path / "pipe")
    with pytest.raises(KeyFileError):
        read_key_file(tmp_path)


def test_journal_key_is_of_one_plan_and_tells_nothing_of_others():
    """Master key and plan decide it; it is 32 bytes, and neither the master key nor another plan's."""
    master = bytes(range(32))
    keys = {journal_key(master, bytes([plan]) * 32) for plan in range(3)} | {journal_key(bytes(32), bytes(32))}
    assert len(keys) == 4
    assert {len(key) for key in keys} == {32}
    assert master not in keys
    assert journal_key(master, bytes(32)) == journal_key(master, bytes(32))
