"""The plan of one shard where a model's training set is split over several.

The shards share no record, so they compose in parallel: epsilon and the per-record delta are one shard's. The sum of
delta over all records adds up over shards, so each shard gets delta / N, and the delta that the model declares bounds
the sum over all of them for ever. Error (alpha, beta) and `trim` are each shard's.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final

import msgspec

from oracle.errors import InputError, PlanError
from oracle.planning.model import Model
from oracle.planning.plan import Plan, refuse_too_few
from oracle.planning.planner import check_runnable, plan_sufficient
from oracle.planning.questions import QuestionModel

__all__ = ["MAX_SHARDS", "plan_shards", "refuse_small_parts", "shard_model"]

MAX_SHARDS: Final = 1024
"""Shards that a model may have at most."""


def shard_model(model: Model, shards: int) -> Model:
    """Return what one of N shards is planned for: examples // N and delta / N, rounded towards privacy.

    Args:
        model: The whole model.
        shards: N, from 1 (then it is the model itself) to `MAX_SHARDS`.

    Raises:
        InputError: N is outside its bound, above the number of examples, or not 1 for a model that tells of its rows.
    """
    if not 1 <= shards <= MAX_SHARDS:
        raise InputError("--shards", shards, f"must be from 1 to {MAX_SHARDS}")
    if shards > 1 and isinstance(model, QuestionModel):
        raise InputError("--shards", shards, "must be 1: a shard could tell of its own rows only, not of all rows")
    if shards > model.examples:
        raise InputError("--shards", shards, f"must be at most model.examples ({model.examples})")
    delta = model.delta / shards
    if shards * Fraction(delta) > Fraction(model.delta):
        delta = math.nextafter(delta, 0.0)
    return msgspec.structs.replace(model, examples=model.examples // shards, delta=delta)


def plan_shards(model: Model, shards: int, progress: Callable[[int], None] = lambda _step: None) -> Plan:
    """Plan each of N shards, so that states can be made of the plan; it is the same for all.

    Formal guarantees:
        * N times the plan's delta is at most `model.delta`, and so is the sum over the records of all shards.

    Raises:
        InputError: N is outside its bound.
        PlanError: A shard's part is smaller than the least that works, or a size is out of range.
    """
    plan = plan_sufficient(shard_model(model, shards), progress)
    refuse_small_parts(model, shards, plan)
    check_runnable(plan)
    return plan


def refuse_small_parts(model: Model, shards: int, plan: Plan) -> None:
    """Refuse a shard's plan that wants more examples than its part has, and say how many shards or examples would do.

    Raises:
        PlanError: It does.
    """
    if shards == 1:
        refuse_too_few(model, plan)
    part = model.examples // shards
    if plan.declared <= part:
        return
    most = _most_shards(model, shards, plan.declared)
    fewer = f", or take --shards {most} at most" if most else ""
    msg = (
        f"--shards = {shards}: {plan.declared:,} training examples would be enough for each shard, which gets "
        f"{part:,} of model.examples = {model.examples:,}; declare {shards * plan.declared:,}{fewer}"
    )
    raise PlanError(msg)


def _most_shards(model: Model, refused: int, needed: int) -> int:
    """Return the largest number of shards whose parts are large enough, 0 if not even one is.

    Fewer shards have more of delta each and need fewer examples: examples // needed of them do, and the least that
    those could do with bounds the number from above. What is returned was planned.
    """

    def wanted(shards: int) -> int:
        return plan_sufficient(shard_model(model, shards)).declared

    low = max(model.examples // needed, 1)
    if wanted(low) > model.examples // low:
        return 0
    least = plan_sufficient(msgspec.structs.replace(shard_model(model, low), examples=1)).declared
    high = min(model.examples // least + 1, refused)
    while high - low > 1:
        middle = (low + high) // 2
        if wanted(middle) <= model.examples // middle:
            low = middle
        else:
            high = middle
    return low
