import stat

import pytest

from oracle.errors import CorruptSnapshotError, ForeignPlanError, KeyFileError, StorageError
from oracle.state.format import decode, encode
from oracle.state.genesis import Genesis, read_genesis, write_genesis
from tests.state.suite import DIGEST, KEY, OTHER_PLAN, PLAN, assert_same, make_snapshot


@pytest.fixture
def genesis():
    """Return a genesis of the small snapshot."""
    return Genesis(KEY, encode(make_snapshot(0), KEY), PLAN)


def test_genesis_comes_back(tmp_path, genesis):
    """Key, snapshot and plan come back from one file of mode 0600, and the snapshot decodes."""
    write_genesis(tmp_path / "genesis", genesis)
    read = read_genesis(tmp_path / "genesis")
    assert read == genesis
    assert_same(decode(read.snapshot, read.master_key, DIGEST), make_snapshot(0))
    assert stat.S_IMODE((tmp_path / "genesis").stat().st_mode) == 0o600


def test_genesis_is_never_overwritten(tmp_path, genesis):
    """A file that is there stays as it is."""
    (tmp_path / "genesis").write_bytes(b"something else")
    with pytest.raises(StorageError, match="never overwritten"):
        write_genesis(tmp_path / "genesis", genesis)
    assert (tmp_path / "genesis").read_bytes() == b"something else"


def test_genesis_must_be_of_one_plan(tmp_path, genesis):
    """A plan that is not the snapshot's is refused before anything is written."""
    with pytest.raises(ForeignPlanError):
        write_genesis(tmp_path / "genesis", genesis._replace(plan=OTHER_PLAN))
    assert not (tmp_path / "genesis").exists()


def test_genesis_checks_the_key_length(tmp_path, genesis):
    """A key of another length is refused."""
    with pytest.raises(KeyFileError):
        write_genesis(tmp_path / "genesis", genesis._replace(master_key=b"short"))


def test_open_genesis_is_refused(tmp_path, genesis):
    """A genesis that others can read is refused, with a hint."""
    write_genesis(tmp_path / "genesis", genesis)
    (tmp_path / "genesis").chmod(0o644)
    with pytest.raises(KeyFileError, match="chmod 600"):
        read_genesis(tmp_path / "genesis")


def test_missing_genesis_is_named(tmp_path):
    """A missing file is named."""
    with pytest.raises(KeyFileError, match="No such file"):
        read_genesis(tmp_path / "genesis")


def test_every_damage_is_found(tmp_path, genesis):
    """Every flipped byte and every truncation is found."""
    path = tmp_path / "genesis"
    write_genesis(path, genesis)
    data = path.read_bytes()
    damaged = [data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :] for index in range(len(data))]
    damaged += [data[:length] for length in range(len(data))] + [data + b"\0"]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(CorruptSnapshotError):
            read_genesis(path)
