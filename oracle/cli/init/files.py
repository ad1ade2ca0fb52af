"""What `perpetua init` looks for before the work, and the steps that one shard and many have in common."""

import os
from pathlib import Path

from oracle import durable
from oracle.errors import RefusedError, StateError, StorageError
from oracle.state.files import finish_exclusive
from oracle.state.folder import FolderStore, check_mode
from oracle.state.format import Snapshot, encode
from oracle.state.genesis import Genesis, read_genesis, write_genesis
from oracle.state.keys import create_key_file, read_key_file
from oracle.state.shards import holds_state

__all__ = [
    "check_destination",
    "erase_left_over",
    "make_folder",
    "make_key",
    "refuse_existing_state",
    "refuse_genesis",
    "write_state",
]


def refuse_existing_state(state: Path) -> None:
    """Refuse a folder that holds a state, or that others can open."""
    if holds_state(state):
        raise StateError(f"{state}: holds a state already, and nothing is ever overwritten; name another folder")
    if state.is_dir():
        check_mode(state)


def refuse_genesis(genesis: Path, *, left_over: bool) -> None:
    """Refuse a place for a genesis file, or a folder of them, that is not there or is taken."""
    if not genesis.absolute().parent.is_dir():
        raise RefusedError(f"--keep-genesis = '{genesis}': its folder does not exist")
    if genesis.exists() and not left_over:
        raise StateError(f"{genesis}: exists already, and nothing is ever overwritten")


def erase_left_over(genesis: Path, key_path: Path) -> bool:
    """Erase a genesis file that an interrupted `init` left: its key is this state's, and there is no state yet."""
    try:
        ours = key_path.exists() and read_genesis(genesis).master_key == read_key_file(key_path)
    except StateError:
        return False
    if ours:
        temporary = genesis.with_name(f".{genesis.name}.tmp")
        durable.remove(temporary)  # else it may be the same file, and keep its first name
        durable.rename(genesis, temporary)  # a crash while it is erased must not leave what looks like a genesis file
        durable.erase(temporary)
    return ours


def check_destination(state: Path) -> None:
    """Find out before the work whether the folder can be made."""
    there = next(path for path in (state, *state.absolute().parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        problem = "cannot be written" if there.is_dir() else "is not a folder"
        raise StorageError(f"--state = '{state}': {there} {problem}")


def make_folder(option: str, folder: Path) -> None:
    """Make a private folder, and those above it."""
    try:
        durable.make_folder(folder, parents=True)
    except OSError as exc:
        raise StorageError(f"{option} = '{folder}': cannot be made: {exc.strerror}") from exc


def make_key(key_path: Path) -> bytes:
    """Return the key of an earlier try, or of a new key file."""
    if not key_path.exists():
        return create_key_file(key_path)
    master_key = read_key_file(key_path)
    finish_exclusive(key_path)  # else the key would stay under a second name
    return master_key


def write_state(store: FolderStore, master_key: bytes, plan: bytes, snapshot: Snapshot, genesis: Path | None) -> None:
    """Write the plan, the genesis file, and last the snapshot: without it a folder is no state yet."""
    store.write_plan(plan)
    snapshot = store.bound(snapshot)
    if genesis is not None:
        write_genesis(genesis, Genesis(master_key, encode(snapshot, master_key), plan))
    store.save(snapshot)
