"""Settings of teachers, and rows for them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from oracle.planning.ensemble.model import MISSING, Class, Parameter, Transformer
from oracle.planning.features import Feature

TREE = "sklearn.tree.DecisionTreeClassifier"
LETTERS = ("a", "b", "c")


@dataclass(frozen=True)
class Setting:
    """What a model says of its teachers."""

    learner: str = TREE
    parameters: dict[str, Parameter] = field(default_factory=dict)
    preprocessing: Sequence[Transformer] = ()
    features: Sequence[Feature] = (
        Feature(name="u"),
        Feature(name="kind", categories=LETTERS),
        Feature(name="v", type="date"),
    )
    classes: Sequence[Class] = ("no", "yes", "perhaps")
    teacher_rows: int = 25


def some_rows(count: int, seed: int, teachers: int = 12) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows for `Setting.features`, labels that follow from them but for noise, and owners."""
    random = np.random.default_rng(seed)
    rows = np.round(random.normal(size=(count, 3)) * 4.0)
    rows[:, 1] = random.integers(0, len(LETTERS) + 1, size=count)
    score = rows[:, 0] + 3.0 * rows[:, 1] + random.normal(size=count)
    labels = np.digitize(score, [3.0, 7.0]).astype(np.int8)
    rows[random.random((count, 3)) < 0.1] = MISSING
    return rows, labels, random.integers(0, teachers, size=count)
