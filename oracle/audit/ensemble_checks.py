"""Checks of what the proofs for ensembles assume (see `oracle.audit.structure`; PRIVACY.md, Theorem 29)."""

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from oracle.accounting.race import between_log_delta
from oracle.accounting.stopper import log_overflow
from oracle.audit.ensemble_runs import Run, play, random_rows, uneven_plan
from oracle.audit.randomness import Draws, Randomness
from oracle.audit.unique_noise import spread_bits
from oracle.planning.ensemble.model import EnsembleModel, EnsemblePlan
from oracle.planning.ensemble.tight import plan_ensemble
from oracle.planning.model import Feature
from oracle.planning.plan import Plan
from oracle.predictors.base import NO_LABEL
from oracle.predictors.ensemble.trainer import EnsembleTrainer

__all__ = ["differs", "one_draw", "one_teacher", "plainly", "proved"]

Seen = tuple[bool, str]

_CLASSES: Final = (2, 3, 5)
_RUNS: Final = 6


def _runs(randomness: Randomness, count: int) -> Iterator[Run]:
    """Play runs of two, three and five classes, with rests and without."""
    for number in range(count):
        plan = uneven_plan(Draws(randomness, _RUNS + number), _CLASSES[number % 3], resting=number % 2 == 1)
        yield play(plan, randomness, number)


def differs(run: Run) -> str | None:
    """Return what of a run is not what the re-implementation says, if anything."""
    if list(run.ledger) != run.plain.events:
        return "the ledger"
    for place, (body, given) in enumerate(zip(run.replies, run.given, strict=True)):
        reply = msgspec.json.decode(body)
        said = (reply.get("label"), reply.get("error"))
        if given is None:
            right = said[0] is None and said[1] not in {None, "resting"}
        elif given.resting:
            right = said == (None, None if reply["id"] is None else "resting")
        else:
            right = said == (None if given.label is None else run.plan.classes[given.label], None)
        if not right:
            return f"the reply to message {place}"
    return None if run.held else "what its teachers learn, or what is drawn,"


def plainly(_plan: Plan, randomness: Randomness) -> Seen:
    """Every answer, and every moment at which lives end, is what a plain re-implementation says.

    Else a row is in other teachers, is kept where it was paid for, is asked about with other noise, or is counted
    otherwise than the proof says. Runs go from messages to replies, over snapshots and restarts.
    """
    rounds = lives = rests = 0
    for number, run in enumerate(_runs(randomness, _RUNS)):
        place = differs(run)
        if place is not None:
            return False, f"run {number}: {place} is not what a plain re-implementation says"
        rounds += run.plain.round
        lives += run.plain.lives
        rests += sum(given is not None and given.resting for given in run.given)
    return rests > 0, f"{rounds} rounds of {lives} lives, {rests} of them in rests, are what a re-implementation says"


def one_draw(_plan: Plan, randomness: Randomness) -> Seen:
    """Every question, Stopper, threshold, coin and count has bits of its own, over all lives and phases.

    They are those that the re-implementation used, whose answers are the predictor's.
    """
    drawn: list[NDArray[np.uint64]] = []
    for run in _runs(randomness, 3):
        if differs(run) is not None:
            return False, "answers are not those of the re-implementation"
        drawn.append(np.array(run.plain.drawn, dtype=np.uint64))
    return spread_bits(drawn)


def one_teacher(_plan: Plan, randomness: Randomness) -> Seen:
    """One row more or less moves each count of votes by 1 at most, and so does one query in the life behind its own.

    And of what the teachers are fitted to it changes one slot at most: no row takes its place.
    """
    rows = queries = 0
    for number, classes in enumerate(_CLASSES):
        draws = Draws(randomness, number)
        plan = _long_blocks(uneven_plan(draws, classes, resting=False))
        table = random_rows(draws, plan.declared, classes)
        asked, _ = random_rows(draws, plan.phases[0].rounds, classes)
        secret = randomness.secret(number)
        first, later = (_fitted(plan, secret, table, asked, there) for there in (None, np.ones(len(asked), np.bool_)))
        for row in range(0, plan.declared, 7):
            labels = np.where(np.arange(plan.declared) == row, np.int8(NO_LABEL), table[1])
            moved = first.moved(_fitted(plan, secret, (table[0], labels), asked, None))
            if max(moved) > 1:
                return False, f"one row moves a count of votes by {moved[0]}, and changes {moved[1]} slots"
            rows += moved[0]
        for query in range(0, len(asked), 9):
            fewer = _fitted(plan, secret, table, asked, np.arange(len(asked)) != query)
            if not np.array_equal(np.delete(later.labels, query), np.delete(fewer.labels, query)):
                return False, "one query changes others' answers in its own life"
            moved = later.moved(fewer)
            if max(moved) > 1:
                return False, f"one query moves a count of later votes by {moved[0]}, and changes {moved[1]} slots"
            queries += moved[1]
    return rows > 0 and queries > 0, f"{rows} rows and {queries} queries moved votes by 1, and one slot each"


class _Fitted(NamedTuple):
    """What teachers say of some rows, what they are fitted to, and the labels that were given on the way."""

    votes: NDArray[np.int32]
    slots: NDArray[np.float64]
    labels: NDArray[np.int8]

    def moved(self, other: "_Fitted") -> tuple[int, int]:
        """Return by how much a count of votes differs at most, and how many slots do."""
        apart = (self.slots != other.slots).any(axis=1)
        return int(np.abs(self.votes - other.votes).max()), int(np.count_nonzero(apart))


def _long_blocks(plan: EnsemblePlan) -> EnsemblePlan:
    """Return a plan whose thresholds, and lives, stay within a phase: what one record changes there shows alone."""
    phases = tuple(
        msgspec.structs.replace(phase, stopper=msgspec.structs.replace(phase.stopper, threshold=1000, cap=1100))
        for phase in plan.phases
    )
    return msgspec.structs.replace(
        plan, phases=phases, control=msgspec.structs.replace(plan.control, block_rounds=plan.rounds)
    )


def _fitted(
    plan: EnsemblePlan,
    secret: bytes,
    table: tuple[NDArray[np.float64], NDArray[np.int8]],
    asked: NDArray[np.float64],
    there: NDArray[np.bool_] | None,
) -> _Fitted:
    """Return the teachers of the first life, or, behind a phase of queries, those of the second one."""
    trainer = EnsembleTrainer(plan, secret)
    trainer.add(*table)
    predictor = trainer.finish()
    labels = np.empty(0, dtype=np.int8) if there is None else predictor.answer(asked, there).labels
    state = predictor.export()
    slots = np.column_stack([state[f"life_{part}"] for part in ("features", "labels", "owners")])
    return _Fitted(predictor.teachers.votes(asked), slots.astype(np.float64), labels)


def proved(plan: Plan, _randomness: Randomness) -> Seen:
    """The deltas of both kinds of record are those of Theorem 29, worked out from the plan's figures alone.

    Of this plan, and of one with four classes that the planner makes.
    """
    if not isinstance(plan, EnsemblePlan):
        return False, "the plan is not one of an ensemble"
    worst = 0.0
    for one in (plan, _planned()):
        for number, phase in enumerate(one.phases):
            worst = max(worst, *(delta / phase.delta for delta in _deltas(one, number)))
        spent = math.fsum(phase.rounds * phase.delta for phase in one.phases) + one.declared * one.phases[0].delta
        worst = max(worst, spent / one.delta)
    return worst <= 1.0, f"the proof has {100.0 * worst:.1f} % of the deltas that plans claim, at most"


def _deltas(plan: EnsemblePlan, number: int) -> Iterator[float]:
    """Yield what a record of a phase needs: as a paid query, and as a member of a life that it can be in."""
    counts = plan.control.epsilon**2 / 2.0
    if number == 0 and plan.share_slope is not UNSET:
        counts = max(counts, plan.share_slope**2 / 2.0)
    for armed in plan.phases[max(number - 1, 0) : number + 1]:
        stopper = armed.stopper
        pure = stopper.epsilon + plan.control.epsilon <= plan.epsilon
        yield math.exp(log_overflow(stopper.epsilon, stopper.threshold, stopper.cap - 1)) if pure else math.inf
    for armed in plan.phases[number : number + 3]:
        most = min(2, len(plan.classes) - 1) * armed.stopper.cap
        yield math.exp(between_log_delta(armed.slope, armed.gap, most, plan.epsilon, rho=counts))


def _planned() -> EnsemblePlan:
    """Return a plan of four classes, and few rows."""
    model = EnsembleModel(
        name="audited",
        predictor="ensemble",
        learner="sklearn.tree.DecisionTreeClassifier",
        epsilon=8.0,
        delta=0.01,
        examples=1,
        alpha=0.3,
        teacher_rows=1,
        features=(Feature(name="a"),),
        classes=("a", "b", "c", "d"),
    )
    return plan_ensemble(model)
