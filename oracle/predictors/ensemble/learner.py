"""A scikit-learn classifier and what goes before it, by their import paths.

A model file names code here: whoever may write it may run whatever is installed beside Perpetua. What is imported must
be an estimator; that bounds mistakes, not malice.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InputError, did_you_mean
from oracle.planning.ensemble.model import Class, Parameter, Transformer
from oracle.planning.features import Feature

__all__ = ["Fitted", "Learner", "Settings", "qualified_name"]

_OURS: Final = ("n_jobs", "random_state", "verbose")
"""Parameters that are set here: one thread, the teacher's seed, silence."""

_INSTALL: Final = "needs scikit-learn: pip install 'perpetua[learners]'"


class Settings(Protocol):
    """What says how teachers are fitted: a model or its plan."""

    @property
    def learner(self) -> str:
        """Import path of the classifier."""

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """What it is made with."""

    @property
    def preprocessing(self) -> Sequence[Transformer]:
        """What goes before it."""

    @property
    def teacher_rows(self) -> int:
        """Rows of a teacher, on average."""

    @property
    def features(self) -> Sequence[Feature]:
        """What a row holds."""

    @property
    def classes(self) -> Sequence[Class]:
        """What a label may be."""


@dataclass(frozen=True)
class Fitted:
    """One teacher's learner.

    Attributes:
        steps: Fitted transformers.
        classifier: Fitted classifier, whose classes are numbers of classes.
    """

    steps: tuple[Any, ...]
    classifier: Any

    def predict(self, code: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the class of each row of float64[n, E]: int64[n]."""
        for step in self.steps:
            code = step.transform(code)
        return np.asarray(self.classifier.predict(code), dtype=np.int64)


class Learner:
    """Makes classifiers and fits them.

    Args:
        settings: Of the model or the plan.

    Raises:
        InputError: A path names no such estimator, or a parameter is refused.
    """

    def __init__(self, settings: Settings) -> None:
        self._steps = [
            _Maker(
                f"model.preprocessing[{index}]", "transformer", step.transformer, step.parameters, "TransformerMixin"
            )
            for index, step in enumerate(settings.preprocessing)
        ]
        self._classifier = _Maker("model", "learner", settings.learner, settings.parameters, "ClassifierMixin")

    @property
    def paths(self) -> list[str]:
        """Import paths of the classifier and of what goes before it."""
        return [maker.path for maker in (self._classifier, *self._steps)]

    @property
    def plain(self) -> bool:
        """Whether nothing goes before the classifier."""
        return not self._steps

    def fit(self, code: NDArray[np.float64], labels: NDArray[np.int64], seed: int) -> Fitted:
        """Fit on rows.

        Args:
            code: float64[n, E].
            labels: int64[n], numbers of at least two classes.
            seed: What the learner's coins follow from.

        Raises:
            Exception: Whatever the learner raises.
        """
        seed %= 2**32
        steps = tuple(maker(seed) for maker in self._steps)
        for step in steps:
            code = step.fit(code, labels).transform(code)
        return Fitted(steps, self._classifier(seed).fit(code, labels))


class _Maker:
    """Makes estimators of one class with the same parameters.

    Args:
        where: Of the model, in which it is named.
        field: What its path is called there.
        path: Its import path.
        parameters: What it is made with.
        mixin: What it must be, of `sklearn.base`.

    Raises:
        InputError: The path names no such estimator, or a parameter is refused.
    """

    def __init__(self, where: str, field: str, path: str, parameters: Mapping[str, Parameter], mixin: str) -> None:
        self.path = path
        self._class = _imported(f"{where}.{field}", path, mixin)
        self._given = {name: _frozen(value) for name, value in parameters.items()}
        known = inspect.signature(self._class).parameters
        for name in parameters:
            self._check_name(f"{where}.parameters.{name}", name, known)
        self._fixed = {name: value for name, value in (("n_jobs", 1), ("verbose", 0)) if name in known}
        self._seeded = "random_state" in known
        self._check_values(f"{where}.parameters")

    def __call__(self, seed: int) -> Any:  # noqa: ANN401 -- scikit-learn has no types
        """Return an estimator that is not fitted."""
        seeded = {"random_state": seed} if self._seeded else {}
        return self._class(**self._given, **self._fixed, **seeded)

    def _check_name(self, field: str, name: str, known: Mapping[str, inspect.Parameter]) -> None:
        if name in _OURS:
            raise InputError(field, self._given[name], "must be left out: Perpetua sets it")
        if name not in known:
            hint = did_you_mean(name, known)
            raise InputError(field, self._given[name], f"{self._class.__name__} has no such parameter{hint}")

    def _check_values(self, where: str) -> None:
        try:
            estimator = self(0)
            if hasattr(estimator, "_parameter_constraints"):  # as scikit-learn's own estimators have them
                estimator._validate_params()  # noqa: SLF001 -- else only a fit would say it, of each teacher
        except Exception as fault:
            said = str(fault)
            name = next((name for name in self._given if f"'{name}'" in said), None)
            field = where if name is None else f"{where}.{name}"
            raise InputError(field, self._given.get(name or "", "..."), said) from fault


def qualified_name(estimator: object) -> str:
    """Return an estimator's class, by where it was defined: others may have its name."""
    return f"{type(estimator).__module__}.{type(estimator).__qualname__}"


def _frozen(value: Parameter) -> Any:  # noqa: ANN401 -- as above
    """Return a parameter with tuples for lists: teachers share it, and where scikit-learn wants a pair it is one."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _imported(field: str, path: str, mixin: str) -> Any:  # noqa: ANN401 -- as above
    """Return the estimator's class.

    Raises:
        InputError: There is none of this kind at the path.
    """
    try:
        base = import_module("sklearn.base")
    except ImportError as fault:
        raise InputError(field, path, _INSTALL) from fault
    module, _, name = path.rpartition(".")
    try:
        found = getattr(import_module(module), name)
    except (Exception, SystemExit) as fault:  # whatever a module does as it is imported
        raise InputError(field, path, f"cannot be imported here: {fault}") from fault
    if not (
        isinstance(found, type) and issubclass(found, base.BaseEstimator) and issubclass(found, getattr(base, mixin))
    ):
        kind = "classifier" if mixin == "ClassifierMixin" else "transformer"
        raise InputError(field, path, f"is not a scikit-learn {kind}")
    return found
