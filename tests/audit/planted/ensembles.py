"""Ensembles, broken on purpose."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import msgspec
import numpy as np
import pytest

from oracle.accounting.events import NoiseDistanceEvent, NoisyCountEvent, PaidQuestionsEvent
from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.mechanisms.thresholds.stopper import Stopper
from oracle.planning.ensemble import guarantees, sizes, tight
from oracle.predictors.ensemble import control, predictor, trainer
from oracle.predictors.ensemble.pool import EMPTY, Pool
from oracle.predictors.ensemble.predictor import Ensemble
from oracle.predictors.ensemble.teachers import Teachers
from oracle.predictors.phased import Segment

__all__ = ["MUTANTS_OF_ENSEMBLES"]

Patch = pytest.MonkeyPatch


def _two_teachers(patch: Patch) -> None:
    """A row is in two teachers."""
    real = Pool.rows

    def rows(self: Pool, stop: int) -> Any:
        features, labels, owners = real(self, stop)
        return np.tile(features, (2, 1)), np.tile(labels, 2), np.append(owners, owners ^ 1)

    patch.setattr(Pool, "rows", rows)


def _true_votes(patch: Patch) -> None:
    """What is kept is what the votes say, not the label that was given."""
    asked = Ensemble._ask

    def ask(self: Ensemble, segment: Segment, out: Any) -> int:
        middles, order = self._control.middles(), self._control.order
        stop = asked(self, segment, out)
        beyond = self.teachers.votes(segment.features[:stop])[:, order[:-1]] > middles
        true = np.where(beyond.any(axis=1), order[beyond.argmax(axis=1)], order[-1])
        rows, kept, rounds = self._pending[-1]
        self._pending[-1] = rows, np.where(kept == EMPTY, kept, true).astype(np.int8), rounds
        return stop

    patch.setattr(Ensemble, "_ask", ask)


def _weighted(patch: Patch) -> None:
    """Votes have weights: every teacher's counts twice."""
    real = Teachers.votes
    patch.setattr(Teachers, "votes", lambda self, rows: 2 * real(self, rows))


def _one_class_counted(patch: Patch) -> None:
    """A query pays for one class only: what it pays for the next ones is not counted."""
    real = predictor.__dict__["ask"]

    def ask(*parts: Any, most: int) -> Any:
        return real(*parts, most=len(parts[3]) + most)

    patch.setattr(predictor, "ask", ask)


def _short_plan(patch: Patch) -> None:
    """K is the Stopper's cap, however many questions a query pays for, for planner and proof."""

    def questions(event: Any) -> Any:
        return replace(event, paid=max(event.paid // 2, 1)) if isinstance(event, PaidQuestionsEvent) else event

    membership = guarantees._membership

    def short(plan: Any, phase: Any) -> Any:
        found: Any = membership(plan, phase)
        if isinstance(found, PaidQuestionsEvent):
            return questions(found)
        return replace(found, events=tuple(map(questions, found.events)))

    patch.setattr(guarantees, "_membership", short)
    real = sizes.__dict__["largest_scale"]
    patch.setattr(
        sizes,
        "largest_scale",
        lambda law, gap, mediums, *rest, **more: real(law, gap, lambda e: max(mediums(e) // 2, 1), *rest, **more),
    )


def _louder_later(patch: Patch) -> None:
    """Votes of later lives have half the noise."""
    real = Ensemble._life_phase.fget  # type: ignore[attr-defined]  # a property

    def phase(self: Ensemble) -> Any:
        found = real(self)
        return msgspec.structs.replace(found, slope=2.0 * found.slope) if self._lives > 1 else found

    patch.setattr(Ensemble, "_life_phase", property(phase))


def _true_counts(patch: Patch) -> None:
    """Thresholds follow true counts of answers."""
    patch.setattr(control, "sample", lambda _law, _slope, words: np.zeros(len(words), dtype=np.int64))


def _paid_kept(patch: Patch) -> None:
    """Paid queries are kept as well."""
    asked = Ensemble._ask

    def ask(self: Ensemble, segment: Segment, out: Any) -> int:
        stop = asked(self, segment, out)
        rows, _, some = self._pending[-1]
        self._pending[-1] = rows, np.where(segment.present[:stop], out[:stop], np.int8(EMPTY)), some
        return stop

    patch.setattr(Ensemble, "_ask", ask)


def _slots_of_queries(patch: Patch) -> None:
    """Slots go to what is kept, so one query less moves all others up."""
    real = Pool.add

    def add(self: Pool, features: Any, labels: Any, owners: Any) -> None:
        there = labels != EMPTY
        real(self, features[there], labels[there], owners[there])

    patch.setattr(Pool, "add", add)


def _not_reset(patch: Patch) -> None:
    """A Stopper goes on counting where the life before it ended."""
    real = Ensemble._arm_stopper

    def arm(self: Ensemble) -> None:
        before = self._paid_queries
        real(self)
        self._paid_queries = before // 2

    patch.setattr(Ensemble, "_arm_stopper", arm)


def _never_halts(patch: Patch) -> None:
    """No life ends but with its phase."""
    patch.setattr(Ensemble, "_first_halt", lambda _self, _paid, rounds: len(rounds))


def _no_level(patch: Patch) -> None:
    """The Stopper's threshold has no noise."""
    patch.setattr(Stopper, "level", lambda self, _words: self.threshold)


def _dealt_by_row(patch: Patch) -> None:
    """Rows are dealt in turn among those that are there."""
    real = trainer.EnsembleTrainer._take

    def take(self: Any, features: Any, labels: Any) -> None:
        there = labels.astype(np.int8) >= 0
        real(self, features[there], labels[there])

    patch.setattr(trainer.EnsembleTrainer, "_take", take)


def _cap_passed(patch: Patch) -> None:
    """A Stopper that has counted to its cap goes on, if its noise says so."""
    real = Ensemble._life_phase.fget  # type: ignore[attr-defined]  # a property

    def phase(self: Ensemble) -> Any:
        found = real(self)
        stopper = msgspec.structs.replace(found.stopper, cap=1 << 40)
        return msgspec.structs.replace(found, stopper=stopper)

    patch.setattr(Ensemble, "_life_phase", property(phase))


def _forgotten(patch: Patch) -> None:
    """Paid queries are counted from nothing after a restart."""
    real = Ensemble._restore

    def restore(self: Ensemble, arrays: Any, counters: Any) -> None:
        real(self, arrays, counters)
        self._paid_queries = 0

    patch.setattr(Ensemble, "_restore", restore)


def _one_draw_for_classes(patch: Patch) -> None:
    """All classes of a query are asked about with one draw."""
    real = Addresses.words

    def words(self: Addresses, purpose: Purpose, rounds: Any, sides: Any, hashes: Any) -> Any:
        return real(self, purpose, rounds, sides * np.uint64(purpose is not Purpose.QUESTION), hashes)

    patch.setattr(Addresses, "words", words)


def _blocks_for_nothing(patch: Patch) -> None:
    """A query pays nothing for the counts of its block, for planner and proof."""
    free = NoisyCountEvent(1e-9), NoiseDistanceEvent(1, 1e-9)
    patch.setattr(guarantees, "_count", lambda _epsilon: free)
    real = tight._need
    patch.setattr(tight, "_need", lambda *parts: replace(real(*parts), rho=0.0))


MUTANTS_OF_ENSEMBLES: Final[dict[str, Callable[[Patch], None]]] = {
    "a row in two teachers": _two_teachers,
    "retrained on true votes": _true_votes,
    "votes with weights": _weighted,
    "more paid than P": _one_class_counted,
    "K of a plan short": _short_plan,
    "half the noise after a re-arm": _louder_later,
    "thresholds of true counts": _true_counts,
    "paid queries kept": _paid_kept,
    "slots of queries": _slots_of_queries,
    "a Stopper not reset": _not_reset,
    "a life without end": _never_halts,
    "a Stopper's level without noise": _no_level,
    "rows dealt by their presence": _dealt_by_row,
    "a cap that is passed": _cap_passed,
    "paid queries forgotten after a restart": _forgotten,
    "one draw for all classes": _one_draw_for_classes,
    "blocks for nothing": _blocks_for_nothing,
}
"""What breaks them, by name."""
