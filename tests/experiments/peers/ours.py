"""Perpetua's own predictors on a table: planned, trained and asked as the daemon does it."""

import bisect
import hashlib
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracle.errors import PerpetuaError, PlanError
from oracle.evaluation.trial import Table
from oracle.evaluation.votes import votes_seen
from oracle.planning.ensemble.model import EnsembleModel
from oracle.planning.features import Feature
from oracle.planning.kinds import KINDS
from oracle.planning.model import Model
from oracle.planning.plan import Plan
from oracle.planning.planner import plan_sufficient, quick_examples
from oracle.predictors.base import NO_LABEL
from oracle.predictors.ensemble.predictor import Ensemble
from oracle.predictors.ensemble.teachers import fit_teachers
from oracle.predictors.kinds import new_trainer
from tests.experiments.peers.sets import Task

LEARNERS: Final[dict[str, dict[str, Any]]] = {
    "tree": {"learner": "sklearn.tree.DecisionTreeClassifier", "parameters": {"max_depth": 2}},
    "logistic": {
        "learner": "sklearn.linear_model.LogisticRegression",
        "preprocessing": [{"transformer": "sklearn.preprocessing.StandardScaler"}],
    },
}
"""Of the teachers: what an ensemble's model says of them."""

_FIRST: Final = 1.2
"""Rounds of an ensemble's first phase for each row, which share half of delta with the rows."""

_CONTESTED: Final = 0.03
"""The share that models of ensembles declare at least."""

_LOOKED_AT: Final = 20_000
"""Queries from which `contested` is measured, at most."""

_ALPHAS: Final = tuple(np.geomspace(0.005, 0.45, 40).round(4).tolist())
"""Errors that are tried; the largest one says how many rows a predictor wants that can promise nothing better."""


class Asked(NamedTuple):
    """What came of one predictor.

    Attributes:
        wrong: Part of the answers that is wrong; None where there is none.
        wanted: Rows that the planner asks for; 0 where no number is enough.
        answered: Queries that an ensemble answers; others come while a life of it rests.
        note: Why there is no answer.
        delta: Of a training row.
        votes: int32[m, 2], of an ensemble's first teachers for each query, where that was asked for.
    """

    wrong: float | None
    wanted: int
    answered: int = 0
    note: str = ""
    delta: float = 0.0
    votes: NDArray[np.int32] | None = None


def ensemble(task: Task, learner: str, epsilon: float, seed: int, *, votes: bool = False) -> Asked:
    """Ask an ensemble of teachers of 25 rows; tell what its first teachers vote, if `votes`."""
    settings: dict[str, Any] = {"features": task.features, "contested": _CONTESTED, **LEARNERS[learner]}
    model = _model(task, "ensemble", epsilon, **settings)
    assert isinstance(model, EnsembleModel)
    model = _declared(task, model)
    plan = _planned(model)
    if plan is None or plan.declared > len(task.rows):
        delta = model.delta / (2.0 * (1.0 + _FIRST) * len(task.rows))
        wanted = 0 if plan is None else plan.examples
        return Asked(None, wanted, delta=delta, votes=_votes(task, model, seed) if votes else None)
    trainer = new_trainer(plan, _secret(seed))
    trainer.add(task.rows, task.labels)
    predictor = trainer.finish()
    assert isinstance(predictor, Ensemble)
    told = predictor.teachers.votes(task.queries) if votes else None
    answers = predictor.answer(task.queries, np.ones(len(task.queries), dtype=np.bool_))
    there = answers.labels != NO_LABEL
    wrong = float(np.mean(answers.labels[there] != task.truth[there]))
    return Asked(wrong, plan.examples, int(there.sum()), delta=plan.phases[0].delta, votes=told)


def _planned(model: Model) -> Plan | None:
    """Return the plan, of more rows if need be; None where no number of them is enough."""
    try:
        return plan_sufficient(model)
    except PlanError:
        return None


def _declared(task: Task, model: EnsembleModel) -> EnsembleModel:
    """Return the model with the line that `evaluate` prints by the first queries, until it asks for no more."""
    train = Table(features=task.rows, labels=task.labels)
    test = Table(features=task.queries[:_LOOKED_AT], labels=task.truth[:_LOOKED_AT])
    while True:
        plan = _planned(model)
        enough = plan is not None and plan.declared <= len(task.rows)
        seen = votes_seen(model, plan if enough else None, train, test, _secret(0))
        assert seen is not None
        line = float(seen.declare.partition("= ")[2])
        if line <= model.contested:
            return model
        model = msgspec.structs.replace(model, contested=line)
        if not enough:
            return model


def _votes(task: Task, model: Model, seed: int) -> NDArray[np.int32]:
    """Return what teachers of the model would vote, whether or not noise could protect them."""
    assert isinstance(model, EnsembleModel)
    owners = np.random.default_rng(seed).integers(0, len(task.rows) // model.teacher_rows, len(task.rows))
    return fit_teachers(model, task.rows, task.labels, owners, seed).votes(task.queries)


def box(task: Task, epsilon: float, seed: int) -> Asked:
    """Ask an everlasting box with the sides that the owner would try."""
    return _best(task, _model(task, "rectangles", epsilon, features=_sided(task)), seed)


def stump(task: Task, epsilon: float, seed: int) -> Asked:
    """Ask an everlasting stump on any of the numbers."""
    return _best(task, _model(task, "stumps", epsilon, features=_numbers(task)), seed)


def classical(task: Task, epsilon: float, seed: int) -> Asked:
    """Ask the classical stump, which is released."""
    return _best(task, _model(task, "classical", epsilon, features=_numbers(task), concept="stump"), seed)


def _numbers(task: Task) -> tuple[Feature, ...]:
    return tuple(Feature(name=name) for name in task.ranges)


def _sided(task: Task) -> tuple[Feature, ...]:
    return tuple(msgspec.structs.replace(one, sides=task.sides.get(one.name, "none")) for one in _numbers(task))


def _model(task: Task, predictor: str, epsilon: float, **settings: Any) -> Model:
    common = {"name": "peers", "predictor": predictor, "epsilon": epsilon, "examples": len(task.rows)}
    kind: type[Model] = KINDS[predictor].model
    return msgspec.convert(msgspec.to_builtins(common | settings), kind)


def _best(task: Task, model: Model, seed: int) -> Asked:
    """Ask a predictor at about the least alpha that the rows buy."""
    place = bisect.bisect_left(_ALPHAS, 0, key=lambda alpha: _enough(msgspec.structs.replace(model, alpha=alpha)))
    alpha = _ALPHAS[min(place, len(_ALPHAS) - 1)]
    plan = plan_sufficient(msgspec.structs.replace(model, alpha=alpha))
    if plan.declared > len(task.rows):
        return Asked(None, plan.examples)
    try:
        return Asked(_wrong(task, plan, seed), plan.examples)
    except PerpetuaError as fault:
        return Asked(None, plan.examples, note=str(fault))


def _enough(model: Model) -> int:
    """Return 0 where the declared rows are enough, else -1."""
    try:
        return 0 if quick_examples(model) <= model.examples else -1
    except PlanError:
        return -1


def _wrong(task: Task, plan: Plan, seed: int) -> float:
    trainer = new_trainer(plan, _secret(seed))
    trainer.add(task.numbers(task.rows), task.labels == 1)
    queries = task.numbers(task.queries)
    answers = trainer.finish().answer(queries, np.ones(len(queries), dtype=np.bool_))
    return task.error(answers.labels)


def _secret(seed: int) -> bytes:
    return hashlib.sha256(f"peers {seed}".encode()).digest()
