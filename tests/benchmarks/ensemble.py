"""Ensembles: teachers' votes a second beside scikit-learn's own loop over them, and teachers fitted a second."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
from sklearn.tree import DecisionTreeClassifier  # type: ignore[import-untyped]

from oracle.planning.ensemble.model import Parameter, Transformer
from oracle.planning.features import Feature
from oracle.predictors.ensemble.encoding import Encoder
from oracle.predictors.ensemble.teachers import fit_teachers
from tests.benchmarks.pairs import Floor, Row, Settings, cpu_rate, paired

_FEATURES: Final = 30
_ROWS: Final = 25
_ASKED: Final = 8_192


@dataclass(frozen=True)
class _Setting:
    """What a model says of its teachers."""

    learner: str
    parameters: dict[str, Parameter]
    preprocessing: tuple[Transformer, ...] = ()
    features: tuple[Feature, ...] = tuple(Feature(name=f"f{number}") for number in range(_FEATURES))
    classes: tuple[int, ...] = (0, 1)
    teacher_rows: int = _ROWS


@dataclass(frozen=True)
class _Case:
    """Teachers of one kind, and their peers."""

    name: str
    setting: _Setting
    kind: Callable[[], Any]
    floor: Floor | None = None


_CASES: Final = (
    _Case(
        "trees of depth 3",
        _Setting("sklearn.tree.DecisionTreeClassifier", {"max_depth": 3}),
        partial(DecisionTreeClassifier, max_depth=3, random_state=0),
        Floor("value", 20_000.0),
    ),
    _Case("logistic regressions", _Setting("sklearn.linear_model.LogisticRegression", {}), LogisticRegression),
)


def _drawn(count: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    random = np.random.default_rng(seed)
    rows = random.normal(size=(count, _FEATURES))
    return rows, (rows[:, 0] + rows[:, 1] + random.normal(size=count) > 0.0).astype(np.int8)


def measure(settings: Settings) -> Iterator[Row]:
    """Measure queries a second and teachers fitted a second, of two kinds."""
    count = settings.teachers
    for case in _CASES:
        rows, labels = _drawn(count * _ROWS, 1)
        owners = np.arange(len(rows)) % count
        yield from _measure(settings, case, rows, labels, owners)


def _measure(
    settings: Settings,
    case: _Case,
    rows: NDArray[np.float64],
    labels: NDArray[np.int8],
    owners: NDArray[np.int64],
) -> Iterator[Row]:
    encoder, (queries, _) = Encoder(case.setting.features), _drawn(_ASKED, 2)
    shares = [(encoder.encode(rows[owners == owner]), labels[owners == owner]) for owner in range(settings.teachers)]
    teachers = fit_teachers(case.setting, rows, labels, owners, 0)
    code, peers = encoder.encode(queries), [case.kind().fit(*share) for share in shares]
    value, baseline = paired(
        settings,
        cpu_rate(_ASKED, lambda: teachers.votes(queries)),
        cpu_rate(_ASKED, lambda: [peer.predict(code) for peer in peers]),
    )
    what = f"ensemble, votes of {settings.teachers:,} {case.name}, {_FEATURES} features"
    yield Row(f"{what}, against scikit-learn's own", value, "queries/s", baseline, case.floor)
    value, baseline = paired(
        settings,
        cpu_rate(settings.teachers, lambda: fit_teachers(case.setting, rows, labels, owners, 0)),
        cpu_rate(settings.teachers, lambda: [case.kind().fit(*share) for share in shares]),
    )
    what = f"ensemble, fitting {case.name} to {_ROWS} rows each"
    yield Row(f"{what}, against scikit-learn's own", value, "teachers/s", baseline)
