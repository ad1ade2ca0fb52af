"""Training many shards in one reading of the rows: each record goes to exactly one of them."""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from oracle.errors import DataError
from oracle.mechanisms.partition import Partition
from oracle.planning.plan import Plan
from oracle.predictors.base import Labels, Predictor, check_finite
from oracle.predictors.kinds import new_trainer, points_beyond

__all__ = ["SplitTrainer"]

_BLOCKS = 64
"""Blocks of N rows that are assigned at once at least: fewer would not pay for the calls."""


class SplitTrainer:
    """Assigns rows to N shards and trains some; several of these, with one partition, train all in several readings.

    Formal guarantees:
        * `Partition` states why the shards compose in parallel; each has its own secret, so noise is independent.
        * Every value is checked, also of rows that go to other shards, so what is refused does not depend on the key.

    Args:
        plan: The plan of each shard; each gets `plan.declared` rows.
        partition: Which shard gets which row.
        secrets: By shard that is to be trained, 32 uniformly random bytes: its genesis key.
    """

    def __init__(self, plan: Plan, partition: Partition, secrets: Mapping[int, bytes]) -> None:
        self._plan = plan
        self._partition = partition
        self._trainers = {shard: new_trainer(plan, secret) for shard, secret in secrets.items()}
        self._waiting: list[tuple[NDArray[np.float64], Labels]] = []
        self._waiting_rows = 0
        self._blocks = 0

    @property
    def missing(self) -> int:
        """Rows still wanted for all shards together."""
        return (self._plan.declared - self._blocks) * self._partition.shards - self._waiting_rows

    def add(self, features: NDArray[np.float64], labels: Labels) -> None:
        """Take rows in; those beyond the shards' parts are not used.

        Args:
            features: float64[n, D], finite.
            labels: bool[n], True for a positive example; or int8[n], see `Labels`.

        Raises:
            DataError: A value is not finite.
        """
        features, labels = features[: self.missing], labels[: self.missing]
        check_finite(self._plan, features)
        self._waiting.append((features, labels))
        self._waiting_rows += len(features)
        if self._waiting_rows >= _BLOCKS * self._partition.shards:
            self._hand_out()

    def _hand_out(self) -> None:
        """Assign all whole blocks; the rows of the last, unfinished one go on waiting."""
        features = np.concatenate([part for part, _ in self._waiting])
        labels = np.concatenate([part for _, part in self._waiting])
        shards = self._partition.shards
        blocks = len(features) // shards
        orders = self._partition.orders(self._blocks, blocks)
        starts = np.arange(blocks, dtype=np.intp) * shards
        for shard, trainer in self._trainers.items():
            rows = starts + orders[:, shard]
            trainer.add(features[rows], labels[rows])
        self._blocks += blocks
        self._waiting = [(features[blocks * shards :].copy(), labels[blocks * shards :].copy())]
        self._waiting_rows -= blocks * shards

    def finish(self) -> Iterator[tuple[int, Predictor, int | None]]:
        """Arm the shards one after another, forgetting the rows of each.

        Yields:
            Their numbers, their predictors, and what was released of their points (`kinds.points_beyond`).

        Raises:
            DataError: Fewer rows came than all parts together have.
        """
        if self._waiting_rows:
            self._hand_out()
        self._waiting.clear()
        if self.missing:
            msg = f"data: fewer rows than {self._partition.shards} shards of {self._plan.declared} examples each want"
            raise DataError(msg)
        while self._trainers:
            shard = min(self._trainers)
            trainer = self._trainers.pop(shard)
            predictor = trainer.finish()
            yield shard, predictor, points_beyond(trainer)
