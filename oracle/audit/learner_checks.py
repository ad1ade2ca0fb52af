"""Checks of what the proofs for predictors without armed sides assume (see `oracle.audit.structure`)."""

from typing import Final

import numpy as np

from oracle.audit.randomness import Randomness
from oracle.audit.trials import trained
from oracle.errors import DataError
from oracle.planning.plan import Plan
from oracle.predictors.kinds import new_trainer

__all__ = ["key_let_go", "mean_moves"]

Seen = tuple[bool, str]

_ROUNDED: Final = 1e-12


def mean_moves(plan: Plan, randomness: Randomness) -> Seen:
    """One row moves the mean by 1/n at most: else every bit tells more than it is charged."""
    whole = _database(plan, randomness)
    rows = {*range(0, plan.declared, max(plan.declared // 16, 1)), plan.declared - 1}
    most = max(abs(whole - _database(plan, randomness, row)) for row in rows)
    says = f"one row of {plan.declared} moves it by {most:.4g} at most"
    if not _refused(plan, randomness.secret(0)):
        return False, f"{says}; a row of length 1.5 was taken, and would move it further"
    return most <= (1.0 + _ROUNDED) / plan.declared, says


def _refused(plan: Plan, secret: bytes) -> bool:
    """Return whether a trainer refuses a row that is longer than 1."""
    try:
        new_trainer(plan, secret).add(np.full((1, 1), 1.5), np.ones(1, dtype=np.bool_))
    except DataError:
        return True
    return False


def _database(plan: Plan, randomness: Randomness, left_out: int | None = None) -> float:
    return float(trained(plan, randomness.secret(0), left_out).export()["database"][0])


def key_let_go(plan: Plan, randomness: Randomness) -> Seen:
    """The key that choices and bits come from is not the genesis key, and no array holds that one."""
    secret = randomness.secret(0)
    held = b"".join(array.tobytes() for array in trained(plan, secret).export().values())
    return secret not in held, "the genesis key is in no state" if secret not in held else "the genesis key is kept"
