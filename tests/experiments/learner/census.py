"""Census income, as `perpetua init` and queries have it, and the model file."""

from typing import Final

import numpy as np

from tests.experiments.ensemble.tasks import census_table
from tests.experiments.learner.task import Task, features_text

EXAMPLES: Final = 100_000

_HEAD: Final = """\
[model]
name = "census"
predictor = "ensemble"
learner = "sklearn.tree.DecisionTreeClassifier"
parameters = {{ max_depth = 4 }}
classes = ["-50000", "50000+"]
teacher_rows = 25
contested = 0.1
epsilon = 4.0
examples = {examples}
"""


def task(examples: int, queries: int) -> Task:
    """Return people to learn from and others that ask, drawn by a fixed seed.

    Args:
        examples: How many there are to learn from.
        queries: How many ask, at most.
    """
    table, rich = census_table()
    columns = [str(name) for name in table]
    texts = {
        name: sorted(map(str, table[name].dropna().unique())) for name in columns if table[name].dtype.kind not in "if"
    }
    mixed = table.assign(label=np.where(rich, "50000+", "-50000")).sample(frac=1.0, random_state=1)
    test = mixed[examples:][:queries]
    return Task(
        model=_HEAD.format(examples=examples) + features_text(columns, texts),
        train=mixed[:examples],
        asked=test[columns],
        truth=test["label"].to_numpy(dtype=str),
        rare="50000+",
    )
