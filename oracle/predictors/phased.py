"""What all predictors do alike: rounds are counted, batches are cut where phases end, and keys are ratcheted there."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from oracle.accounting.ledger import LedgerEvent, PhaseEnded, PlanEnded
from oracle.errors import PlanExhaustedError
from oracle.mechanisms.addresses import Addresses
from oracle.mechanisms.keys import PhaseKey
from oracle.planning.plan import Phase, Plan
from oracle.predictors.base import NO_LABEL, SETTLED_TOGETHER, Answers, PublicFacts, StateArrays, phase_started

__all__ = ["PhasedPredictor", "Segment"]

PlanT = TypeVar("PlanT", bound=Plan)


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows in arrival order, all of the current phase.

    Attributes:
        features: float64[n, D], without -0.0; 0 where there is no query.
        present: bool[n], False where the round has no query; what is answered there is ignored.
        rounds: uint64[n], rounds of the phase.
        hashes: uint64[n], keyed hashes of the rows.
    """

    features: NDArray[np.float64]
    present: NDArray[np.bool_]
    rounds: NDArray[np.uint64]
    hashes: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.rounds)

    def part(self, which: slice | NDArray[np.intp]) -> "Segment":
        """Return some of the rows."""
        return Segment(self.features[which], self.present[which], self.rounds[which], self.hashes[which])


class PhasedPredictor(ABC, Generic[PlanT]):
    """The common part of all predictors (see `oracle.predictors.base.Predictor` for the contract).

    Args:
        plan: The plan.
        key: The phase's key.
        phase: The phase.
    """

    def __init__(self, plan: PlanT, key: PhaseKey, *, phase: int) -> None:
        self._plan = plan
        self._segment_rows = plan.segment_rows
        self._round = self._phase_round = 0
        self._rearms = self._phase_rearms = 0
        self._unsettled = 0
        self._enter(key, phase)

    def _enter(self, key: PhaseKey, phase: int) -> None:
        """Take the phase's key."""
        self._key = key
        self._phase = phase
        self._addresses = Addresses(key, self._plan.width)

    def facts(self) -> PublicFacts:
        """Return what is public."""
        rounds = self._phase_plan.rounds
        return PublicFacts(self._round, self._phase, self._phase_round, rounds, self._rearms, self.paid)

    @property
    def paid(self) -> int:
        """Answers that the data paid for so far."""
        return 0

    @property
    def _phase_plan(self) -> Phase:
        return self._plan.phases[self._phase - 1]

    def answer(self, features: NDArray[np.float64], present: NDArray[np.bool_]) -> Answers:
        """Answer a batch in arrival order (see `Predictor.answer`)."""
        count, first = len(features), self._round
        if first + count > self._plan.rounds:
            msg = f"round {self._plan.rounds}: the plan's last phase ends here; make a new plan and state"
            raise PlanExhaustedError(msg)
        if self._unsettled >= SETTLED_TOGETHER:
            self.settle()
        labels = np.where(present, np.int8(0), np.int8(NO_LABEL))
        values = np.full(count, np.nan) if self._plan.answers == "value" else None
        phases = np.empty(count, dtype=np.int64)
        tag = np.zeros(2, dtype=np.uint64)
        events: list[LedgerEvent] = []
        start = 0
        while start < count:
            rounds = self._phase_plan.rounds
            rows = slice(start, min(count, start + self._segment_rows, start + rounds - self._phase_round))
            phases[rows] = self._phase
            out = labels[rows] if values is None else values[rows]
            tag ^= self._segment(features[rows], present[rows], out, events)
            start = rows.stop
            if self._phase_round == rounds:
                self._end_phase(events)
        return Answers(labels, first, phases, tag, events, values)

    def _segment(
        self,
        features: NDArray[np.float64],
        present: NDArray[np.bool_],
        out: NDArray[np.int8] | NDArray[np.float64],
        events: list[LedgerEvent],
    ) -> NDArray[np.uint64]:
        """Answer rows that all belong to the current phase, into `out`; return their tag."""
        features = features + 0.0  # -0.0 becomes 0.0, before hash and key
        features[~present] = 0.0
        rounds = np.arange(self._phase_round, self._phase_round + len(features), dtype=np.uint64)
        hashes = self._addresses.hashes(features, present)
        np.copyto(out, self._answered(Segment(features, present, rounds, hashes), events), where=present)
        self._round += len(features)
        self._phase_round += len(features)
        self._unsettled += len(features)
        return self._addresses.tag(rounds, hashes, present)

    @abstractmethod
    def _answered(
        self, segment: Segment, events: list[LedgerEvent]
    ) -> NDArray[np.bool_] | NDArray[np.int8] | NDArray[np.float64]:
        """Return [n] labels or values of a segment; `events` takes what happens on the way."""

    def settle(self) -> None:
        """See `Predictor.settle`."""
        self._unsettled = 0
        self._settle()

    def _settle(self) -> None:
        """Do the bookkeeping of all answers that wait for it."""

    def _end_phase(self, events: list[LedgerEvent]) -> None:
        """Go on with the next phase under a ratcheted key; or end."""
        self.settle()
        events.append(PhaseEnded(round=self._round, phase=self._phase, rearms=self._phase_rearms))
        if self._phase == len(self._plan.phases):
            events.append(PlanEnded(round=self._round))
            return
        self._phase_round = self._phase_rearms = 0
        self._begin_next()
        events.append(phase_started(self._plan, self._phase))

    def _begin_next(self) -> None:
        """Enter the next phase, with all that it starts from."""
        self._enter(self._key.ratchet(), self._phase + 1)

    def _header(self, *counters: int) -> dict[str, NDArray[np.generic]]:
        """Return the arrays that every state has."""
        key = np.frombuffer(self._key.secret, dtype=np.uint8).copy()
        return {"key": key, "counters": np.array(counters, dtype=np.int64)}

    @abstractmethod
    def export(self) -> StateArrays:
        """See `Predictor.export`."""
