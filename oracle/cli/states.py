"""What commands read of a state folder."""

from pathlib import Path

from oracle.errors import KeyFileError, StateError, WrongKeyError
from oracle.planning.kinds import decode_plan
from oracle.planning.plan import Plan
from oracle.state.folder import newest_bytes, read_plan
from oracle.state.format import Snapshot, decode
from oracle.state.keys import read_key_file

__all__ = ["newest_snapshot", "present", "state_key_file", "state_plan"]


def state_plan(folder: Path) -> Plan:
    """Return the plan of a shard's state.

    Raises:
        StateError: The folder holds none, or one that cannot be read.
    """
    data = read_plan(folder)
    if data is None:
        raise StateError(f"{folder}: holds no state; make one with `perpetua init`")
    return decode_plan(data)


def state_key_file(folder: Path, key_file: Path | None) -> Path:
    """Return a state's key file, which is a key file: the one that `--key` names, or the one in the folder.

    Raises:
        KeyFileError: There is none, or it cannot be read.
    """
    if key_file is None and not (folder / "key").exists():
        raise KeyFileError(f"--key is not set: must name the key file of {folder}, which has none in it")
    path = key_file or folder / "key"
    read_key_file(path)
    return path


def newest_snapshot(folder: Path, key_file: Path, plan: Plan) -> tuple[Snapshot, bytes]:
    """Return the newest snapshot of a shard's state, and the key that opened it; the folder is not held.

    Raises:
        StateError: There is no snapshot, or it is not the key's or the plan's.
    """
    key, data = read_key_file(key_file), newest_bytes(folder)
    try:
        return present(None if data is None else decode(data, key, plan.digest), folder), key
    except WrongKeyError as exc:
        raise WrongKeyError(f"{exc}, {key_file}") from exc


def present(snapshot: Snapshot | None, folder: Path) -> Snapshot:
    """Return a folder's snapshot.

    Raises:
        StateError: There is none.
    """
    if snapshot is None:
        raise StateError(f"{folder}: holds no snapshot; make one with `perpetua init`")
    return snapshot
