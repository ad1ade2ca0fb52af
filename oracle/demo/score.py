"""Comparing the recorded answers with the truth, which only the demo can do: its data are public."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np
import pyarrow.parquet
from numpy.typing import NDArray

from oracle.errors import DataError

__all__ = ["Score", "score", "score_files"]


class _Answer(msgspec.Struct):
    id: str
    label: int
    round: int
    phase: int


@dataclass(frozen=True)
class Score:
    """The answers beside the truth, in round order.

    Attributes:
        times: datetime64[n], when each query was asked (the flight's scheduled departure).
        truth: bool[n], the true labels.
        labels: int8[n], the answers, 0 or 1.
        phases: int64[n], the phase that gave each answer.
    """

    times: NDArray[np.datetime64]
    truth: NDArray[np.bool_]
    labels: NDArray[np.int8]
    phases: NDArray[np.int64]

    @cached_property
    def wrong(self) -> NDArray[np.bool_]:
        """bool[n]: which answers are wrong."""
        answered: NDArray[np.bool_] = self.labels == 1
        return answered ^ self.truth

    @property
    def rounds(self) -> int:
        """Number of answers."""
        return len(self.labels)

    @property
    def error(self) -> float:
        """Part of the answers that is wrong."""
        return float(self.wrong.mean())

    @property
    def baseline(self) -> float:
        """Error of always giving the more frequent answer."""
        positive = float(self.truth.mean())
        return min(positive, 1.0 - positive)

    @property
    def errors_by_phase(self) -> dict[int, float]:
        """The error of each phase that answered."""
        return {int(phase): float(self.wrong[self.phases == phase].mean()) for phase in np.unique(self.phases)}

    @property
    def phase_starts(self) -> dict[int, int]:
        """The first round of each phase after the first one seen."""
        changes = np.flatnonzero(np.diff(self.phases)) + 1
        return {int(self.phases[row]): int(row) for row in changes}

    def by_day(self) -> tuple[NDArray[np.datetime64], NDArray[np.int64], NDArray[np.int64]]:
        """Return (days, answers on each, wrong answers on each); days that had no query are left out."""
        days, where, counts = np.unique(self.times.astype("datetime64[D]"), return_inverse=True, return_counts=True)
        return days, counts.astype(np.int64), np.bincount(where, self.wrong, len(days)).astype(np.int64)

    def by_week(self) -> tuple[NDArray[np.datetime64], NDArray[np.float64]]:
        """Return (days, error over the seven days up to and including each; over fewer at the beginning)."""
        days, counts, wrong = self.by_day()
        first = np.searchsorted(days, days - np.timedelta64(6, "D"))
        asked, missed = (np.concatenate([[0], values.cumsum()]) for values in (counts, wrong))
        return days, (missed[1:] - missed[first]) / (asked[1:] - asked[first])


def score(
    times: NDArray[np.datetime64], truth: NDArray[np.bool_], labels: NDArray[np.int8], phases: NDArray[np.int64]
) -> Score:
    """Put answers beside the truth.

    Raises:
        DataError: There are none, or not one answer to each query.
    """
    if not len(truth) or any(len(part) != len(truth) for part in (times, labels, phases)):
        raise DataError(f"answers: {len(labels)} for {len(truth)} queries")
    return Score(times, truth, labels, phases)


def score_files(answers: Path, truth: Path) -> Score:
    """Put an answer file (JSON lines) beside the demo's `truth.parquet`.

    Raises:
        DataError: Not every query was answered exactly once and in order.
    """
    try:
        given = msgspec.json.decode(
            b"[" + answers.read_bytes().rstrip(b"\n").replace(b"\n", b",") + b"]", type=list[_Answer]
        )
    except msgspec.MsgspecError as exc:
        raise DataError(f"{answers}: a line is not an answer") from exc
    table = pyarrow.parquet.read_table(truth)
    in_order = [answer.id for answer in given] == table["id"].to_pylist()
    if not in_order or [answer.round for answer in given] != list(range(len(given))):
        raise DataError(f"{answers}: not one answer to each query, in order")
    return score(
        table["time"].to_numpy(),
        table["label"].to_numpy(),
        np.array([answer.label for answer in given], dtype=np.int8),
        np.array([answer.phase for answer in given], dtype=np.int64),
    )
