"""A state of several shards, as `perpetua init --shards` makes it, without its work."""

from functools import cache
from pathlib import Path

import numpy as np

from oracle.planning.plan import Plan
from oracle.planning.statistics.model import TablePlan
from oracle.predictors.kinds import new_trainer
from oracle.state.folder import FolderStore
from oracle.state.format import Snapshot
from oracle.state.keys import create_key_file
from oracle.state.shards import begin_shards, finish_shards, shard_name
from tests.predictors.tables import random_rows

_ROWS = 50_000


@cache
def shard_snapshot(plan: Plan, shard: int) -> Snapshot:
    """Return a shard's first snapshot, of uniform rows and a box in their midst; no two share a row or a key.

    Of a table: of `random_rows`.
    """
    source = np.random.default_rng(shard + 1)
    trainer = new_trainer(plan, bytes([shard] * 32))
    if isinstance(plan, TablePlan):
        trainer.add(*random_rows(plan, shard + 1))
    while trainer.missing > 0:
        rows = source.random((min(trainer.missing, _ROWS), len(plan.features)))
        trainer.add(rows, np.asarray(((rows > 0.05) & (rows < 0.95)).all(axis=1)))
    return Snapshot.first(plan.digest, trainer.finish().export())


def make_sharded_state(folder: Path, plan: Plan, shards: int) -> None:
    """Make a state of so many shards, two at least, with `shard_snapshot` in each."""
    folder.mkdir(mode=0o700)
    key = create_key_file(folder / "key")
    with FolderStore.open(folder, key) as top:
        begin_shards(folder, shards)
        for shard in range(shards):
            (folder / shard_name(shard)).mkdir(mode=0o700)
            with FolderStore.open(folder / shard_name(shard), key) as store:
                store.write_plan(plan.encode())
                store.save(shard_snapshot(plan, shard))
        top.write_plan(plan.encode())
        finish_shards(folder)
