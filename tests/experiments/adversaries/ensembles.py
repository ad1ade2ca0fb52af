"""Who asks an ensemble for what costs it most: a tenth of the stream is theirs, as gamma = 0.9 allows.

What is promised to the others: noise changes at most alpha of their answers, if they are as contested as declared, and
no life is spent before its time. What their teachers learn is not promised, and is looked at all the same.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.planning.ensemble.model import EnsembleModel, EnsemblePlan
from oracle.planning.ensemble.tight import plan_ensemble
from oracle.planning.model import Feature
from oracle.predictors.ensemble.predictor import Ensemble
from oracle.predictors.ensemble.trainer import EnsembleTrainer
from oracle.predictors.phased import Segment

GAMMA: Final = 0.9
CONTESTED: Final = 0.02

_EDGE: Final = 0.7
_FLIPPED: Final = 0.05
_BATCH: Final = 1_024

Floats = NDArray[np.float64]
Votes = Callable[[Floats], NDArray[np.int64]]
"""Of rows: how many votes each is beyond the threshold: int64[n]."""

Attack = Callable[[int, np.random.Generator, Votes], Floats]
"""Of a number of queries, a generator and the votes: float64[n, 2]."""


def truth(rows: Floats) -> NDArray[np.int8]:
    """Return the true class of rows: 1 beyond an edge of the first feature."""
    return (rows[:, 0] > _EDGE).astype(np.int8)


def _contested(count: int, generator: np.random.Generator, votes: Votes) -> Floats:
    """Exhaust K: all where teachers disagree most, which it is told, so that each is paid for if it can be."""
    rows = np.column_stack([_EDGE + generator.normal(0.0, 0.05, 8 * count), generator.random(8 * count)])
    return rows[np.argsort(np.abs(votes(rows)), kind="stable")[:count]]


def _poison(count: int, generator: np.random.Generator, _votes: Votes) -> Floats:
    """Have rows of class 0 learned as class 1: just beyond the edge that teachers have, as far as they say 1."""
    return np.column_stack([generator.uniform(_EDGE - 0.03, _EDGE, count), generator.random(count)])


def _one_class(count: int, generator: np.random.Generator, _votes: Votes) -> Floats:
    """Flip a class: all of class 1, so that it is answered too often and its threshold rises."""
    return np.column_stack([generator.uniform(0.9, 1.0, count), generator.random(count)])


def _other_class(count: int, generator: np.random.Generator, _votes: Votes) -> Floats:
    """Flip the other one: the threshold falls."""
    return np.column_stack([generator.uniform(0.0, 0.2, count), generator.random(count)])


def _nothing(count: int, generator: np.random.Generator, _votes: Votes) -> Floats:
    """Ask as the honest do."""
    return generator.random((count, 2))


ATTACKS: Final[Mapping[str, Attack]] = {
    "none": _nothing,
    "contested queries": _contested,
    "poisoning queries": _poison,
    "only class 1": _one_class,
    "only class 0": _other_class,
}
"""By name."""


@cache
def planned(gamma: float = GAMMA) -> EnsemblePlan:
    """Return the plan an operator would make."""
    return plan_ensemble(
        EnsembleModel(
            name="attacked",
            predictor="ensemble",
            learner="sklearn.tree.DecisionTreeClassifier",
            parameters={"max_depth": 2},
            epsilon=8.0,
            delta=0.01,
            examples=1,
            gamma=gamma,
            alpha=0.05,
            teacher_rows=20,
            contested=CONTESTED,
            features=(Feature(name="a"), Feature(name="b")),
        )
    )


class Figures(NamedTuple):
    """What became of the honest queries of a phase.

    Attributes:
        changed: Share of their answers that noise changed.
        wrong: Share that is wrong.
        ones: Share that is of class 1.
        contested: Share whose votes lie within a twentieth of the teachers of the threshold.
        resting: Share of all rounds that were of a rest.
    """

    changed: float
    wrong: float
    ones: float
    contested: float
    resting: float


class _Watched(Ensemble):
    """An ensemble that tells what it would say without noise, to whoever may know the votes."""

    said: list[tuple[NDArray[np.int8], NDArray[np.bool_]]]

    def beyond(self, rows: Floats) -> NDArray[np.int64]:
        """Return how many votes the rows are beyond the threshold: int64[n]."""
        votes = self.teachers.votes(rows)[:, self._control.order[0]]
        return votes.astype(np.int64) - int(self._control.middles()[0])

    def _ask(self, segment: Segment, out: NDArray[np.int8]) -> int:
        order = self._control.order
        beyond = self.beyond(segment.features)
        stop = super()._ask(segment, out)
        near = np.abs(beyond[:stop]) <= self._plan.teachers / 20.0
        self.said.append((np.where(beyond[:stop] > 0, order[0], order[1]).astype(np.int8), near))
        return stop


def play(plan: EnsemblePlan, attack: Attack, seed: int, phases: int) -> list[Figures]:
    """Train on true rows, a twentieth mislabelled, and serve some phases; return what each was like."""
    generator = np.random.default_rng(seed)
    rows = generator.random((plan.declared, 2))
    labels = truth(rows) ^ (generator.random(len(rows)) < _FLIPPED)
    trainer = EnsembleTrainer(plan, bytes(range(31)) + bytes([seed]))
    trainer.add(rows, labels.astype(np.int8))
    served = trainer.finish()
    served.__class__ = _Watched
    assert isinstance(served, _Watched)
    return [_phase(served, plan.phases[number].rounds, plan.gamma, attack, generator) for number in range(phases)]


def _phase(served: _Watched, rounds: int, gamma: float, attack: Attack, generator: np.random.Generator) -> Figures:
    """Serve one phase."""
    served.said = []
    kinds, queries, labels, answered = [], [], [], []
    while rounds:
        count = min(_BATCH, rounds)
        theirs = generator.random(count) >= gamma
        batch = generator.random((count, 2))
        batch[theirs] = attack(int(np.count_nonzero(theirs)), generator, served.beyond)
        answers = served.answer(batch, np.ones(count, dtype=np.bool_))
        assert answers.verified is not None
        kinds.append(~theirs)
        queries.append(batch)
        labels.append(answers.labels)
        answered.append(answers.verified)
        rounds -= count
    there = np.concatenate(answered)
    quiet, near = (np.concatenate(part) for part in zip(*served.said, strict=True))
    honest, asked, given = np.concatenate(kinds)[there], np.concatenate(queries)[there], np.concatenate(labels)[there]
    return Figures(
        changed=float((quiet != given)[honest].mean()),
        wrong=float((truth(asked) != given)[honest].mean()),
        ones=float((given == 1)[honest].mean()),
        contested=float(near[honest].mean()),
        resting=float(1.0 - there.mean()),
    )
