"""Teachers that are fitted beside answering, and found again."""

from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracle.errors import StateError
from oracle.planning.ensemble.model import EnsemblePlan
from oracle.predictors.base import StateArrays
from oracle.predictors.ensemble.numerics import libraries
from oracle.predictors.ensemble.teachers import Teachers, fit_teachers

__all__ = ["Fitting", "check_same", "made_with"]

_WORKER: Final = ThreadPoolExecutor(1, "teachers")


class Fitting:
    """Teachers, once they are fitted.

    Args:
        plan: The plan.
        rows: Features, labels and owners: float64[n, D], int8[n], int32[n].
        seed: Number of the life: where a learner draws at random.
    """

    def __init__(
        self, plan: EnsemblePlan, rows: tuple[NDArray[np.float64], NDArray[np.int8], NDArray[np.int32]], seed: int
    ) -> None:
        features, labels, owners = rows
        self._teachers = _WORKER.submit(fit_teachers, plan, features, labels, owners.astype(np.int64), seed)

    def teachers(self) -> Teachers:
        """Return the teachers; wait for them where they are not fitted yet."""
        return self._teachers.result()


def made_with(plan: EnsemblePlan) -> NDArray[np.uint8]:
    """Return what teachers are fitted with here, by name: JSON in uint8[m]. It only explains a refusal."""
    paths = (plan.learner, *(step.transformer for step in plan.preprocessing))
    return np.frombuffer(msgspec.json.encode(libraries(*paths)), dtype=np.uint8).copy()


def check_same(plan: EnsemblePlan, teachers: Teachers, arrays: StateArrays) -> None:
    """Refuse teachers that are not those that answered before: votes must be the same for ever.

    Args:
        plan: The plan.
        teachers: Fitted again.
        arrays: The state, with the digest of those that were fitted before, and what with.

    Raises:
        StateError: They are others; the message says what is installed otherwise.
    """
    if teachers.digest == arrays["teachers"].tobytes():
        return
    was = msgspec.json.decode(arrays["libraries"].tobytes(), type=dict[str, str])
    now = msgspec.json.decode(made_with(plan).tobytes(), type=dict[str, str])
    other = [f"{name} {value!r} (here {now.get(name)!r})" for name, value in was.items() if now.get(name) != value]
    reason = "by other code, or draw beyond random_state"
    if other:
        reason = f'with {", ".join(other)}; go on with these (deploy/OPERATING.md, "Upgrade", says how)'
    raise StateError(f"state: its teachers, fitted again here, vote otherwise than before; they were fitted {reason}")
