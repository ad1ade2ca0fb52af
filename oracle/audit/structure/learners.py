"""Checks of what the proofs for predictors without armed sides assume."""

from oracle.audit.randomness import Randomness
from oracle.audit.runs.trials import trained
from oracle.planning.plan import Plan

__all__ = ["key_let_go"]

Seen = tuple[bool, str]


def key_let_go(plan: Plan, randomness: Randomness) -> Seen:
    """The key that choices and bits come from is not the genesis key, and no array holds that one."""
    secret = randomness.secret(0)
    held = b"".join(array.tobytes() for array in trained(plan, secret).export().values())
    return secret not in held, "the genesis key is in no state" if secret not in held else "the genesis key is kept"
