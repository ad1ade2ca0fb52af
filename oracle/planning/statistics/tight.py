"""The planner of questions about a table: the fewest rows for an error, or what many rows buy.

A count is within U below its threshold or D above it wherever noise decides (`NoisePlan`). So with
T = floor(n alpha) - D
* what is answered for free is told within alpha: c <= ceil(n f) + T + D - 1 < n (f + alpha);
* what is paid for is a true gap above gamma = alpha - (U + D)/n: c >= ceil(n f) + T - U + 1.
Each paid answer takes 2 gamma^2 off the hypothesis' divergence from the rows (Pinsker), so K of them are enough.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import accumulate, combinations
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from oracle.accounting.accountant import delta_at
from oracle.errors import PlanError
from oracle.mechanisms.addresses import MAX_SIDES
from oracle.planning.attributes import Attribute, Layout
from oracle.planning.model import promises_of
from oracle.planning.plan import Phase
from oracle.planning.questions import ROUNDS, refuse_many
from oracle.planning.statistics.bounds import check_bounds
from oracle.planning.statistics.guarantees import table_event
from oracle.planning.statistics.model import (
    UNDECLARED,
    NoisePlan,
    SparseVectorModel,
    SparseVectorPlan,
    StatisticsModel,
    StatisticsPlan,
    TableModel,
    TablePlan,
    noise_bytes,
    sparse_bytes,
    statistics_bytes,
)
from oracle.planning.statistics.noise import Budget, exact_noise, quick_noise, start_of, windows

__all__ = [
    "MOST_PAID",
    "divergence",
    "paid_bound",
    "plan_sparse_vector",
    "plan_statistics",
    "quick_examples_of_sparse_vector",
    "quick_examples_of_statistics",
    "start_marginals",
    "verify_sparse_vector",
    "verify_statistics",
]

MOST_PAID: Final = 2**20

_LEAST_GAP: Final = 0.25
"""gamma / alpha where K is declared: with less, paid answers teach little."""

_GAPS: Final = tuple(number / 128 for number in range(112, 15, -1))
"""gamma / alpha where K is the bound: the least rows are at about a half."""

_FIRST_MARGIN: Final = 0.3
"""First margin as a part of T, where K is declared (`StatisticsPlan.margin_at`)."""

_MOST_MARGINAL_CELLS: Final = 1 << 16
"""Cells of all pairs that a hypothesis starts from: they are one message of the ledger."""

_MOST_UPDATES: Final = 1 << 31
"""Weights that one round of fitting all of them updates: a few seconds."""

_MOVES: Final = 64
"""Moves of the hypothesis for each paid answer that rounding is allowed for; each takes X 2^-52 of divergence."""


class Start(NamedTuple):
    """What a hypothesis starts from.

    Attributes:
        marginals: Their attributes.
        slope: Inverse scale of the noise on their cells.
    """

    marginals: tuple[tuple[int, ...], ...]
    slope: float


def divergence(attributes: Sequence[Attribute]) -> float:
    """Return a bound on KL(rows || start) in nats, if at most a hundredth of the rows are in undeclared cells.

    The start is uniform on the declared cells, with a hundredth spread over all cells. With w of the rows elsewhere the
    divergence is at most (1-w) ln X_0 + w ln X + KL(w || .01), convex in w, so largest at w = 0 or w = .01.

    Args:
        attributes: Of the table.
    """
    declared = math.fsum(math.log(attribute.declared) for attribute in attributes)
    every = math.fsum(math.log(attribute.cells) for attribute in attributes)
    mixed = (1.0 - UNDECLARED) * declared + UNDECLARED * every
    return max(declared - math.log1p(-UNDECLARED), mixed) * (1.0 + 1e-12)


def paid_bound(start: float, cells: int, gap: float) -> int:
    """Return K: how many answers can be paid for, each with a true gap above gamma.

    Args:
        start: KL(rows || start), at most (nats).
        cells: X, all cells of the table.
        gap: gamma.
    """
    each = 2.0 * gap * gap * (1.0 - 1e-9) - _MOVES * math.ldexp(cells, -52)
    return math.ceil(start / each) if each > 0.0 and gap > 0.0 else 1 << 62


def plan_statistics(model: StatisticsModel, _progress: Callable[[int], None]) -> StatisticsPlan:
    """Plan private multiplicative weights, for the fewest rows that suffice where the model declares too few.

    Raises:
        PlanError: A size is out of range.
    """
    plan = _declared_paid(model, model.paid) if model.paid is not None else _bounded_paid(model)
    verify_statistics(plan)
    return plan


def _declared_paid(model: StatisticsModel, paid: int) -> StatisticsPlan:
    marginals = start_marginals(Layout.of(model.attributes).shape)
    start = start_of(model.epsilon, model.delta, len(marginals))
    noise = exact_noise(_budget(model, paid)._replace(start=start))
    least = _least_rows(noise, Fraction(model.alpha) * Fraction(1.0 - _LEAST_GAP))
    return _statistics_plan(model, noise, paid, least, Start(marginals, start.epsilon))


def quick_examples_of_statistics(model: StatisticsModel) -> int:
    """Return a number of rows that suffices, without value iteration: some 7 % above the least.

    Raises:
        PlanError: A size is out of range.
    """
    if model.paid is None:
        gap, _, noise = _quickest(_tried(model), model.alpha)
        return _a_little_more(_least_rows(noise, Fraction(model.alpha) - Fraction(gap)))
    start = start_of(model.epsilon, model.delta, len(start_marginals(Layout.of(model.attributes).shape)))
    noise = quick_noise(_budget(model, model.paid)._replace(start=start))
    return _a_little_more(_least_rows(noise, Fraction(model.alpha) * Fraction(1.0 - _LEAST_GAP)))


def quick_examples_of_sparse_vector(model: SparseVectorModel) -> int:
    """Return a number of rows that suffices, without value iteration."""
    return _a_little_more(_sparse_rows(quick_noise(_budget(model, model.paid)), model.alpha))


def _a_little_more(rows: int) -> int:
    """Return more than the same noise takes where a part of delta pays for its tables."""
    return math.ceil(1.001 * rows) + 1


def _tried(model: StatisticsModel) -> list[tuple[float, int, NoisePlan]]:
    """Return gamma, K and the noise for each gamma that is tried, the largest first."""
    start, cells = divergence(model.attributes), Layout.of(model.attributes).size
    gaps = [share * model.alpha for share in _GAPS]
    bounds = [(gap, paid_bound(start, cells, gap)) for gap in gaps]
    tried = [(gap, paid, quick_noise(_budget(model, paid))) for gap, paid in bounds if paid <= MOST_PAID]
    if not tried:
        msg = f"model.alpha = {model.alpha!r}: more than {MOST_PAID:,} answers may have to be paid; declare `paid`"
        raise PlanError(msg)
    return tried


def _quickest(tried: Sequence[tuple[float, int, NoisePlan]], alpha: float) -> tuple[float, int, NoisePlan]:
    """Return the one that takes the fewest rows."""
    return min(tried, key=lambda one: one[2].window / (alpha - one[0]))


def _bounded_paid(model: StatisticsModel) -> StatisticsPlan:
    """Let K follow from gamma, and gamma from the noise that K takes: the best gamma for the rows there are."""
    start, cells = divergence(model.attributes), Layout.of(model.attributes).size
    tried = _tried(model)
    gap, paid, quick = _quickest(tried, model.alpha)
    noise = exact_noise(_budget(model, paid))
    least = _least_rows(noise, Fraction(model.alpha) - Fraction(gap))
    while paid_bound(start, cells, _gap(model, noise, least)) > paid:
        least += 1
    rows = max(model.examples, least)
    gained = noise.window / quick.window
    for wider, fewer, about in tried:
        if about.window * gained > rows * (model.alpha - wider) or fewer >= paid:
            continue
        found = exact_noise(_budget(model, fewer))
        if paid_bound(start, cells, _gap(model, found, rows)) <= fewer:
            return _statistics_plan(model, found, fewer, least)
    return _statistics_plan(model, noise, paid, least)


def plan_sparse_vector(model: SparseVectorModel, _progress: Callable[[int], None]) -> SparseVectorPlan:
    """Plan a sparse vector, for the fewest rows that suffice where the model declares too few.

    Raises:
        PlanError: A size is out of range.
    """
    noise = exact_noise(_budget(model, model.paid))
    least = _sparse_rows(noise, model.alpha)
    rows = max(model.examples, least)
    memory = sparse_bytes(model.attributes, rows, model.paid) + noise_bytes(noise)
    plan = SparseVectorPlan(**_common(model, noise, model.paid, least), memory_bytes=memory)
    verify_sparse_vector(plan)
    return plan


def _sparse_rows(noise: NoisePlan, alpha: float) -> int:
    """Return the fewest rows of which the window, with two for rounding, is 2 alpha at most."""
    return math.ceil(Fraction(noise.window + 2) / (2 * Fraction(alpha)))


def start_marginals(shape: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return which marginals a hypothesis starts from: pairs, the small ones first, and attributes that are in none.

    >>> start_marginals((3, 2, 70_000))
    ((0, 1), (2,))
    """
    pairs = sorted(combinations(range(len(shape)), 2), key=lambda pair: (shape[pair[0]] * shape[pair[1]], pair))
    sizes = accumulate(shape[first] * shape[second] for first, second in pairs)
    most = _MOST_UPDATES // math.prod(shape)
    chosen = [pair for pair, size in zip(pairs[:most], sizes, strict=False) if size <= _MOST_MARGINAL_CELLS]
    covered = {attribute for pair in chosen for attribute in pair}
    return (*chosen, *((attribute,) for attribute in range(len(shape)) if attribute not in covered))


def _margins(model: TableModel | TablePlan, noise: NoisePlan, rows: int, *, complete: bool) -> tuple[int, int]:
    """Return the first margin and the last one, T; where K is the bound, all are T: each answer must have its gap."""
    last = math.floor(Fraction(model.alpha) * rows) - noise.below
    return (last if complete else max(math.ceil(_FIRST_MARGIN * last), noise.above + 1)), last


def _statistics_plan(
    model: StatisticsModel, noise: NoisePlan, paid: int, least: int, start: Start | None = None
) -> StatisticsPlan:
    rows = max(model.examples, least)
    first, last = _margins(model, noise, rows, complete=start is None)
    return StatisticsPlan(
        **_common(model, noise, paid, least),
        memory_bytes=statistics_bytes(model.attributes, rows, paid) + noise_bytes(noise),
        gap=_gap(model, noise, rows),
        complete=start is None,
        first_margin=first,
        margin=last,
        start=() if start is None else start.marginals,
        start_slope=UNSET if start is None else start.slope,
    )


def _common(model: StatisticsModel | SparseVectorModel, noise: NoisePlan, paid: int, least: int) -> dict[str, Any]:
    """Return what plans of both predictors have."""
    refuse_many(model, least)
    return promises_of(model) | {
        "profile": model.profile,
        "attributes": model.attributes,
        "examples": least,
        "declared": max(model.examples, least),
        "questions": model.rounds,
        "paid": paid,
        "noise": noise,
        "phases": (Phase(phase=1, rounds=ROUNDS, delta=model.delta),),
    }


def _asked(predictor: str, questions: int, paid: int) -> int:
    """Return M: statistics ask of both signs, and again behind each paid answer."""
    return questions if predictor == "sparse-vector" else 2 * questions + 2 * paid


def _budget(model: TableModel, paid: int) -> Budget:
    return Budget(paid, model.epsilon, model.delta, _asked(model.predictor, model.rounds, paid), model.beta)


def _least_rows(noise: NoisePlan, share: Fraction) -> int:
    """Return the fewest rows of which the window is at most a share."""
    return math.ceil(noise.window / share)


def _gap(of: TableModel | TablePlan, noise: NoisePlan, rows: int) -> float:
    """Return gamma, rounded down."""
    exact = Fraction(of.alpha) - Fraction(noise.window, rows)
    gap = float(exact)
    return gap if gap <= exact else math.nextafter(gap, -math.inf)


def verify_sparse_vector(plan: SparseVectorPlan) -> None:
    """Make every figure of a plan again.

    Raises:
        PlanError: A figure does not hold.
    """
    noise = _verified_noise(plan)
    if plan.examples < _sparse_rows(noise, plan.alpha):
        msg = f"plan.examples = {plan.examples}: the window of {noise.window:,} rows is wider than 2 alpha of them"
        raise PlanError(msg)


def verify_statistics(plan: StatisticsPlan) -> None:
    """Make every figure of a plan again.

    Raises:
        PlanError: A figure does not hold.
    """
    noise = _verified_noise(plan)
    _verify_start(plan)
    gap = _gap(plan, noise, plan.declared)
    if not 0.0 < plan.gap <= gap:
        raise PlanError(f"plan.gap = {plan.gap!r}: must be above 0 and at most {gap!r}: alpha less the window's share")
    first, last = _margins(plan, noise, plan.declared, complete=plan.complete)
    if plan.margin > last or not first <= plan.first_margin <= plan.margin:
        raise PlanError(f"plan.margin = {plan.margin}: must be at most {last}, and first_margin from {first} to it")
    least = paid_bound(divergence(plan.attributes), plan.layout.size, plan.gap) if plan.complete else 1
    if plan.paid < least:
        raise PlanError(f"plan.paid = {plan.paid}: {least:,} answers may have to be paid at a gap of {plan.gap!r}")
    if not plan.complete and plan.gap < _LEAST_GAP * plan.alpha * (1.0 - 1e-9):
        raise PlanError(f"plan.gap = {plan.gap!r}: must be at least a quarter of alpha where K is declared")


def _verify_start(plan: StatisticsPlan) -> None:
    """Refuse noisy marginals of other attributes, or where the start is uniform; what they cost is in the event."""
    started, places = plan.start_slope is not UNSET, set(range(len(plan.attributes)))
    sound = len(set(plan.start)) == len(plan.start) <= MAX_SIDES  # each has noise of a side of its own
    sound = sound and all(one and places.issuperset(one) and len(set(one)) == len(one) for one in plan.start)
    if started == plan.complete or started != bool(plan.start) or not sound:
        msg = "plan.start: must be different marginals of the attributes, with start_slope, where K is declared only"
        raise PlanError(msg)


def _verified_noise(plan: StatisticsPlan | SparseVectorPlan) -> NoisePlan:
    """Check what both predictors' plans have in common, and return the noise."""
    check_bounds(plan)
    noise = plan.paid_noise
    if not 1 <= plan.examples <= plan.declared:
        raise PlanError(f"plan.examples = {plan.examples}: must be at least 1, and at most {plan.declared} declared")
    proved = delta_at(table_event(plan), plan.epsilon)
    if not proved <= plan.phases[0].delta <= plan.delta:
        msg = f"plan.phases[0].delta = {plan.phases[0].delta!r}: {proved!r} is proved, and {plan.delta!r} declared"
        raise PlanError(msg)
    above, below = windows(noise, _asked(plan.predictor, plan.questions, plan.paid), plan.beta)
    if noise.above < above or noise.below < below:
        msg = f"plan.noise: above = {noise.above}, below = {noise.below}: must be at least {above} and {below}"
        raise PlanError(msg)
    return noise
