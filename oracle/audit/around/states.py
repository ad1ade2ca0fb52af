"""Checks of what states keep and their sizes tell (see `oracle.audit.structure`; PRIVACY.md, Definition 1, Lemma 2)."""

import dataclasses
import os
import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

from oracle.audit.around.rows import predictor_of, snapshot_of
from oracle.audit.findings import Seen
from oracle.audit.randomness import Draws, Randomness
from oracle.audit.recording.neighbours import worlds_of
from oracle.audit.recording.replays import Forms, World, forms_of
from oracle.errors import StateError
from oracle.mechanisms.keys import PhaseKey
from oracle.planning.plan import Plan
from oracle.predictors.base import StateArrays
from oracle.receipts.receipts import statement_of
from oracle.state.folder import FolderStore
from oracle.state.format import KEY, Snapshot, decode, encode, peek

__all__ = ["kept"]

_RUNS: Final = 3
_CUTS: Final = 6
_STEPS: Final = 2
_OWNER: Final = 0o077
_USES: Final = (b"noise", b"query hash", b"running tag", b"level", b"genesis commitment", b"names of persons")
_VARIED: Final = 12
"""Different bytes, from which on something is not met with elsewhere by chance."""

_BOUND: Final = ("generation", "phase", "round", "position", "rearms")
"""Fields of a header that nobody may exchange who has no key."""

_MASTER_KEY: Final = bytes(range(7, 39))


def kept(plan: Plan, randomness: Randomness) -> Seen:
    """A state's length and header follow from what is public; it keeps no key of before, and its files nothing at all.

    Else who sees a file's length learns of records, or who reads a backup undoes noise that was promised to be gone.
    """
    states = 0
    forms: dict[tuple[bytes, int], Forms] = {}
    for number, world in enumerate(islice(worlds_of(plan, randomness), _RUNS)):
        snapshots = list(_snapshots(world, Draws(randomness, 256 + number)))
        for snapshot in snapshots:
            wrong = _key_wrong(world, snapshot) or _surplus(snapshot.arrays)
            mine = forms_of(snapshot.arrays)
            if wrong is None and forms.setdefault((world.plan.digest, snapshot.phase), mine) != mine:
                wrong = "has arrays of other sizes than another one of its phase"
            if wrong is not None:
                return False, f"run {number}: a state of round {snapshot.round} {wrong}"
        wrong = _stored_wrong(world, snapshots)
        if wrong is not None:
            return False, f"run {number}: {wrong}"
        states += len(snapshots)
    return states > 0, f"{states} states: lengths follow from plan and phase, and no earlier key is left"


def _snapshots(world: World, draws: Draws) -> Iterator[Snapshot]:
    """Answer all queries, and yield snapshots on the way: some at random, and behind each end of a phase."""
    count = len(world.queries)
    ends = {int(end) for end in np.cumsum([min(phase.rounds, count) for phase in world.plan.phases])}
    predictor = predictor_of(world)
    done, tag = 0, np.zeros(2, dtype=np.uint64)
    for generation, cut in enumerate(sorted({0, *ends, *draws.some(min(_CUTS, count), count), count}), 1):
        tag ^= predictor.answer(world.queries[done:cut], world.present[done:cut]).tag
        done = cut
        yield dataclasses.replace(snapshot_of(world, predictor), generation=generation, tag=tag.tobytes())


def _key_wrong(world: World, snapshot: Snapshot) -> str | None:
    """Return that a state has another key than its phase's, or holds one of before."""
    *earlier, key = _keys(world, snapshot.phase)
    before = [one for old in earlier for one in (old.secret, *map(old.subkey, _USES))]
    if snapshot.arrays[KEY].tobytes() != key.secret:
        return "has another key than its phase's"
    held = b"".join(array.tobytes() for array in snapshot.arrays.values())
    now = [key.subkey(use) for use in _USES[:3]]
    return "holds a key of before" if any(one in held for one in (*before, *now)) else None


def _keys(world: World, phase: int) -> list[PhaseKey]:
    """Return the genesis key, and those of all phases up to one."""
    keys = [PhaseKey(world.secret)]
    for _ in range(phase):
        keys.append(keys[-1].ratchet())
    return keys


def _surplus(arrays: StateArrays) -> str | None:
    """Return that an array holds more than its count says: what was let go, and is still there."""
    for name, array in arrays.items():
        if name.endswith("_counts") and f"{name.removesuffix('_counts')}_keys_0" in arrays:
            window = name.removesuffix("_counts")
            for side, count in enumerate(array.tolist()):
                rest = [arrays[f"{window}_{part}_{side}"][count:] for part in ("keys", "records")]
                if any(one.tobytes().strip(b"\0") for one in rest):
                    return f"holds more in {window} than it counts"
        elif name.endswith("_labels"):
            pool = name.removesuffix("_labels")
            empty = array < np.zeros(1, array.dtype)
            if any(arrays[f"{pool}_{part}"][empty].any() for part in ("features", "owners")):
                return f"holds rows in empty slots of {pool}"
    return None


def _stored_wrong(world: World, snapshots: Sequence[Snapshot]) -> str | None:
    """Save snapshots one after the other; return what is wrong with the files, if anything."""
    with tempfile.TemporaryDirectory(prefix="perpetua-audit-") as scratch:
        folder, beside = Path(scratch, "state"), Path(scratch, "beside")
        nonces, lengths = set(), dict[tuple[int, bool, bool], int]()
        with FolderStore.open(folder, _MASTER_KEY) as store:
            store.write_plan(world.plan.encode())
            for turn, snapshot in enumerate(snapshots):
                if turn == _STEPS:  # a second name of a file that is to go
                    os.link(next(folder.glob("*.perp")), beside)
                here = store.peek()
                store.save(dataclasses.replace(snapshot, origin=None if here is None else here.origin))
                files = list(folder.glob("*.perp"))
                header = store.peek()
                if len(files) != 1 or header is None or header.generation != snapshot.generation:
                    return "an older snapshot stays where a newer one is written"
                data = files[0].read_bytes()
                nonces |= {header.nonce, peek(encode(snapshot, _MASTER_KEY)).nonce}
                form = (snapshot.phase, snapshot.paid > 0, snapshot.rested + snapshot.rest_left > 0)
                if lengths.setdefault(form, len(data)) != len(data):
                    return f"the file's length is another one at round {snapshot.round}"
                wrong = _file_wrong(world, snapshot, data)
                if wrong is not None:
                    return wrong
        found = {
            "others than its owner may read the state": any(
                path.stat().st_mode & _OWNER for path in (folder, *folder.iterdir())
            ),
            "two snapshots are encrypted with one nonce": len(nonces) < 2 * len(snapshots),
            "an older snapshot is not overwritten": beside.exists() and any(beside.read_bytes()),
        }
    return next((says for says, holds in found.items() if holds), None)


def _file_wrong(world: World, snapshot: Snapshot, data: bytes) -> str | None:
    """Return what a file of a snapshot tells whoever has no key, or lets them exchange."""
    held = [array.tobytes() for array in snapshot.arrays.values()]
    keys = [key.subkey(use) for key in _keys(world, snapshot.phase) for use in _USES[:3]]
    plan, held = world.plan, [one for one in (*held, *keys, snapshot.tag) if len(set(one)) >= _VARIED]
    stated = statement_of(plan, snapshot, 0, "audit")
    if any(one in data or one.hex() in stated.tag_commitment for one in held):
        return "a snapshot's file, or its receipt, has something of its state in clear"
    header = peek(data)
    for name in _BOUND:
        other = dataclasses.replace(header, **{name: getattr(header, name) + 1}).pack()
        if _opens(plan, other + data[header.header_bytes :], _MASTER_KEY):
            return f"a snapshot's {name} can be exchanged"
    if _opens(plan, data, bytes(len(_MASTER_KEY))) or not _opens(plan, data, _MASTER_KEY):
        return "a snapshot is not opened by its key, or by another one"
    return None


def _opens(plan: Plan, data: bytes, master_key: bytes) -> bool:
    try:
        decode(data, master_key, plan.digest)
    except StateError:
        return False
    return True
