"""Checks that queries are stored once and mediums counted, as the proofs of re-armed sides and the Stopper assume."""

import numpy as np
from numpy.typing import NDArray

from oracle.audit.randomness import Randomness
from oracle.audit.trials import ask, stream, trained
from oracle.planning.plan import BoxPlan
from oracle.predictors.base import StateArrays
from oracle.predictors.kinds import restore_predictor

__all__ = ["counted", "one_place"]

_BATCH = 8
_VALUES = 30

Floats = NDArray[np.float64]
Seen = tuple[bool, str]


def one_place(plan: BoxPlan, randomness: Randomness) -> Seen:
    """A query lands in one place at most, once: in one side's mediums, in a side armed with them, or in the harvest.

    Else it pays more than once, or moves a depth by more than one. Behind a phase's end it stands in one side.
    """
    predictor = trained(plan, randomness.secret(0))
    count = plan.phases[0].rounds
    queries = stream(plan, count + 1)
    for start in range(0, count, _BATCH):
        stop = min(start + _BATCH, count)
        ask(predictor, queries[start:stop])
        state = predictor.export()
        most = _most_times(state)
        if most > 1:
            return False, f"a query counts {most} times among mediums and the sides armed with them"
        if start > plan.phases[0].start.points:  # before, too few to be of interest
            most = _most_copies(plan, state, queries[start:stop, 0])
            if most > 1:
                return False, f"a query stands in {most} places"
    points = np.abs(predictor.export()["points"].astype(np.float64))
    finite = points[np.isfinite(points)]
    doubled = len(finite) - len(np.unique(finite))
    if plan.predictor == "rectangles" and doubled > 0:
        return False, f"{doubled} queries serve two sides of the next phase"
    rearms = predictor.facts().rearms
    return rearms > 0, f"{count} queries, {rearms} re-arms: none stands in two places, and none counts twice"


def _most_times(state: StateArrays) -> int:
    """Return the largest number of times that a query counts, in collected mediums and in sides armed with them."""
    held = [np.empty(0)]
    for side, fresh in enumerate(state["fresh"]):
        points = np.abs(state["points"][side].astype(np.float64))
        held += [points[np.isfinite(points)]] * bool(fresh)
        kept = state[f"collected_keys_{side}"][: int(state["collected_counts"][side])]
        held.append(np.abs(kept.astype(np.float64)))
    times = np.unique(np.concatenate(held), return_counts=True)[1]
    return int(times.max(initial=0))


def _most_copies(plan: BoxPlan, state: StateArrays, values: Floats) -> int:
    """Return the largest number of copies of a query. Sequential sides share one harvest."""
    copies = np.zeros(len(values), dtype=np.int64)
    harvested = np.zeros(len(values), dtype=np.bool_)
    for name, keys in state.items():
        if "_keys_" not in name:
            continue
        kind, _, side = name.partition("_keys_")
        kept = keys[: int(state[f"{kind}_counts"][int(side)])].astype(np.float64)
        here = np.isin(np.abs(values), np.abs(kept))
        if kind == "harvest" and plan.slicing != "faces":
            harvested |= here
        else:
            copies += here
    return int((copies + harvested).max())


def counted(plan: BoxPlan, randomness: Randomness) -> Seen:
    """Mediums are counted, from batch to batch, and past K a side is armed afresh: else it answers for ever."""
    phase = plan.phases[0]
    first = trained(plan, randomness.secret(0)).export()
    for batch in (phase.rounds - 1, _BATCH):
        rearms = 0
        for value in np.linspace(-0.9, 0.9, _VALUES):
            more, most = _flood(plan, first, float(value), batch)
            rearms += more
            if most > phase.stopper.cap:
                return False, f"a side gave more than K = {phase.stopper.cap} mediums"
            if rearms:
                break
        if not rearms:
            return False, f"no flood of {phase.rounds - 1} rounds, {batch} at a time, armed a side afresh"
    return True, "floods in the window arm the side afresh, in time, all at once and a few at a time"


def _flood(plan: BoxPlan, first: StateArrays, value: float, batch: int) -> tuple[int, int]:
    """Ask one query until a phase is nearly over; return how often sides were armed afresh, and the most mediums."""
    predictor, most = restore_predictor(plan, first), 0
    left = plan.phases[0].rounds - 1
    while left > 0:
        part = min(batch, left)
        ask(predictor, np.full((part, 1), value))
        most = max(most, int(predictor.export()["mediums"].astype(np.int64).max()))
        left -= part
    return predictor.facts().rearms, most
