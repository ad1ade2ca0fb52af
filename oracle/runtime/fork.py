"""A fork: another log answered from a snapshot, by a second run with noise of its own; and what that costs.

Nothing here writes. Who publishes a fork's answers first makes its ledger event durable (`oracle.state.forks`).
"""

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from oracle.accounting.ledger import ReplayForked
from oracle.errors import RefusedError
from oracle.planning.plan import Plan
from oracle.state.format import KEY, Snapshot, phase_key

__all__ = ["ForkCost", "fork_cost", "fork_event", "fork_snapshot"]


class ForkCost(NamedTuple):
    """What a fork costs the records that its snapshot may hold, beyond what they have paid.

    Formal guarantees:
        Basic composition: the run and m forks of its state together are ((1 + m) epsilon, delta + m delta')-DP for each
        of these records, delta' the `delta` here. For a fork at any moment:

        * *The fork alone.* Take as given what the run showed until the snapshot, every side's low, medium and high
          included. Then the fork is one whole life of the same mechanism, which starts where some side has counted c
          mediums already. Its rho and nu are fresh (`fork_snapshot`), so Theorem 7 holds for the c bits as for those
          to come: eps_S for a record that is one of them. The count starts at c >= 0, so the Stopper halts at least as
          surely after each medium *of the fork* as one that starts at 0, and more than K of them come with
          probability at most delta_cap. Theorem 5 holds for K mediums from any state. So a record in an instance, in
          a side's collected mediums or in the harvest pays in the fork at most what it was to pay in the run: the
          plan's epsilon, and the delta of its own phase (p, or p - 1 for the members of phase p's start instances; of
          ensembles also p - 2, `Plan.held_phases`).
        * *A query's own answer.* The run drew the hidden outcome, and the fork inherits it. The two views together are
          close to those without the query for each outcome (low, medium, high), so their mixture is too.
        * *Together.* Given that history the two run on independent noise (a key derived with fresh randomness). The
          fork may be chosen by what the run showed, and the run may go on after it: (epsilon, delta) adds up under
          concurrent composition too (Vadhan and Zhang, 2023, "Concurrent composition theorems for differential
          privacy").

        * *Where everything was released* when the state was made (`Plan.released`), a fork is post-processing: it costs
          nothing, as the run does.

        Records that came and went before, and those that the run answers later, pay nothing. The fork's queries are
        records of the fork, at the plan's (epsilon, delta_p); a query that is asked in both is a record of each.

    Where the plan protects the training rows only, a fork is one whole life of the same mechanism too: at most as many
    bits, on noise of its own. So a row pays the plan's epsilon and delta_1 once more, and queries are no records.

    Of a table, K goes on: the fork begins with what was learned from the answers paid so far, which is public, and pays
    for as many as are left, each on fresh noise (one-sided noise on thresholds follows from the key too). That is at
    most a whole life of the mechanism. K from the beginning would cost no more by this statement, but what the error
    rests on (the divergence that is left, the room for released intervals, the rising margin) is that of one K. Where
    none is left the rows are not touched any more: a fork is post-processing then, and costs nothing.

    Attributes:
        epsilon: In nats.
        delta: Of one record.
        delta_sum: Bound on the sum of `delta` over all records that the snapshot may hold; of a table, `delta`.
    """

    epsilon: float
    delta: float
    delta_sum: float


def fork_cost(plan: Plan, snapshot: Snapshot) -> ForkCost:
    """Return what a fork costs, computed from public facts only, rounded up.

    Raises:
        RefusedError: The plan's own epsilon is not proved, so nothing can be said about twice of it.
    """
    if plan.released or snapshot.paid == plan.paid_limit:
        return ForkCost(0.0, 0.0, 0.0)
    if plan.nominal:
        raise RefusedError(
            f"plan.profile = {plan.profile!r}: its epsilon is nominal, so what another run costs cannot be stated"
        )
    if not plan.protects_queries:
        delta = plan.phases[0].delta
        return ForkCost(epsilon=plan.epsilon, delta=delta, delta_sum=_above(plan.delta_spent(1, 0)))
    index = snapshot.phase - 1
    current = plan.phases[index]
    in_phase = snapshot.round - plan.first_round(snapshot.phase)
    older = plan.phases[max(index - plan.held_phases, 0) : index]
    members = [phase.rounds * phase.delta for phase in older] if index else [plan.declared * current.delta]
    return ForkCost(
        epsilon=plan.epsilon,
        delta=max(phase.delta for phase in (*older, current)),
        delta_sum=_above(math.fsum((*members, in_phase * current.delta))),
    )


def _above(total: float) -> float:
    """Round a sum of products up."""
    return math.nextafter(total * (1 + 1e-15), math.inf)


def fork_event(plan: Plan, snapshot: Snapshot, salt: bytes, number: int) -> ReplayForked:
    """Return the public event of a fork; `number` counts it in."""
    return ReplayForked(
        round=snapshot.round,
        phase=snapshot.phase,
        fork=salt.hex(),
        number=number,
        **fork_cost(plan, snapshot)._asdict(),
    )


def fork_snapshot(snapshot: Snapshot, salt: bytes) -> Snapshot:
    """Return the state from which another log is answered, from that log's beginning; `salt` is 32 fresh random bytes.

    Formal guarantees:
        * All noise behind it is a function of the forked key: that of depths, Stoppers and coins, and each armed
          side's rho, which is derived again when the state is restored. So are query hashes and the running tag.
        * The snapshot itself is untouched.

    Raises:
        CorruptSnapshotError: The snapshot has no phase key.
    """
    key = phase_key(snapshot.arrays).fork(salt)
    arrays = {**snapshot.arrays, KEY: np.frombuffer(key.secret, dtype=np.uint8).copy()}
    return dataclasses.replace(snapshot, position=0, tag=bytes(len(snapshot.tag)), arrays=arrays, origin=None)
