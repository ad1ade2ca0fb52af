"""What others make of the same rows: of no privacy but where it says so, and only for the owner to compare with."""

import importlib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from oracle.evaluation.trial import Rows, Table, run_trial
from oracle.evaluation.votes import VotesSeen
from oracle.planning.ensemble.model import EnsembleModel
from oracle.planning.features import columns_of
from oracle.planning.model import Model
from oracle.planning.planner import as_classical, plan_sufficient

__all__ = ["Baseline", "baselines", "best_box", "best_stump", "error_beyond"]

_MOST_TURNS: Final = 20
"""Times that all sides of the best box are moved; it settles after three or four."""

_TRIMS: Final = (0.0, 0.01, 0.05, 0.15, 0.3)
"""Parts of the rows labelled 1 that boxes to begin with leave out on each side."""

_BEYOND: Final = ("best stump", "teachers' votes")
"""Baselines whose error a promise may come on top of."""

_INSTALL: Final = "needs scikit-learn: pip install 'perpetua[evaluate]'"
_RANGE: Final = " for the rows, but scaled by their true range, which is not private"


@dataclass(frozen=True, slots=True)
class Baseline:
    """One learner's error on the test rows.

    Attributes:
        name: Of the learner.
        error: Part of the test rows that it gets wrong; None where it could not be tried.
        note: Why not, or what there is to know.
        fit: Part of the training rows that it gets wrong, where that says something.
    """

    name: str
    error: float | None
    note: str = ""
    fit: float | None = None


def error_beyond(others: Sequence[Baseline]) -> float:
    """Return the error that a promise comes on top of, if it does; 0 where it was not found."""
    return next((other.error or 0.0 for other in others if other.name in _BEYOND), 0.0)


def baselines(  # noqa: PLR0913, PLR0917 -- all that they take
    model: Model,
    train: Table,
    test: Table,
    secret: bytes,
    names: Sequence[str | int] = (0, 1),
    votes: VotesSeen | None = None,
) -> Iterator[Baseline]:
    """Yield the error of each learner, trained on the training rows.

    Args:
        model: Its features and sides say what a box may look like; the private ones get its epsilon.
        train: The training rows.
        test: The test rows.
        secret: 32 bytes that the private ones' noise follows from.
        names: What labels are called, by their numbers.
        votes: Of an ensemble, what its teachers say of the test rows.
    """
    counts = np.bincount(train.labels, minlength=len(names))
    most = len(names) - 1 - int(counts[::-1].argmax())  # of labels as frequent the last
    yield Baseline(f"always {names[most]}", float((test.labels != most).mean()), "majority: the most frequent label")
    if isinstance(model, EnsembleModel):
        if votes is not None:
            yield Baseline(_BEYOND[1], votes.error, f"{votes.teachers:,} teachers, no noise; not private")
            yield Baseline(f"{model.learner.rpartition('.')[2]} alone", votes.alone, "on all rows; not private")
        yield Baseline("other learners", None, "are not tried for an ensemble, whose values may be missing")
        return
    starts = columns_of(model.features)
    numbers = [index for index, feature in enumerate(model.features) if feature.kind != "string"]
    if len(numbers) < len(model.features):
        yield Baseline("best stump, best box", None, "are not looked for where a feature is a string")
    else:
        ways = [feature.sides for feature in model.features]
        yield _rule("best stump", best_stump(train, ways), train, test, "of these features and sides; not private")
        yield _rule("best box", best_box(train, ways), train, test, "found by moving one side at a time; not private")
    yield _classical(model, train, test, secret)
    columns = [starts[index] for index in numbers]
    if not columns:
        yield Baseline("scikit-learn, diffprivlib", None, "are not tried where all features are strings")
        return
    train, test = (Table(np.ascontiguousarray(table.features[:, columns]), table.labels) for table in (train, test))
    more = "" if len(numbers) == len(model.features) else "; without the features that are strings"
    for name, make in _SCIKIT.items():
        yield _scikit(name, make, train, test, f"not private{more}")
    for name, peer in _DIFFPRIVLIB.items():
        made = partial(peer, model.epsilon, len(columns), secret)
        yield _scikit(f"{name} of diffprivlib", made, train, test, f"epsilon {model.epsilon:g}{_RANGE}{more}")


_Flags = NDArray[np.bool_]
Rule = Callable[[Rows], _Flags]
_Edges = dict[tuple[int, float], float]


def _rule(name: str, rule: Rule, train: Table, test: Table, note: str) -> Baseline:
    error, fit = (float((rule(table.features) != table.labels).mean()) for table in (test, train))
    return Baseline(name, error, note, fit)


def best_stump(train: Table, sides: Sequence[str]) -> Rule:
    """Return the stump that gets the fewest training rows wrong.

    Args:
        train: The rows.
        sides: Of each feature: "lower" says 1 at and above an edge, "upper" at and below, "both" either, "none" none.
    """
    side = _best_side(train, sides)
    if side is None:
        return lambda rows: np.zeros(len(rows), dtype=np.bool_)
    column, sign, edge = side
    return lambda rows: sign * rows[:, column] >= edge


def _best_side(train: Table, sides: Sequence[str]) -> tuple[int, float, float] | None:
    """Return the best stump's column, sign and edge."""
    found: tuple[int, int, float, float] | None = None
    everywhere, labels = np.ones(len(train.labels), dtype=np.bool_), train.labels.astype(np.bool_)
    for column, ways in enumerate(sides):
        ascending = train.features[:, column].argsort(kind="stable")
        for sign in _signs(ways):
            order = ascending if sign > 0.0 else ascending[::-1]
            edge, wrong = _best_edge(sign * train.features[:, column], order, labels, everywhere)
            if found is None or wrong < found[0]:
                found = wrong, column, sign, edge
    return None if found is None else found[1:]


def best_box(train: Table, sides: Sequence[str]) -> Rule:
    """Return a box that gets few training rows wrong: each side in turn is put where it errs least, until none moves.

    It begins with all there is, with the best stump, so that it is never worse than that, with the rows labelled 1, and
    with these but for the outermost ones; the best counts.

    Args:
        train: The rows.
        sides: Of each feature, those that the box may have.
    """
    ways = [(column, sign) for column, way in enumerate(sides) for sign in _signs(way)]
    inside = train.features[train.labels]
    found: list[_Edges] = [dict.fromkeys(ways, -np.inf)]
    side = _best_side(train, sides)
    if side is not None:
        column, sign, edge = side
        found.append({**found[0], (column, sign): edge})
    if len(inside):
        found += [
            {(column, sign): float(np.quantile(sign * inside[:, column], trim)) for column, sign in ways}
            for trim in _TRIMS
        ]
    orders = {column: train.features[:, column].argsort(kind="stable") for column, _ in ways}
    moved = [_moved(train, orders, edges) for edges in found]
    best = min(moved, key=lambda edges: int((_inside(train.features, edges) != train.labels).sum()))
    return lambda rows: _inside(rows, best)


def _moved(train: Table, orders: dict[int, NDArray[np.intp]], edges: _Edges) -> _Edges:
    outside = np.zeros(len(train.labels), dtype=np.int16)  # of so many sides is each row
    labels = train.labels.astype(np.bool_)
    for (column, sign), edge in edges.items():
        outside += sign * train.features[:, column] < edge
    for _ in range(_MOST_TURNS):
        before = dict(edges)
        for (column, sign), edge in before.items():
            keys = sign * train.features[:, column]
            mine = keys < edge
            order = orders[column] if sign > 0.0 else orders[column][::-1]
            edges[column, sign], _wrong = _best_edge(keys, order, labels, outside == mine)
            outside += (keys < edges[column, sign]).astype(np.int16) - mine
        if edges == before:
            break
    return edges


def _signs(ways: str) -> tuple[float, ...]:
    return {"lower": (1.0,), "upper": (-1.0,), "both": (1.0, -1.0), "none": ()}[ways]


def _inside(rows: Rows, edges: _Edges) -> _Flags:
    inside = np.ones(len(rows), dtype=np.bool_)
    for (column, sign), edge in edges.items():
        inside &= sign * rows[:, column] >= edge
    return inside


def _best_edge(keys: Rows, order: NDArray[np.intp], labels: _Flags, allowed: _Flags) -> tuple[float, int]:
    """Return the edge at and above which to say 1, of rows that are allowed it, and how many rows are wrong then.

    Args:
        keys: float64[n].
        order: intp[n], the rows by their keys.
        labels: bool[n].
        allowed: bool[n].
    """
    order = order[allowed[order]]
    ascending, positive = keys[order], labels[order]
    gains = np.concatenate([[0], np.cumsum(np.where(positive, 1, -1))])  # wrong rows more than with all of them in
    first = np.concatenate([[True], ascending[1:] != ascending[:-1], [True]]) if len(order) else np.array([True])
    candidates = np.flatnonzero(first)
    best = int(candidates[gains[candidates].argmin()])
    edge = (
        np.inf if best == len(order) else -np.inf if best == 0 else float((ascending[best - 1] + ascending[best]) / 2)
    )
    wrong = int(labels[~allowed].sum()) + int((~positive).sum()) + int(gains[best])
    return edge, wrong


def _classical(model: Model, train: Table, test: Table, secret: bytes) -> Baseline:
    name = "classical, same epsilon"
    other = as_classical(model)
    if model.predictor == "classical" or other is None:
        return Baseline(name, None, "is this model" if model.predictor == "classical" else "there is none of strings")
    plan = plan_sufficient(other)
    if plan.declared > len(train.labels):
        return Baseline(name, None, f"wants {plan.declared:,} rows")
    trial = run_trial(plan, secret, (train, test), np.arange(len(test.labels)))
    return Baseline(name, trial.whole.error, f"epsilon {model.epsilon:g}, private; releases what it learned")


def _logistic() -> Any:  # noqa: ANN401 -- scikit-learn has no types
    linear = importlib.import_module("sklearn.linear_model")
    pipeline = importlib.import_module("sklearn.pipeline")
    scaling = importlib.import_module("sklearn.preprocessing")
    return pipeline.make_pipeline(scaling.StandardScaler(), linear.LogisticRegression(max_iter=1000))


def _boosting() -> Any:  # noqa: ANN401 -- as above
    return importlib.import_module("sklearn.ensemble").HistGradientBoostingClassifier()


_SCIKIT: Final[dict[str, Callable[[], Any]]] = {"logistic regression": _logistic, "gradient boosting": _boosting}


def _peer(learner: Any) -> Any:  # noqa: ANN401 -- as above
    """Return a private learner behind what scales all features to [-1, 1]."""
    pipeline = importlib.import_module("sklearn.pipeline")
    scaling = importlib.import_module("sklearn.preprocessing")
    return pipeline.make_pipeline(scaling.MinMaxScaler((-1.0, 1.0), clip=True), learner)


def _private_logistic(epsilon: float, width: int, secret: bytes) -> Any:  # noqa: ANN401 -- diffprivlib has no types
    models = importlib.import_module("diffprivlib.models")
    seed = int.from_bytes(secret[:4], "big")
    return _peer(models.LogisticRegression(epsilon=epsilon, data_norm=float(width) ** 0.5, random_state=seed))


def _private_forest(epsilon: float, width: int, secret: bytes) -> Any:  # noqa: ANN401 -- diffprivlib has no types
    models = importlib.import_module("diffprivlib.models")
    bounds = (np.full(width, -1.0), np.full(width, 1.0))
    seed = int.from_bytes(secret[:4], "big")
    return _peer(
        models.RandomForestClassifier(epsilon=epsilon, bounds=bounds, classes=[False, True], random_state=seed)
    )


_DIFFPRIVLIB: Final[dict[str, Callable[[float, int, bytes], Any]]] = {
    "logistic regression": _private_logistic,
    "random forest": _private_forest,
}


def _scikit(name: str, make: Callable[[], Any], train: Table, test: Table, note: str) -> Baseline:
    os.environ.setdefault("LOKY_MAX_CPU_COUNT", str(os.cpu_count() or 1))  # else it asks the system, and may complain
    try:
        learner = make()
    except ModuleNotFoundError:
        return Baseline(name, None, _INSTALL)
    except ImportError:  # diffprivlib 0.6 does not import beside scikit-learn 1.6 and later
        return Baseline(name, None, f"does not import beside this scikit-learn; {_INSTALL.partition(': ')[2]}")
    if len(np.unique(train.labels)) == 1:
        return Baseline(name, None, "all training rows have one label")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a solver that has not converged, among others
        said: NDArray[np.bool_] = learner.fit(train.features, train.labels).predict(test.features)
    return Baseline(name, float((said != test.labels).mean()), note)
