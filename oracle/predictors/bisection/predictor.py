"""OnlineBisection, served: T rounds that learn from noisy bits, then its last hypothesis, for ever and at no cost.

Source: Choromanski, Rostamizadeh and Syed (2015), Algorithms 1 and 2, Theorem 2.1, Corollary 2.1; the `efficient`
profile is that of PRIVACY.md, Theorem 12.
"""

from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from oracle.accounting.ledger import LedgerEvent, PhaseEnded, PlanEnded
from oracle.errors import CorruptSnapshotError, PlanExhaustedError
from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.mechanisms.keys import PhaseKey
from oracle.mechanisms.noise.laws import named_law
from oracle.mechanisms.sums import dots
from oracle.mechanisms.thresholds.bits import BinaryThresholdOracle, BitLedger
from oracle.planning.bisection.model import BisectionPlan
from oracle.predictors.base import NO_LABEL, Answers, PublicFacts, StateArrays, phase_started
from oracle.predictors.bisection.learner import Learner, clipped, in_range
from oracle.predictors.bisection.window import new_learner

__all__ = ["Bisection"]

_LARGEST: Final = float(np.finfo(np.float64).max)
_ONE: Final = np.zeros(1, dtype=np.uint64)


class Bisection:
    """One shard's bisection predictor (see `oracle.predictors.base.Predictor` for the contract).

    Formal guarantees:
        * (epsilon, delta_1) for every training row, over all answers of all rounds together, also against somebody who
          sees them all and chooses the queries by them (`oracle.planning.bisection.tight.row_event`): answers, and the
          hypothesis, are functions of the queries and of at most T bits of the `BinaryThresholdOracle`.
        * For a change of one coordinate of w* by at most 1: at most T times (1 / (D scale))^2 / 2 of zCDP; `ledger`
          says what was spent of it.
        * *Nothing for queries.* They are used in the clear, and what one of them taught decides later answers.
        * *Nothing for the error* of `efficient` beyond what experiments show; in both profiles nothing where queries
          are chosen against it.
        * A query with a coordinate outside [0, 1] is answered from the current hypothesis, but never asked.
        * When the T rounds are over, w* is erased from the state.

    Made by `BisectionTrainer.finish` or by `restore`.

    Args:
        plan: The plan.
        key: The phase's key.
        phase: The phase.
    """

    def __init__(self, plan: BisectionPlan, key: PhaseKey, *, phase: int) -> None:
        self._plan = plan
        self._round = 0
        self._phase_round = 0
        self._enter(key, phase)

    def _enter(self, key: PhaseKey, phase: int) -> None:
        self._key = key
        self._phase = phase
        self._addresses = Addresses(key, len(self._plan.features))

    def begin(self, database: NDArray[np.float64]) -> None:
        """Give the oracle its w*: float64[D], from 0 to 1."""
        self._database = database
        self._learner: Learner = new_learner(self._plan)
        self._open_oracle((0, 0.0))

    def _open_oracle(self, spent: tuple[int, float]) -> None:
        law = named_law(self._plan.noise, self._plan.scale)
        self._oracle = BinaryThresholdOracle(self._database, law, most_bits=self._plan.phases[0].rounds, spent=spent)

    @property
    def ledger(self) -> BitLedger:
        """What the bits have cost; it depends on the queries, so it is the owner's and not public."""
        return self._oracle.ledger

    def hypothesis(self) -> NDArray[np.float64]:
        """Return w, by which it answers: float64[D]; after the learning rounds it is w_T of Corollary 2.1.

        Formal guarantees:
            * The class's first guarantee covers it: it may be given away, as far as the rows are concerned. It protects
              no query.
        """
        return self._hypothesis.copy() if self._phase > 1 else self._learner.hypothesis()

    def facts(self) -> PublicFacts:
        """Return what is public."""
        rounds = self._plan.phases[self._phase - 1].rounds
        return PublicFacts(self._round, self._phase, self._phase_round, rounds, 0)

    def answer(self, features: NDArray[np.float64], present: NDArray[np.bool_]) -> Answers:
        """Answer a batch in arrival order (see `Predictor.answer`)."""
        count = len(features)
        if self._round + count > self._plan.rounds:
            msg = f"round {self._plan.rounds}: the plan's last phase ends here; make a new plan and state"
            raise PlanExhaustedError(msg)
        values = np.empty(count)
        phases = np.empty(count, dtype=np.int64)
        tag = np.zeros(2, dtype=np.uint64)
        events: list[LedgerEvent] = []
        first, start = self._round, 0
        while start < count:
            rounds = self._plan.phases[self._phase - 1].rounds
            rows = slice(start, min(count, start + self._plan.segment_rows, start + rounds - self._phase_round))
            phases[rows] = self._phase
            tag ^= self._segment(features[rows], present[rows], values[rows])
            start = rows.stop
            if self._phase_round == rounds:
                self._end_phase(events)
        labels = np.where(present, 0, NO_LABEL).astype(np.int8)
        return Answers(labels, first, phases, tag, events, values)

    def _segment(
        self, features: NDArray[np.float64], present: NDArray[np.bool_], values: NDArray[np.float64]
    ) -> NDArray[np.uint64]:
        """Answer rows that all belong to the current phase, into `values`; return their tag."""
        features = np.where(present[:, None], features, 0.0) + 0.0  # -0.0 becomes 0.0, before the hash
        rounds = np.arange(self._phase_round, self._phase_round + len(features), dtype=np.uint64)
        hashes = self._addresses.hashes(features, present)
        with np.errstate(over="ignore", invalid="ignore"):  # queries that are never asked may be as large as they like
            answers = self._learn(features, present, rounds, hashes) if self._phase == 1 else self._recall(features)
        finite = np.nan_to_num(answers, nan=0.0, posinf=_LARGEST, neginf=-_LARGEST) + 0.0
        values[:] = np.where(present, finite, np.nan)
        self._round += len(features)
        self._phase_round += len(features)
        return self._addresses.tag(rounds, hashes, present)

    def _learn(
        self,
        features: NDArray[np.float64],
        present: NDArray[np.bool_],
        rounds: NDArray[np.uint64],
        hashes: NDArray[np.uint64],
    ) -> NDArray[np.float64]:
        words = self._addresses.words(Purpose.BIT, rounds, _ONE, hashes)[0]

        def ask(rows: NDArray[np.intp], thresholds: NDArray[np.float64]) -> NDArray[np.bool_]:
            return self._oracle.ask(features[rows], thresholds, words[rows])

        return self._learner.learn(features, present & in_range(features), ask)

    def _recall(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        values = dots(features, self._hypothesis[None])[0]
        return clipped(features, values) if self._plan.profile == "efficient" else values

    def settle(self) -> None:
        """Do nothing: what a bit taught decides the next answer, so it is taken in at once."""

    def _end_phase(self, events: list[LedgerEvent]) -> None:
        """Erase w* and go on with w_T; or end."""
        events.append(PhaseEnded(round=self._round, phase=self._phase, rearms=0))
        if self._phase == len(self._plan.phases):
            events.append(PlanEnded(round=self._round))
            return
        self._hypothesis = self._learner.hypothesis()
        self._database.fill(0.0)
        self._phase_round = 0
        self._enter(self._key.ratchet(), self._phase + 1)
        events.append(phase_started(self._plan, self._phase))

    def export(self) -> StateArrays:
        """Return the whole state as arrays whose shapes depend on the plan and the phase only."""
        ledger = self.ledger
        arrays: dict[str, NDArray[np.generic]] = {
            "key": np.frombuffer(self._key.secret, dtype=np.uint8).copy(),
            "counters": np.array([self._round, self._phase, self._phase_round], dtype=np.int64),
            "bits": np.array([ledger.bits], dtype=np.int64),
            "cost": np.array([ledger.cost]),
        }
        if self._phase > 1:
            return {**arrays, "hypothesis": self._hypothesis.copy()}
        return {**arrays, "database": self._database.copy(), **self._learner.export()}

    @classmethod
    def restore(cls, plan: BisectionPlan, arrays: StateArrays) -> Self:
        """Take back what `export` returned, under the same plan.

        Raises:
            CorruptSnapshotError: It has not what its phase needs.
        """
        rounds, phase, phase_round = (int(value) for value in arrays["counters"])
        predictor = cls(plan, PhaseKey(arrays["key"].tobytes()), phase=phase)
        predictor._round, predictor._phase_round = rounds, phase_round
        held = "hypothesis" if phase > 1 else "database"
        if held not in arrays or arrays[held].shape != (len(plan.features),):
            msg = f"snapshot: it has no {held} of its plan"
            raise CorruptSnapshotError(msg)
        vector = np.array(arrays[held], dtype=np.float64)
        predictor._hypothesis = vector
        predictor.begin(vector if phase == 1 else np.zeros(len(vector)))
        predictor._open_oracle((int(arrays["bits"][0]), float(arrays["cost"][0])))
        if phase == 1:
            predictor._learner.restore(arrays)
        return predictor
