"""An everlasting predictor of any learner: Stemmer (2024), Observation 3.4; Naor and others (2023).

Teachers vote in *lives*. A life begins when teachers are fitted, and ends when its Stopper has counted enough paid
queries, or with a phase; the next one's teachers are fitted to the queries that it answered free, with the labels that
these were given.
"""

from dataclasses import replace
from typing import Final, Self

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from oracle.accounting.ledger import LedgerEvent, SharesReleased, SideRearmed
from oracle.errors import CorruptSnapshotError
from oracle.mechanisms.addresses import Purpose
from oracle.mechanisms.keys import PhaseKey
from oracle.mechanisms.thresholds.stopper import Stopper
from oracle.planning.ensemble.model import EnsemblePhase, EnsemblePlan
from oracle.predictors.base import NO_LABEL, Answers, PublicFacts, StateArrays
from oracle.predictors.ensemble.control import Control
from oracle.predictors.ensemble.dealing import chosen, owners_of, shares_of
from oracle.predictors.ensemble.fitting import Fitting, check_same, made_with
from oracle.predictors.ensemble.pool import EMPTY, Pool
from oracle.predictors.ensemble.teachers import Teachers
from oracle.predictors.ensemble.voting import ask
from oracle.predictors.phased import PhasedPredictor, Segment

__all__ = ["Ensemble"]

_ONE: Final = np.zeros(1, dtype=np.uint64)
_NEVER: Final = -1


class Ensemble(PhasedPredictor[EnsemblePlan]):
    """One shard's ensemble (see `oracle.predictors.base.Predictor` for the contract).

    Formal guarantees:
        * (epsilon, delta_p) for every record of phase p: PRIVACY.md, Theorem 29.
        * A query is paid for, or is in the teachers of one life; never both.
        * Teachers are a function of the slots of their pool, so a query more or less changes one of them.

    Args:
        plan: The plan.
        key: The phase's key.
        phase: The phase.
        counts: int64[C], noisy rows of each class; empty where the plan declares shares.
    """

    def __init__(self, plan: EnsemblePlan, key: PhaseKey, *, phase: int, counts: NDArray[np.int64]) -> None:
        self._counts = counts
        self._control = Control(plan, shares_of(plan, counts), plan.phases[phase - 1].slope)
        self._classes = np.arange(len(plan.classes), dtype=np.uint64)
        self._pending: list[tuple[NDArray[np.float64], NDArray[np.int8], NDArray[np.uint64]]] = []
        self._answered_rows: list[NDArray[np.bool_]] = []
        self._lives = self._begun = self._paid_queries = self._level = self._armed = 0
        self._closed, self._resting, self._armed_in = _NEVER, False, phase
        self._rested = 0
        self._made_with = made_with(plan)
        super().__init__(plan, key, phase=phase)

    def begin(self, pool: Pool) -> None:
        """Take the training rows, and fit the first teachers to them."""
        self._life = pool
        self._next_life = Pool(self._capacity, self._plan.width)
        self._fitting = Fitting(self._plan, pool.rows(pool.slots), self._lives)
        self._arm_stopper()
        self.teachers.votes(np.zeros((1, self._plan.width)))  # whatever is wrong with the learner is said here

    @property
    def teachers(self) -> Teachers:
        """The teachers of the life that goes on."""
        return self._fitting.teachers()

    @property
    def thresholds(self) -> NDArray[np.float64]:
        """Votes beyond which classes are answered, but for the default, as shares of the teachers: float64[C - 1]."""
        return self._control.thresholds

    def facts(self) -> PublicFacts:
        """Return what is public; rests are, as all that follows from when Stoppers halt."""
        left = max(self._rest_left, 0) if self._resting else 0
        return replace(super().facts(), rested=self._rested, rest_left=left)

    @property
    def lives(self) -> int:
        """Lives that began."""
        return self._lives

    @property
    def _current(self) -> EnsemblePhase:
        return self._plan.phases[self._phase - 1]

    @property
    def _capacity(self) -> int:
        """Slots of a pool."""
        return self._current.slots

    @property
    def _life_phase(self) -> EnsemblePhase:
        """The phase that the life was armed in: all it lives by."""
        return self._plan.phases[self._armed_in - 1]

    @property
    def _stopper(self) -> Stopper:
        return Stopper(self._life_phase.stopper.epsilon, self._life_phase.stopper.threshold)

    def _arm_stopper(self) -> None:
        self._armed_in = self._phase
        self._control.arm(self._life_phase.slope)
        self._draw_level(_ONE)
        self._begun, self._armed = self._round, self._phase_round
        self._paid_queries, self._resting = 0, False
        self._lives += 1

    def _draw_level(self, side: NDArray[np.uint64]) -> None:
        """Draw the Stopper's noise, rho; a fork's has an address of its own, as it may arm at the same round."""
        words = self._addresses.words(Purpose.THRESHOLD, np.array([self._phase_round], dtype=np.uint64), side, None)
        self._level = self._stopper.level(words[0, 0])

    def answer(self, features: NDArray[np.float64], present: NDArray[np.bool_]) -> Answers:
        """Answer a batch in arrival order (see `Predictor.answer`); those of a rest are not verified, and no label."""
        self._answered_rows = [np.empty(0, dtype=np.bool_)]
        self._made_tag = np.zeros(2, dtype=np.uint64)
        first = self._round == 0 and len(features) > 0 and len(self._counts) > 0
        answers = super().answer(features, present)
        verified = np.concatenate(self._answered_rows)
        told: list[LedgerEvent] = []
        if first:
            told.append(SharesReleased(round=0, counts=tuple(self._counts.tolist())))
        labels = np.where(verified, answers.labels, np.int8(NO_LABEL))
        tag = answers.tag ^ self._made_tag
        return replace(answers, labels=labels, tag=tag, verified=verified, events=[*told, *answers.events])

    def _answered(self, segment: Segment, events: list[LedgerEvent]) -> NDArray[np.int8]:
        labels = np.zeros(len(segment), dtype=np.int8)
        answered = np.ones(len(segment), dtype=np.bool_)
        before = self._round, self._phase_round
        start = 0
        while start < len(segment):
            if self._resting and self._rest_left <= 0:
                self._rearm(events)
            rows = slice(start, start + min(len(segment) - start, self._until_boundary()))
            if self._resting:
                answered[rows] = False
                taken = rows.stop - start
                self._control.rounds += taken
                self._rested += taken
            else:
                taken = self._ask(segment.part(rows), labels[rows])
            start += taken
            self._round, self._phase_round = before[0] + start, before[1] + start
            if start < rows.stop:
                self._halt(events)
            self._pass_boundaries()
        self._answered_rows.append(answered)
        self._round, self._phase_round = before  # the caller counts them
        return labels

    def _until_boundary(self) -> int:
        """Return how many rounds there are until something public happens: at least 1."""
        ends = [self._control.left, self._phase_plan.rounds - self._phase_round]
        if self._resting:
            ends.append(self._rest_left)
        if self._closed == _NEVER:
            ends.append(self._lag_left)
        return min(end for end in ends if end > 0)

    @property
    def _lag_left(self) -> int:
        return self._current.rounds - self._current.lag - self._phase_round

    @property
    def _rest_left(self) -> int:
        return self._begun + self._life_phase.least_rounds - self._round

    def _ask(self, segment: Segment, out: NDArray[np.int8]) -> int:
        """Answer rows of one life into `out`, up to the one before which its Stopper halts; return how many."""
        present, rounds = segment.present, segment.rounds
        votes = self.teachers.votes(segment.features).astype(np.int64).T
        words = self._addresses.words(Purpose.QUESTION, rounds, self._classes[:-1], segment.hashes)
        order = self._control.order
        voted = ask(
            self._life_phase, votes[order[:-1]], self._control.middles(), order, words, most=self._plan.questions
        )
        paid = present & (voted.paid > 0)
        stop = self._first_halt(paid, rounds)
        rows = slice(0, stop)
        out[rows] = voted.labels[rows]
        self._paid_queries += int(np.count_nonzero(paid[rows]))
        self._control.count(voted.labels[rows][present[rows]], stop)
        kept = np.where(present & ~paid, voted.labels, np.int8(EMPTY))
        self._pending.append((segment.features[rows], kept[rows], rounds[rows]))
        return stop

    def _first_halt(self, paid: NDArray[np.bool_], rounds: NDArray[np.uint64]) -> int:
        """Return the row before whose query the Stopper halts, or how many there are."""
        counts = self._paid_queries + np.cumsum(paid) - paid
        words = self._addresses.words(Purpose.STOPPER, rounds, _ONE, None)[0]
        halts = self._stopper.halts(counts, self._level, words) & (rounds.astype(np.int64) != self._armed)
        halts |= counts >= self._life_phase.stopper.cap
        return int(halts.argmax()) if halts.any() else len(rounds)

    def _halt(self, events: list[LedgerEvent]) -> None:
        """End a life whose Stopper has halted: arm anew, or rest where that would be too soon."""
        if self._rest_left > 0:
            self._resting = True
        else:
            self._rearm(events)

    def _pass_boundaries(self) -> None:
        """Do what is due before the next round; what is due at a phase's end is done by `_end_phase`."""
        if self._phase_round == self._phase_plan.rounds:
            return
        if self._control.left == 0:
            self._end_block()
        if self._lag_left == 0 and self._rest_left <= 0:
            self._close_slots()

    def _end_block(self) -> None:
        at = np.array([self._phase_round], dtype=np.uint64)
        words = self._addresses.words(Purpose.CHOICE, at, self._classes, None)
        self._control.close(words[:, 0])

    def _close_slots(self) -> None:
        """Have the next life's teachers fitted to what is kept so far; what comes is for the life behind it."""
        self.settle()
        self._closed = self._next_life.slots
        self._start_fitting()

    def _start_fitting(self) -> None:
        self._following = Fitting(self._plan, self._next_life.rows(self._closed), self._lives)

    def _rearm(self, events: list[LedgerEvent]) -> None:
        """Begin another life within the phase: of the slots that are closed, else of all."""
        if self._closed == _NEVER:
            self._close_slots()
        self.settle()
        self._succeed()
        self._rearms += 1
        self._phase_rearms += 1
        events.append(SideRearmed(round=self._round, phase=self._phase, side=0))

    def _succeed(self) -> None:
        """Put the life in place whose teachers are fitted to the closed slots."""
        self._life = self._next_life  # the one before makes room
        late = self._life.late(self._closed)
        self._next_life = self._life = self._life.cut(self._closed, self._life_capacity)
        self._next_life = Pool(self._capacity, self._plan.width)
        self._next_life.add(*late)
        self._fitting, self._closed = self._following, _NEVER
        self._arm_stopper()
        # A re-execution in which other teachers come out is none (ARCHITECTURE.md, "Keys and noise").
        self._made_tag ^= self._addresses.made_tag(self._phase_round, self.teachers.digest)

    @property
    def _life_capacity(self) -> int:
        """Slots of the life, which may have been armed in the phase before."""
        if self._phase == 1:
            return max(self._plan.declared, self._capacity)
        return max(self._plan.phases[self._phase - 2].slots, self._capacity)

    def _settle(self) -> None:
        """Put every free query where it belongs: in a slot, if its round is chosen."""
        for features, labels, rounds in self._pending:
            taken = chosen(self._addresses, rounds, self._current.keep)
            owners = owners_of(self._addresses, rounds[taken], self._plan.teachers)
            self._next_life.add(features[taken], labels[taken], owners)
        self._pending.clear()

    def _begin_next(self) -> None:
        """Enter the next phase; with new teachers, unless the life has only just begun."""
        if self._control.rounds:
            self._end_block()
        following = self._closed != _NEVER
        super()._begin_next()
        if following:
            self._succeed()
        else:
            self._armed = _NEVER
            self._life = self._life.resized(self._life_capacity)
            self._next_life = self._next_life.resized(self._capacity)

    def export(self) -> StateArrays:
        """Return the whole state as arrays whose shapes depend on the plan and the phase only."""
        self.settle()
        counters = (self._round, self._phase, self._phase_round, self._rearms, self._phase_rearms, self._lives)
        life = (self._begun, self._armed, self._closed, int(self._resting), self._paid_queries, self._level)
        slots = (self._life.slots, self._next_life.slots, self._control.rounds)
        return {
            **self._header(*counters, *life, *slots, self._armed_in, self._rested),
            "level_key": self._level_key(),
            "counts": self._counts.copy(),
            "thresholds": self._control.thresholds.copy(),
            "answers": self._control.counts.copy(),
            "teachers": np.frombuffer(self.teachers.digest, dtype=np.uint8).copy(),
            "libraries": self._made_with.copy(),
            **self._life.export("life"),
            **self._next_life.export("next"),
        }

    @classmethod
    def restore(cls, plan: EnsemblePlan, arrays: StateArrays) -> Self:
        """Take back what `export` returned, under the same plan; the teachers are fitted again.

        Raises:
            CorruptSnapshotError: It is not of the plan's sizes.
            StateError: They come out otherwise.
        """
        counters = arrays["counters"].tolist()
        if len(arrays["counts"]) != (0 if plan.share_slope is UNSET else len(plan.classes)):
            raise CorruptSnapshotError("snapshot: it has other classes than its plan")
        counts = np.array(arrays["counts"], dtype=np.int64)
        predictor = cls(plan, PhaseKey(arrays["key"].tobytes()), phase=counters[1], counts=counts)
        predictor._restore(arrays, counters)
        check_same(plan, predictor.teachers, arrays)
        return predictor

    def _level_key(self) -> NDArray[np.uint8]:
        """Return what tells whether a state's key was exchanged, by a fork: rho must be its own."""
        return np.frombuffer(self._key.subkey(b"level"), dtype=np.uint8).copy()

    def _restore(self, arrays: StateArrays, counters: list[int]) -> None:
        self._round, _, self._phase_round, self._rearms, self._phase_rearms, self._lives = counters[:6]
        self._begun, self._armed, self._closed, resting, self._paid_queries, self._level = counters[6:12]
        self._resting = bool(resting)
        self._life = Pool(self._life_capacity, self._plan.width)
        self._life.restore("life", arrays, counters[12])
        self._next_life = Pool(self._capacity, self._plan.width)
        self._next_life.restore("next", arrays, counters[13])
        control = self._control
        if arrays["thresholds"].shape != control.thresholds.shape or arrays["answers"].shape != control.counts.shape:
            raise CorruptSnapshotError("snapshot: it has other classes than its plan")
        control.thresholds = np.array(arrays["thresholds"], dtype=np.float64)
        control.counts = np.array(arrays["answers"], dtype=np.int64)
        control.rounds, self._armed_in = counters[14:16]
        self._rested = sum(counters[16:])  # states of version 2 do not count them
        control.bear(self._life_phase.slope)
        if arrays["level_key"].tobytes() != self._level_key().tobytes():
            self._draw_level(np.ones(1, dtype=np.uint64))
        self._fitting = Fitting(self._plan, self._life.rows(self._life.slots), self._lives - 1)
        if self._closed != _NEVER:
            self._start_fitting()
