"""Whether armed sides answer with the law that is due, end to end, over many keys, in a later phase.

A run is played until sides are armed again in a phase that is not the first. Its state goes through a snapshot's bytes
with one key after the other; then queries are asked, of which it is known how many points they reach past, and Stoppers
of which it is known how many mediums they have counted. So it is also known how likely each answer is; a law that is
another one, or words that are none of their own, lose to a bet (`bets.py`).
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Final

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from oracle.accounting.ledger import SideRearmed
from oracle.audit.due.exactness import below
from oracle.audit.findings import Seen
from oracle.audit.laws.bets import Bets
from oracle.audit.randomness import Draws, Randomness
from oracle.audit.runs.checks import run_of
from oracle.audit.runs.served import Served
from oracle.audit.runs.whole import Run, body_of, train
from oracle.mechanisms.noise.tables import Law
from oracle.planning.plan import BoxPlan, PhasePlan, Plan
from oracle.planning.stumps.model import StumpsPlan
from oracle.predictors.base import Predictor, StateArrays
from oracle.predictors.kinds import restore_predictor
from oracle.state.format import Snapshot, decode, encode

__all__ = ["settled"]

Floats = NDArray[np.float64]

_STEP: Final = 7
"""Messages of a batch."""

_KEYS, _QUERIES, _AGAIN = 60, 6, 40
"""Keys, queries that are asked under each, and how often."""

_STOPPERS: Final = 360
"""Keys under which Stoppers are asked."""

_NEVER: Final = 1 << 40
"""So many mediums less than none keep a Stopper from halting."""

_OFF: Final = (-6, -3, 50)
"""Mediums beyond a Stopper's threshold; so many that it halts as soon as it is asked."""

_ENDS: Final = (1, 3, 8, 20, _AGAIN)
"""Rounds before which a Stopper halts: these are told apart."""

_TAIL: Final = 45.0


def settled(plan: Plan, randomness: Randomness) -> Seen:
    """Sides that are armed again, in a later phase, behind a restart, answer and halt as likely as is due.

    A law that is as due is refuted with a chance of 1e-9 at most.
    """
    run, snapshot = _later(plan, randomness)
    bets = Bets()
    state = dict(snapshot.arrays)
    phase = run.plan.phases[snapshot.phase - 1]
    asked, done = _telling(run, state, phase), int(state["counters"][2])
    lasting = {(off, late): _lasts(phase, off, late) for off in _OFF for late in (0, 1)}
    never = np.full(len(state["mediums"]), -_NEVER)
    for number in range(_STOPPERS):
        secret = np.frombuffer(randomness.secret(number), dtype=np.uint8)
        for which, (row, chances) in enumerate(asked if number < _KEYS else ()):
            predictor = _taken_back(run, snapshot, {"key": secret, "mediums": never})
            labels = predictor.answer(np.tile(row, (_AGAIN, 1)), np.ones(_AGAIN, dtype=np.bool_)).labels
            counts = [
                *(predictor.export()["mediums"].astype(np.int64) + _NEVER).tolist(),
                int(np.count_nonzero(labels)),
            ]
            bets.on_counts("answers", chances, np.array([*counts, _AGAIN - sum(counts)], dtype=np.float64), which)
        for (off, late), chances in lasting.items():
            counted, armed = (np.full(len(never), one) for one in (phase.stopper.threshold + off, done - 1 + late))
            predictor = _taken_back(run, snapshot, {"key": secret, "mediums": counted, "armed": armed})
            told = predictor.answer(np.zeros((_AGAIN, run.plan.width)), np.zeros(_AGAIN, dtype=np.bool_)).events
            lasted = dict.fromkeys(range(len(never)), _AGAIN)
            for event in reversed(told):
                if isinstance(event, SideRearmed):
                    lasted[event.side] = event.round - snapshot.round
            cells = np.searchsorted(_ENDS, list(lasted.values()), side="right")
            bets.on_counts(
                "Stoppers", chances, np.bincount(cells, minlength=len(chances)).astype(np.float64), (off, late)
            )
    passes, says = bets.verdict("batches")
    return passes, f"phase {snapshot.phase}, {_STOPPERS} keys: {says}"


def _later(plan: Plan, randomness: Randomness) -> tuple[Run, Snapshot]:
    """Play runs until one comes to a later phase, and has a side armed again in it, with rounds left."""
    for number in count():
        draws = Draws(randomness, number)
        run = run_of(plan, draws, number)
        if any(feature.kind != "number" for feature in run.plan.features):
            continue
        served = Served(run.plan, train(run, randomness.secret(number), draws)[0])
        bodies = [body_of(run.plan, place, message) for place, message in enumerate(run.messages)]
        for start in range(0, len(bodies), _STEP):
            served.send(bodies[start : start + _STEP])
            served.checkpoint()
            snapshot = served.kept()
            _, phase, done, *_ = snapshot.arrays["counters"].tolist()
            left = run.plan.phases[phase - 1].rounds - done
            armed = snapshot.arrays["armed"].astype(np.int64)
            if phase > 1 and snapshot.arrays["fresh"].any() and left > _AGAIN and (armed < done).all():
                return run, snapshot
    raise AssertionError


def _taken_back(run: Run, snapshot: Snapshot, changes: StateArrays) -> Predictor:
    """Return what a snapshot's bytes are taken back to, with another key, and other mediums."""
    changed = replace(snapshot, arrays={**snapshot.arrays, **changes})
    arrays = decode(encode(changed, bytes(32)), bytes(32), run.plan.digest).arrays
    return restore_predictor(run.plan, arrays)


def _looked_at(plan: BoxPlan, state: StateArrays) -> list[tuple[int, float]]:
    """Return the column that each side looks at, and the sign of its keys."""
    if isinstance(plan, StumpsPlan):
        column, upward = state["stump"].tolist()
        return [(column, 1.0), (column, -1.0)] if len(plan.sides) > 1 else [(column, 1.0 if upward else -1.0)]
    names = [feature.name for feature in plan.features]
    split = [side.rsplit(":", 1) for side in plan.sides]
    return [(names.index(name), 1.0 if end == "lower" else -1.0) for name, end in split]


def _telling(run: Run, state: StateArrays, phase: PhasePlan) -> list[tuple[Floats, Floats]]:
    """Return a few queries and how likely their answers are: medium by each side, 1, and low; the least sure ones."""
    found = []
    for message in run.messages:
        if message:
            row = np.array(message, dtype=np.float64)
            found.append((row, _chances(run.plan, row, state, phase)))
    unsure = sorted(found, key=lambda one: float(one[1] @ np.log(one[1] + math.exp(-_TAIL))))
    return unsure[:: max(len(unsure) // (8 * _QUERIES), 1)][:_QUERIES]


def _chances(plan: BoxPlan, row: Floats, state: StateArrays, phase: PhasePlan) -> Floats:
    chances: list[float] = []
    open_, low = 1.0, 0.0
    for side, (column, sign) in enumerate(_looked_at(plan, state)):
        instance = phase.rearmed if state["fresh"][side] else phase.start
        points = state["points"][side][: instance.points]
        depth = int(np.count_nonzero(points <= sign * row[column]))
        top = instance.high + (instance.law != "laplace")
        lower, upper = (float(below(instance.law, instance.scale, edge - depth)) for edge in (instance.low, top))
        chances.append(open_ * (upper - lower))
        low += open_ * lower
        open_ *= 1.0 - upper
    return np.array([*chances, open_, low])


def _lasts(phase: PhasePlan, off: int, late: int) -> Floats:
    """Return how likely a Stopper first halts before each of `_ENDS`, or not, so many mediums beyond its threshold.

    It goes on where nu < rho - off, with a new nu in each round, and one rho; if it was armed just now, before the
    next round's query, it is first asked one round late.
    """
    stopper, ends = phase.stopper, np.array(_ENDS) - late
    if stopper.scale is not UNSET:
        return _first_halts("laplace", stopper.scale, [-off], np.ones(1), ends)
    reach = math.ceil(_TAIL / stopper.epsilon)
    rhos = range(-reach, reach + 1)
    shares = np.diff([float(below("discrete-laplace", stopper.epsilon, rho)) for rho in rhos])
    return _first_halts("discrete-laplace", stopper.epsilon, [rho - off for rho in rhos[:-1]], shares, ends)


def _first_halts(law: Law, slope: float, gaps: Sequence[int], shares: Floats, ends: NDArray[np.int64]) -> Floats:
    goes_on = np.array([float(below(law, slope, gap)) for gap in gaps])
    left = [1.0, *(float(shares @ goes_on**end) for end in ends)]
    return np.append(-np.diff(left), left[-1])
