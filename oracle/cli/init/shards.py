"""`perpetua init --shards N`: the training set split into N shards, each a state folder of its own."""

import hashlib
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from oracle import durable
from oracle.cli.data_ledger import Uses
from oracle.cli.init.check import StartCheck
from oracle.cli.init.files import (
    erase_left_over,
    make_folder,
    make_key,
    refuse_existing_state,
    refuse_genesis,
    write_state,
)
from oracle.cli.init.persons import Persons
from oracle.cli.progress import Progress
from oracle.cli.tables import BothLabels, Layout, labelled_batches, layout_of
from oracle.errors import DataError, RefusedError
from oracle.mechanisms.keys import KEY_BYTES, PhaseKey
from oracle.mechanisms.partition import Partition
from oracle.planning.plan import Plan
from oracle.predictors.base import Labels
from oracle.predictors.split import SplitTrainer
from oracle.state.folder import FolderStore, check_mode
from oracle.state.format import Snapshot
from oracle.state.shards import begin_shards, discard_unfinished, finish_shards, shard_name

__all__ = ["Rows", "Targets", "make_shards", "refuse_genesis_folder"]

_TOGETHER_BYTES = 1 << 28
"""Memory for shards that are trained in one reading of the rows, about; what is more takes further readings."""

_GENESIS = re.compile(r"shard-\d{4,}\.genesis")
_GENESIS_TEMPORARY = re.compile(r"\.shard-\d{4,}\.genesis\.tmp")


@dataclass(frozen=True, slots=True)
class Rows:
    """Where the rows are; the whole model declares so many of them, and `persons` may leave some out."""

    path: Path
    label: str | None
    declared: int
    persons: Persons | None = None


@dataclass(frozen=True, slots=True)
class Targets:
    """What is to be made: `genesis` is a file, or a folder of them; `ledger` is that of the data set."""

    state: Path
    key: Path
    genesis: Path | None
    ledger: Path | None = None

    @property
    def uses(self) -> Uses:
        """Where the state is entered."""
        return Uses(self.ledger, self.state)


def refuse_genesis_folder(genesis: Path, key_path: Path) -> None:
    """Refuse a place for a folder of genesis files that is taken; erase in it what an interrupted `init` left."""
    refuse_genesis(genesis, left_over=genesis.is_dir() and _clear_left_over(genesis, key_path))
    if genesis.is_dir():
        check_mode(genesis)


def _clear_left_over(genesis: Path, key_path: Path) -> bool:
    paths = sorted(genesis.iterdir())
    temporary = [path for path in paths if _GENESIS_TEMPORARY.fullmatch(path.name)]
    whole = [path for path in paths if _GENESIS.fullmatch(path.name)]
    if len(temporary) + len(whole) < len(paths):
        return False
    ours = all(erase_left_over(path, key_path) for path in whole)
    for path in temporary if ours else ():
        durable.erase(path)
    return ours


def make_shards(plan: Plan, shards: int, rows: Rows, targets: Targets) -> None:
    """Train all shards and write them, so that a crash anywhere leaves no state, and the same command makes one.

    The rows are read once for as many shards as fit into memory together; the first reading refuses bad data
    before anything is written. The partition's key lives in this process only: shards of an interrupted try are erased,
    never kept beside those of another partition.
    """
    check = StartCheck(plan, shards, targets.state, targets.uses.ledger)
    partition = Partition(PhaseKey(secrets.token_bytes(KEY_BYTES)), shards)
    together = max(_TOGETHER_BYTES // plan.training_bytes, 1)
    groups = [range(first, min(first + together, shards)) for first in range(0, shards, together)]
    with Progress("reading", rows.declared * len(groups), "rows") as progress:
        readings = _Readings(rows, layout_of(plan), progress)
        trainer = readings.train(plan, partition, groups[0])
        store, master_key = _begin(plan, shards, targets)
        with store:
            _write_group(plan, trainer, master_key, targets, check)
            for group in groups[1:]:
                _write_group(plan, readings.train(plan, partition, group), master_key, targets, check)
            targets.uses.enter(plan)  # once no shard starves: before, only what was counted is released
            # 6. From here on it is a state.
            finish_shards(targets.state)
            targets.uses.made()


def _begin(plan: Plan, shards: int, targets: Targets) -> tuple[FolderStore, bytes]:
    """1. The folder, 2. the key, 3. the word that shards are being made, 4. the plan; 5. are the shards."""
    make_folder("--state", targets.state)
    master_key = make_key(targets.key)
    store = FolderStore.open(targets.state, master_key)
    try:
        refuse_existing_state(targets.state)  # another `init` may have come first
        discard_unfinished(targets.state)
        begin_shards(targets.state, shards)
        store.write_plan(plan.encode())
        if targets.genesis is not None:
            make_folder("--keep-genesis", targets.genesis)
    except BaseException:
        store.close()
        raise
    return store, master_key


def _write_group(plan: Plan, trainer: SplitTrainer, master_key: bytes, targets: Targets, check: StartCheck) -> None:
    for shard, predictor, beyond in trainer.finish():
        try:
            check.confirm(shard, beyond)
        except RefusedError:
            discard_unfinished(targets.state)
            if targets.genesis is not None:
                _clear_left_over(targets.genesis, targets.key)
            raise
        name = shard_name(shard)
        genesis = targets.genesis / f"{name}.genesis" if targets.genesis else None
        with FolderStore.open(targets.state / name, master_key) as store:
            snapshot = Snapshot.first(plan.digest, predictor.export())
            write_state(store, master_key, plan.encode(), snapshot, genesis)


class _Readings:
    """Reads the rows as often as it takes, and sees to it that they are the same each time."""

    def __init__(self, rows: Rows, layout: Layout, progress: Progress) -> None:
        self._rows = rows
        self._progress = progress
        self._what = (rows.path, layout, rows.label, rows.persons)
        self._read = 0
        self._first: bytes | None = None

    def train(self, plan: Plan, partition: Partition, group: range) -> SplitTrainer:
        """Read all rows for some of the shards.

        Raises:
            DataError: There are fewer rows than declared, a value is not finite, or the file has changed in between:
                a record could have another number, and so go to two shards.
        """
        trainer = SplitTrainer(plan, partition, {shard: secrets.token_bytes(KEY_BYTES) for shard in group})
        digests = hashlib.sha256(), hashlib.sha256()
        both = BothLabels(self._rows.label)
        for features, labels in self._batches():
            digests[0].update(np.ascontiguousarray(features).data)
            digests[1].update(np.ascontiguousarray(labels).data)
            both.look(labels)
            trainer.add(features, labels)
        if plan.answers == "label":
            both.check()
        digest = digests[0].digest() + digests[1].digest()
        self._first = self._first or digest
        if digest != self._first:
            raise DataError(f"{self._rows.path}: has changed while it was read; run the same command again")
        return trainer

    def _batches(self) -> Iterator[tuple[NDArray[np.float64], Labels]]:
        missing = self._rows.declared
        for features, labels in labelled_batches(*self._what):
            yield features[:missing], labels[:missing]
            self._read += len(features[:missing])
            missing -= len(features[:missing])
            self._progress.at(self._read)
            if not missing:
                return
        raise DataError(f"data: fewer rows than model.examples = {self._rows.declared} declares")
