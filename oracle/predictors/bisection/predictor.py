"""OnlineBisection, served: T rounds that learn from noisy bits, then its last hypothesis, for ever and at no cost.

Source: Choromanski, Rostamizadeh and Syed (2015), Algorithms 1 and 2, Theorem 2.1, Corollary 2.1; the `efficient`
profile is that of PRIVACY.md, Theorem 12.
"""

from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from oracle.accounting.ledger import LedgerEvent
from oracle.errors import CorruptSnapshotError
from oracle.mechanisms.addresses import Purpose
from oracle.mechanisms.keys import PhaseKey
from oracle.mechanisms.noise.laws import named_law
from oracle.mechanisms.sums import dots
from oracle.mechanisms.thresholds.bits import BinaryThresholdOracle, BitLedger
from oracle.planning.bisection.model import BisectionPlan
from oracle.predictors.base import StateArrays
from oracle.predictors.bisection.learner import Learner, clipped, in_range
from oracle.predictors.bisection.window import new_learner
from oracle.predictors.phased import PhasedPredictor, Segment

__all__ = ["Bisection"]

_LARGEST: Final = float(np.finfo(np.float64).max)
_ONE: Final = np.zeros(1, dtype=np.uint64)


class Bisection(PhasedPredictor[BisectionPlan]):
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
    """

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

    def _answered(self, segment: Segment, events: list[LedgerEvent]) -> NDArray[np.float64]:  # noqa: ARG002 -- none happen
        with np.errstate(over="ignore", invalid="ignore"):  # queries that are never asked may be as large as they like
            answers = self._learn(segment) if self._phase == 1 else self._recall(segment.features)
        return np.nan_to_num(answers, nan=0.0, posinf=_LARGEST, neginf=-_LARGEST) + 0.0

    def _learn(self, segment: Segment) -> NDArray[np.float64]:
        features = segment.features
        words = self._addresses.words(Purpose.BIT, segment.rounds, _ONE, segment.hashes)[0]

        def ask(rows: NDArray[np.intp], thresholds: NDArray[np.float64]) -> NDArray[np.bool_]:
            return self._oracle.ask(features[rows], thresholds, words[rows])

        return self._learner.learn(features, segment.present & in_range(features), ask)

    def _recall(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        values = dots(features, self._hypothesis[None])[0]
        return clipped(features, values) if self._plan.profile == "efficient" else values

    def _begin_next(self) -> None:
        """Erase w* and go on with w_T."""
        self._hypothesis = self._learner.hypothesis()
        self._database.fill(0.0)
        super()._begin_next()

    def export(self) -> StateArrays:
        """Return the whole state as arrays whose shapes depend on the plan and the phase only."""
        ledger = self.ledger
        arrays = {
            **self._header(self._round, self._phase, self._phase_round),
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
            raise CorruptSnapshotError(f"snapshot: it has no {held} of its plan")
        vector = np.array(arrays[held], dtype=np.float64)
        predictor._hypothesis = vector
        predictor.begin(vector if phase == 1 else np.zeros(len(vector)))
        predictor._open_oracle((int(arrays["bits"][0]), float(arrays["cost"][0])))
        if phase == 1:
            predictor._learner.restore(arrays)
        return predictor
