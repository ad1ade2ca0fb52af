"""Checks that forks have noise of their own, and are paid for (see `oracle.audit.structure`; `oracle.runtime.fork`)."""

import math
import tempfile
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Final

import numpy as np

from oracle.audit.around.rows import Drawn, drawn, predictor_of, snapshot_of
from oracle.audit.findings import Seen
from oracle.audit.randomness import Draws, Randomness
from oracle.audit.recording.neighbours import worlds_of
from oracle.audit.recording.replays import World
from oracle.errors import RefusedError
from oracle.mechanisms.addresses import Purpose
from oracle.mechanisms.keys import FORK_BYTES
from oracle.planning.ensemble.model import EnsemblePlan
from oracle.planning.plan import Plan
from oracle.planning.statistics.model import TablePlan
from oracle.predictors.base import Predictor, StateArrays
from oracle.predictors.kinds import restore_predictor
from oracle.predictors.rectangles import RectanglesPERP
from oracle.predictors.stumps import StumpsPERP
from oracle.receipts.receipts import make_statement
from oracle.runtime.fork import fork_cost, fork_event, fork_snapshot
from oracle.state.folder import FolderStore
from oracle.state.forks import read_forks, record_fork
from oracle.state.format import KEY, Snapshot
from oracle.state.keys import create_key_file
from oracle.state.status import public_status

__all__ = ["forked"]

_RUNS: Final = 2
_LONG: Final = 3
"""Every third world is a whole run; those between are begun only."""

_CUTS: Final = 3
_ROUNDS: Final = 60
"""That a fork answers: the same queries as its run."""

_SALTS: Final = 3
_NEAR: Final = 1.0 + 1e-9


def forked(plan: Plan, randomness: Randomness) -> Seen:
    """Forks share no bit of noise with their run, or with each other; each costs what its records pay once more.

    Else two answers have one noise, and in their difference there is none; or a record pays more than is told.
    """
    forks = words = 0
    for number, world in enumerate(worlds_of(plan, randomness)):
        if number % _LONG or number >= _RUNS * _LONG:
            continue
        draws = Draws(randomness, 64 + number)
        with drawn() as whole:
            states = list(_states(world, draws))
        known = set().union(*(bits for _, bits in whole))
        for snapshot in states:
            for salt in range(_SALTS):
                name = randomness.secret((1 << 10) + 64 * number + 8 * snapshot.round + salt)[:FORK_BYTES]
                found, wrong = _fork(world, snapshot, name)
                bits = set().union(*(one for _, one in found)) if found else set()
                if wrong is None and bits & known:
                    wrong = "noise that its run, or another fork, has drawn"
                wrong = wrong or _underpaid(world.plan, snapshot)
                if wrong is not None:
                    return False, f"run {number}: a fork at round {snapshot.round} has {wrong}"
                known |= bits
                forks, words = forks + 1, words + len(bits)
        wrong = _unrecorded(world, states[-1], [randomness.secret((1 << 20) + salt) for salt in range(_SALTS)])
        if wrong is not None:
            return False, f"run {number}: {wrong}"
    return forks > 0, f"{forks} forks: none of their {words} draws is another's, and each is paid for"


def _states(world: World, draws: Draws) -> Iterator[Snapshot]:
    """Answer all queries, and yield what is known at the beginning, at some rounds, and behind each phase's end."""
    count = len(world.queries)
    ends = np.cumsum([min(phase.rounds, count) for phase in world.plan.phases])
    behind = {int(end) + 1 for end in ends if end + 1 < count}
    predictor = predictor_of(world)
    done = 0
    for cut in sorted({0, *behind, *draws.some(min(_CUTS, count), count), count}):
        predictor.answer(world.queries[done:cut], world.present[done:cut])
        done = cut
        if cut < min(count, world.plan.rounds):
            yield snapshot_of(world, predictor)


def _fork(world: World, snapshot: Snapshot, salt: bytes) -> tuple[Drawn, str | None]:
    """Return what a fork draws, and what is wrong with it, if anything."""
    other = fork_snapshot(snapshot, salt)
    if not _only_key(snapshot.arrays, other.arrays) or (other.position, any(other.tag)) != (0, False):
        return Drawn(), "another state than its run's, but for the key, or a position or tag"
    rows = slice(snapshot.round, snapshot.round + min(_ROUNDS, world.plan.rounds - snapshot.round))
    with drawn() as found:
        predictor = restore_predictor(world.plan, other.arrays)
        levels = set().union(*(bits for purpose, bits in found if purpose == Purpose.THRESHOLD))
        if len(levels) < _levels(world.plan, predictor):
            return found, "a Stopper, or a threshold, whose own noise is its run's"
        predictor.answer(world.queries[rows], world.present[rows])
    return found, None


def _only_key(before: StateArrays, after: StateArrays) -> bool:
    same = {name for name in before if name in after and np.array_equal(before[name], after[name])}
    return before.keys() == after.keys() and same == before.keys() - {KEY}


def _levels(plan: Plan, predictor: Predictor) -> int:
    """Return how many draws of noise answers share: one for each Stopper that has some, or for all thresholds."""
    if isinstance(predictor, RectanglesPERP | StumpsPERP):
        return len(predictor.sides.armed) if predictor.sides.stopper.noisy_threshold else 0
    one_sided = isinstance(plan, TablePlan) and plan.paid_noise.law == "exponential"
    return int(isinstance(plan, EnsemblePlan) or one_sided)


def _underpaid(plan: Plan, snapshot: Snapshot) -> str | None:
    """Return what a fork is said to cost, if that is less than one more life of what its records are in."""
    try:
        cost = fork_cost(plan, snapshot)
    except RefusedError:
        return None if plan.nominal else "no price"
    if plan.released or (plan.paid_limit is not None and snapshot.paid >= plan.paid_limit):
        return None
    if plan.nominal:
        return "a price, though nothing is proved"
    held = {"ensemble": 2}.get(plan.predictor, 1)
    phases = plan.phases[max(snapshot.phase - 1 - held, 0) : snapshot.phase]
    members = [one.rounds * Fraction(one.delta) for one in phases[:-1]]
    members.append((snapshot.round - plan.first_round(snapshot.phase)) * Fraction(phases[-1].delta))
    if snapshot.phase == 1:
        members.append(plan.declared * Fraction(phases[-1].delta))
    if not plan.protects_queries:
        members = [(plan.declared if plan.sums_delta else 1) * Fraction(plan.phases[0].delta)]
        phases = plan.phases[:1]
    fine = cost.epsilon >= plan.epsilon and cost.delta >= max(one.delta for one in phases)
    return None if fine and Fraction(cost.delta_sum) >= sum(members) else f"a price of {cost} only"


def _unrecorded(world: World, snapshot: Snapshot, salts: Sequence[bytes]) -> str | None:
    """Record forks of a state on disk; return what does not add up, if anything."""
    plan = world.plan
    with tempfile.TemporaryDirectory(prefix="perpetua-audit-") as folder:
        state = Path(folder, "state")
        state.mkdir(mode=0o700)
        master_key = create_key_file(Path(folder, "key"))
        with FolderStore.open(state, master_key) as store:
            store.write_plan(plan.encode())
            store.save(snapshot)
        if plan.nominal and not plan.released:
            return None
        events = [
            record_fork(state, lambda number, salt=salt: fork_event(plan, snapshot, salt, number))  # type: ignore[misc]
            for salt in salts
        ]
        if list(read_forks(state)) != events or [one.number for one in events] != [1, 2, 3]:
            return "forks are not recorded, each for itself"
        if {one.fork for one in events} != {salt.hex() for salt in salts}:
            return "forks are recorded under other names than their own"
        status, statement = public_status(state), make_statement(state, master_key, "audit")
    epsilon = plan.epsilon + math.fsum(one.epsilon for one in events)
    delta = math.fsum(one.delta_sum for one in events)
    told = status.forks, statement.forks
    if told != (len(salts), len(salts)) or status.epsilon_with_forks * _NEAR < epsilon:
        return f"of {len(salts)} forks {told} are told, and epsilon = {status.epsilon_with_forks:g} of {epsilon:g}"
    return None if status.delta_of_forks * _NEAR >= delta else "deltas of forks are not added up"
