"""The contract of a predictor: a pure, synchronous function of state, batch and keyed noise."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from oracle.accounting.ledger import LedgerEvent, PhaseStarted
from oracle.errors import DataError
from oracle.mechanisms.addresses import Addresses
from oracle.mechanisms.keys import PhaseKey
from oracle.planning.plan import Plan
from oracle.predictors.values import Values

__all__ = [
    "NO_LABEL",
    "SETTLED_TOGETHER",
    "Answers",
    "Labels",
    "Predictor",
    "PublicFacts",
    "StateArrays",
    "Trainer",
    "check_finite",
    "phase_started",
]

PlanT = TypeVar("PlanT", bound=Plan)
PredictorT_co = TypeVar("PredictorT_co", bound="Predictor", covariant=True)

NO_LABEL = -1
"""The label of a round with no query."""

SETTLED_TOGETHER: Final = 64
"""Rounds whose bookkeeping is worth doing: of a few it takes as long."""

Labels = NDArray[np.bool_ | np.int8]
"""Labels of training rows: bool[n] where `Plan.labels` are 0 and 1, else int8[n], their places among these."""

StateArrays = Mapping[str, NDArray[np.generic]]
"""A predictor's whole state as named arrays whose shapes and types depend on the plan and the phase only."""


@dataclass(frozen=True, slots=True)
class PublicFacts:
    """What anyone may know about a predictor at a moment (PRIVACY.md, Definition 1).

    Attributes:
        round: Rounds answered since the beginning (>= 0).
        phase: Current phase (>= 1).
        phase_round: Rounds answered in the current phase (>= 0).
        phase_rounds: Length of the current phase in rounds.
        rearms: Times that any side was armed afresh since the beginning.
        paid: Answers that the data paid for since the beginning: public where any are (PRIVACY.md, section 13).
        rested: Rounds that rested since the beginning, whether they had a query or not (PRIVACY.md, section 15).
        rest_left: Rounds that will rest from now on, before one is answered again; 0 where it does not rest.
    """

    round: int
    phase: int
    phase_round: int
    phase_rounds: int
    rearms: int
    paid: int = 0
    rested: int = 0
    rest_left: int = 0


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers to one batch.

    Attributes:
        labels: int8[n], places in `Plan.labels`, `NO_LABEL` where the round had no query; 0 for a query that is
            answered with a number.
        first_round: Global number of the first row's round; row i is round `first_round + i`.
        phases: int64[n], the phase each round belongs to.
        tag: The XOR over the rows of AES_k(round | keyed hash), 16 bytes, as uint64[2]: what the shard
            folds into its running tag (ARCHITECTURE.md, "Keys and noise").
        events: What happened on the way, for the ledger: public facts only.
        values: float64[n], finite, NaN where the round had no query; None unless `Plan.answers` says "value".
        paid: int64[n], of questions about a table: paid answers so far, those of the round included; else None.
        verified: bool[n], of questions about a table: whether `values` keep the plan's promise; else None. For a
            sparse vector: whether the question was answered at all, by `labels`, 1 for above, with a value, and NaN
            where not. Of a predictor that rests at times, which is public: whether the query was answered; anything
            where there was none.
        found: float64[n, D - 1], of a distribution: of a quantile the numbers of its value, else those of the value
            that was asked about; anything where the round had no query. Else None.
    """

    labels: NDArray[np.int8]
    first_round: int
    phases: NDArray[np.int64]
    tag: NDArray[np.uint64]
    events: Sequence[LedgerEvent]
    values: NDArray[np.float64] | None = None
    paid: NDArray[np.int64] | None = None
    verified: NDArray[np.bool_] | None = None
    found: NDArray[np.float64] | None = None

    def part(self, start: int, stop: int) -> "Answers":
        """Return the answers to the rows from `start` up to `stop`; tag and events stay those of the whole."""
        rows = slice(start, stop)
        return replace(
            self,
            labels=self.labels[rows],
            first_round=self.first_round + start,
            phases=self.phases[rows],
            values=None if self.values is None else self.values[rows],
            paid=None if self.paid is None else self.paid[rows],
            verified=None if self.verified is None else self.verified[rows],
            found=None if self.found is None else self.found[rows],
        )


class Predictor(Protocol):
    """One shard's predictor.

    Formal guarantees:
        * *Batch-blind*: `answer(a + b)` equals `answer(a)` followed by `answer(b)`, bit for bit, in labels, rounds,
          tags (XORed) and events.
        * *Restorable*: a predictor restored from `export()` answers on as this one would have.
        * *Even time*: what `answer` does before it returns does not depend on its labels; sets are brought up to date
          by `settle`, which the caller calls when the answers have left. (Only at public moments, at the next batch,
          when a side is armed afresh or when a phase ends, does `answer` settle by itself.) Where the plan protects
          no queries, it may depend on these, and on what is released.
        * *Fixed size*: `export()`'s shapes depend on the plan and the phase, never on the data.
    """

    def answer(self, features: NDArray[np.float64], present: NDArray[np.bool_]) -> Answers:
        """Answer a batch in arrival order.

        Args:
            features: float64[n, D], finite; rows that are not present are ignored. D is `Plan.width`.
            present: bool[n], False where the round has no query.

        Raises:
            PlanExhaustedError: The batch would run past the last planned phase; no row of it was answered.
        """
        ...

    def settle(self) -> None:
        """Do the bookkeeping of the answers given so far; it changes no answer, and may be left out.

        `answer` begins with it where `SETTLED_TOGETHER` rounds wait for it: whoever times that does it before.
        """
        ...

    def export(self) -> StateArrays:
        """Settle, and return the whole state. It holds raw private points and keys."""
        ...

    def facts(self) -> PublicFacts:
        """Return what is public."""
        ...


class Trainer(ABC, Generic[PlanT, PredictorT_co]):
    """Takes what a predictor is made of in, in any number of batches, and makes it.

    Formal guarantees:
        * The result is a function of (plan, secret, rows in order), whatever the batches.
        * Neighbours differ by one row that is there or not; one that is not there still counts to the declared number,
          so no other row takes its place, and the others keep their numbers.

    Args:
        plan: The plan.
        secret: 32 uniformly random bytes: the genesis key, from which every phase key is ratcheted.

    Attributes:
        progress: Told by `finish`, where this takes long, which part of its work is done.
    """

    def __init__(self, plan: PlanT, secret: bytes) -> None:
        self.progress: Callable[[float], None] = lambda _part: None
        self._plan = plan
        self._key = PhaseKey(secret)
        self._addresses = Addresses(self._key, plan.width)
        self._rows = 0

    @property
    def missing(self) -> int:
        """Rows still wanted of the declared ones; 0 when no more are looked at."""
        return self._plan.declared - self._rows

    def add(self, features: NDArray[np.float64], labels: Labels) -> None:
        """Take rows in; those beyond the declared number are not used.

        Args:
            features: float64[n, D], finite.
            labels: bool[n], True for a positive example; or int8[n], see `Labels`.

        Raises:
            DataError: A value is not finite, or out of the predictor's range.
        """
        features, labels = features[: self.missing], labels[: self.missing]
        self._check(features)
        self._take(features + 0.0, labels)  # -0.0 becomes 0.0
        self._rows += len(labels)

    def _check(self, features: NDArray[np.float64]) -> None:
        check_finite(self._plan, features)

    @abstractmethod
    def _take(self, features: NDArray[np.float64], labels: NDArray[Any]) -> None:
        """Take in rows that were checked, the first of which has the number `self._rows`; `features` may be kept."""

    def finish(self) -> PredictorT_co:
        """Return the predictor, and forget the rows.

        Raises:
            DataError: Fewer rows came than the plan declares.
        """
        if self.missing > 0:
            raise DataError(f"data: fewer rows than model.examples = {self._plan.declared} declares")
        return self._make()

    @abstractmethod
    def _make(self) -> PredictorT_co:
        """Return the predictor, and forget the rows, of which there are enough."""


def phase_started(plan: Plan, phase: int) -> PhaseStarted:
    """Return the public event of a phase's beginning, with the delta spent on all records before it."""
    current = plan.phases[phase - 1]
    return PhaseStarted(
        round=plan.first_round(phase),
        phase=phase,
        rounds=current.rounds,
        epsilon=plan.epsilon,
        delta=current.delta,
        delta_spent=plan.delta_spent(phase, 0),
        nominal=True if plan.nominal else UNSET,
        covers=UNSET if plan.protects_queries else "training",
        data=plan.data if phase == 1 else UNSET,
        person=plan.person if phase == 1 else UNSET,
    )


def check_finite(plan: Plan, features: NDArray[np.float64]) -> None:
    """Refuse training rows with a value that is no number, or has no end; the message names the column only.

    Args:
        plan: Has the columns' names.
        features: float64[n, D].

    Raises:
        DataError: A value is not finite.
    """
    bad = ~np.isfinite(features).all(axis=0)
    if bad.any():
        name = Values(plan.features).names()[int(bad.argmax())]
        raise DataError(f"data: column {name}: every value must be a finite number")
