"""What a demonstration of ensembles learns from, and what it is asked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Task:
    """Rows to learn from and rows that ask.

    Attributes:
        model: The model file.
        train: A column for each feature, and `label`, in an order that says nothing.
        asked: A column for each feature.
        truth: Labels of those that ask; for counting errors only.
        rare: The label that is counted.
    """

    model: str
    train: pd.DataFrame
    asked: pd.DataFrame
    truth: NDArray[np.str_]
    rare: str


def features_text(columns: Sequence[str], categories: Mapping[str, Sequence[str]]) -> str:
    """Return the features of a model file.

    Args:
        columns: Names of all.
        categories: Of those that are texts, by name.
    """
    lines = []
    for name in columns:
        lines.append(f'[[model.features]]\nname = "{name}"\n')
        if name in categories:
            lines.append(f"categories = {list(categories[name])}\n".replace("'", '"'))
    return "".join(lines)
