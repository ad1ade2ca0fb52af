"""An ensemble that serves some phases, each as long as its plan has it or cut short, and what it answered."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from oracle.planning.ensemble.guarantees import table_delta
from oracle.planning.ensemble.memory import phase_bytes
from oracle.planning.ensemble.model import EnsembleModel, EnsemblePhase, EnsemblePlan, Parameter
from oracle.planning.ensemble.tight import plan_ensemble
from oracle.planning.ensemble.verification import verify_ensemble
from oracle.predictors.ensemble.trainer import EnsembleTrainer
from tests.experiments.ensemble.tasks import Task

_BATCH: Final = 16_384
"""Queries that are answered together."""


_LAG: Final = 20
"""Part of a phase that its lag may be."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a model declares beside its features and classes."""

    examples: int
    epsilon: float = 4.0
    delta: float = 1e-3
    contested: float = 0.03
    teacher_rows: int = 25
    learner: str = "sklearn.tree.DecisionTreeClassifier"
    parameters: dict[str, Parameter] = field(default_factory=lambda: {"max_depth": 2})


def planned(task: Task, setting: Setting) -> EnsemblePlan:
    """Return the plan of a model file that says so."""
    model = EnsembleModel(
        name="drift",
        predictor="ensemble",
        features=task.features,
        classes=task.classes,
        examples=setting.examples,
        epsilon=setting.epsilon,
        delta=setting.delta,
        contested=setting.contested,
        teacher_rows=setting.teacher_rows,
        learner=setting.learner,
        parameters=setting.parameters,
    )
    return plan_ensemble(model)


def cut(plan: EnsemblePlan, rounds: int) -> EnsemblePlan:
    """Return a plan none of whose phases is longer: it spends less of delta, and the verifier takes it."""
    short = tuple(_shorter(phase, min(phase.rounds, rounds)) for phase in plan.phases)
    plan = structs.replace(plan, phases=short)
    for index, phase in enumerate(short):
        made = structs.replace(phase, delta_noise=table_delta(plan, index), memory_bytes=phase_bytes(plan, index))
        short = (*short[:index], made, *short[index + 1 :])
    plan = structs.replace(plan, phases=short, memory_bytes=max(phase.memory_bytes for phase in short))
    verify_ensemble(plan)
    return plan


def _shorter(phase: EnsemblePhase, rounds: int) -> EnsemblePhase:
    """Return a phase of fewer rounds, whose lag is no larger part of them."""
    return structs.replace(phase, rounds=rounds, lag=max(min(phase.lag, rounds // _LAG), 1))


@dataclass(frozen=True)
class Phases:
    """What was answered, phase by phase.

    Attributes:
        said: int64[phases, C, C], queries by what is true of them and what they were answered.
        resting: int64[phases], queries that were not answered.
        lives: int64[phases], lives that began.
        thresholds: float64[phases, C - 1], at the end, as shares of the teachers.
    """

    said: NDArray[np.int64]
    resting: NDArray[np.int64]
    lives: NDArray[np.int64]
    thresholds: NDArray[np.float64]

    @property
    def wrong(self) -> NDArray[np.float64]:
        """Share of the answers that are wrong: float64[phases]."""
        right: NDArray[np.float64] = np.trace(self.said, axis1=1, axis2=2) / self.said.sum(axis=(1, 2))
        return 1.0 - right

    @property
    def shares(self) -> NDArray[np.float64]:
        """Share of each class among the answers: float64[phases, C]."""
        shares: NDArray[np.float64] = self.said.sum(axis=1) / self.said.sum(axis=(1, 2))[:, None]
        return shares

    @property
    def true(self) -> NDArray[np.float64]:
        """Share of each class among the queries that were answered: float64[phases, C]."""
        shares: NDArray[np.float64] = self.said.sum(axis=2) / self.said.sum(axis=(1, 2))[:, None]
        return shares


def play(plan: EnsemblePlan, task: Task, phases: int, seed: int, tell: Callable[[int], object] = bool) -> Phases:
    """Train on a task's first rows, and ask its queries, drawn again and again, for some phases.

    Args:
        plan: The plan.
        task: Its declared rows are there.
        phases: How many.
        seed: Of the key, and of what is asked.
        tell: Called with the number of rounds after each batch.
    """
    random = np.random.default_rng(seed)
    trainer = EnsembleTrainer(plan, random.bytes(32))
    trainer.add(task.rows[: plan.declared], task.labels[: plan.declared])
    predictor = trainer.finish()
    classes = len(plan.classes)
    said = np.zeros((phases, classes, classes + 1), dtype=np.int64)
    lives, thresholds = np.zeros(phases, dtype=np.int64), np.zeros((phases, classes - 1))
    done, before = 0, 0
    for number, phase in enumerate(plan.phases[:phases]):
        left = phase.rounds
        while left:
            asked = random.integers(0, len(task.queries), min(left, _BATCH))
            labels = predictor.answer(task.queries[asked], np.ones(len(asked), dtype=np.bool_)).labels
            predictor.settle()
            np.add.at(said[number], (task.truth[asked], labels), 1)  # those that rest are in the last column
            left, done = left - len(asked), done + len(asked)
            tell(done)
        thresholds[number] = predictor.thresholds
        lives[number], before = predictor.lives - before, predictor.lives
    return Phases(said[..., :-1], said[..., -1].sum(axis=1), lives, thresholds)
