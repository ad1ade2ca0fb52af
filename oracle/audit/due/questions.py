"""What plans of ensembles, distributions, tables, bisection and classical learners owe, by their theorems."""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from msgspec import UNSET

from oracle.audit.due.bounds import (
    answer_tables,
    comparisons_tables,
    draw_tables,
    laplace_bits,
    normal_bits,
    overflow,
)
from oracle.audit.due.game import Game
from oracle.audit.due.parts import Due, at_least, at_most, fits, price, truth_dues
from oracle.planning.bisection.model import BisectionPlan
from oracle.planning.classical.model import ClassicalPlan
from oracle.planning.distribution.model import DistributionPlan, domain_of
from oracle.planning.ensemble.model import EnsemblePlan
from oracle.planning.statistics.model import StatisticsPlan, TablePlan

__all__ = ["bisection_dues", "classical_dues", "distribution_dues", "ensemble_dues", "table_dues"]

_EDGES: Final = 1 << 28
_MOST_BITS: Final = 1 << 22
_NEAR: Final = 1.0 + 1e-9


def classical_dues(plan: ClassicalPlan) -> Iterator[Due]:
    """Compare the sum of all choices' epsilons, in fractions, with the plan's: Theorem 12."""
    used = sum({"none": 0, "both": 2}.get(feature.sides, 1) for feature in plan.features)
    yield Due("sides", "as many as the features have", len(plan.sides) == used, f"{len(plan.sides)}, of {used}")
    drawn = plan.slicing == "faces" and plan.coin > 0.0  # without a coin all sides are shown each row
    moves, shown = (1, 1) if plan.concept == "stump" else (2, 1 if drawn else used)
    yield at_least("spread", "by how much one row may move losses apart", plan.spread, moves)
    yield at_least("choices", "choices that one row is shown to", plan.choices, shown)
    spent = Fraction(plan.scale) * moves * shown
    says = f"{float(spent):.9g}; at most {plan.epsilon:.9g}"
    yield Due("scale", "all choices together", 0 < spent <= Fraction(plan.epsilon), says)
    yield at_most("expected_error", "the error promised", plan.expected_error, plan.alpha * _NEAR, promise=True)


def bisection_dues(plan: BisectionPlan) -> Iterator[Due]:
    """Compose all bits exactly, as what dominates them: randomized responses, or one normal draw."""
    first = plan.phases[0]
    if not (plan.scale > 0.0 and plan.declared >= 1 and first.rounds >= 1):
        yield Due("scale", "there is noise on bits", holds=False, says=f"{plan.scale:g}")
        return
    slope = 1.0 / (plan.declared * plan.scale)
    exact = plan.noise == "gaussian" or first.rounds <= _MOST_BITS
    bits = (normal_bits if plan.noise == "gaussian" else laplace_bits)(
        slope, min(first.rounds, _MOST_BITS), plan.epsilon
    )
    if not exact:  # of so many bits the loss is normal, but for less than is asked of it here
        bits = normal_bits(slope, first.rounds, plan.epsilon)
    yield fits("phases[0].delta", f"{first.rounds:,} bits of {slope:.3g} nats", bits, first.delta)
    later = max((phase.delta for phase in plan.phases[1:]), default=0.0)
    yield at_most("phases[1].delta", "nothing is asked later", later, 0.0)
    yield at_most("expected_error", "the error promised", plan.expected_error, plan.alpha * _NEAR, promise=True)


def distribution_dues(plan: DistributionPlan) -> Iterator[Due]:
    """Play against K thresholds, each of which is paid for once: Theorem 30; and redo Theorem 31 in whole numbers."""
    ladder = plan.thresholds
    steps = domain_of(plan.feature).size.bit_length() + plan.paid.bit_length() + 1
    tables = draw_tables(ladder.slope, plan.rounds * steps, plan.epsilon) if ladder.slope > 0.0 else 1.0
    yield from price("ladder", Game(ladder.slope, ladder.gap, plan.paid, plan.epsilon), plan.phases[0].delta, tables)
    rows, margin, gap, paid = plan.declared, ladder.margin, ladder.gap, plan.paid
    asked = plan.questions * paid.bit_length()
    yield at_least("comparisons", "of as many questions", plan.comparisons, asked, promise=True)
    wrong = asked / (1.0 + math.exp(min(ladder.slope * (margin + 0.5), 700.0)))
    yield at_most("ladder.margin", "no comparison errs", wrong, plan.beta * (1.0 + 1e-6), promise=True)
    yield at_least("ladder.margin", "either sign does harm to one side only", 2 * margin, gap + 1, promise=True)
    wide = ladder.width * (paid + 1)
    yield at_least("ladder.width", "between any two thresholds", wide, rows + paid * (2 * margin + gap), promise=True)
    met = rows - 2 * margin - gap
    yield at_least("ladder", "zones do not meet", met, (paid + 1) * (gap + 3), promise=True)
    error = Fraction(ladder.width + 1, 2 * rows)
    yield Due("error", "half of that and a row", error <= Fraction(plan.error), f"{plan.error:.6g}", promise=True)
    yield at_most("error", "the error promised", plan.error, plan.alpha, promise=True)


def table_dues(plan: TablePlan) -> Iterator[Due]:
    """Play against K paid answers, behind noisy marginals: Theorem 22; or add pure parts up: Theorem 19."""
    noise, delta = plan.paid_noise, plan.phases[0].delta
    if not noise.slope > 0.0:
        yield Due("noise.slope", "there is noise", holds=False, says=f"{noise.slope:g}")
        return
    starts: tuple[tuple[float, float, float], ...] = ()
    draws, tables, pure = 2 * (plan.rounds + plan.paid) + 1, 0.0, Fraction(0)
    if isinstance(plan, StatisticsPlan) and plan.start_slope is not UNSET:
        counts = len(plan.start)
        starts = ((plan.start_slope, plan.start_slope, 2.0 * plan.start_slope),) * counts
        tables = comparisons_tables(counts * _EDGES, counts * plan.start_slope)
        pure = counts * Fraction(plan.start_slope)
    tables += draw_tables(noise.slope, draws, plan.epsilon)
    if noise.law == "gumbel":
        game = Game(noise.slope, None, plan.paid, plan.epsilon, starts=starts)
        yield from price("noise.slope", game, delta, tables)
        paid_wrong = -math.expm1(-math.exp(-noise.slope * noise.above))
        free_wrong = math.exp(-math.exp(min(noise.slope * noise.below, 700.0)))
    else:
        once = Fraction(0) if noise.threshold_slope is UNSET else Fraction(noise.threshold_slope)
        spent = pure + once + 2 * plan.paid * Fraction(noise.slope)
        bound = Fraction(plan.epsilon) * (1 + Fraction(1, 10**11))
        holds = once > 0 and spent <= bound
        yield Due("noise", "pure parts sum to at most epsilon", holds, f"{float(spent):.9g} of {plan.epsilon:.9g}")
        if not holds:
            return
        tables += draw_tables(float(once), 1, plan.epsilon)
        yield fits("phases[0].delta", "tables' distance", tables, delta)
        paid_wrong = math.exp(-noise.slope * noise.above)
        free_wrong = 0.0
        below = math.exp(-float(once) * noise.below)
        yield at_most("noise.below", "the threshold's own draw", below, plan.beta / 2.0, promise=True)
    asked = plan.questions if plan.predictor == "sparse-vector" else 2 * (plan.questions + plan.paid)
    half = plan.beta / 2.0 * (1.0 + 1e-9)
    yield at_most("noise.above", "no answer is paid for by mistake", asked * paid_wrong, half, promise=True)
    yield at_most("noise.below", "no answer is free by mistake", asked * free_wrong, half, promise=True)
    room = 2 * Fraction(plan.alpha) * plan.declared - (noise.above + noise.below)
    least = 2 if plan.predictor == "sparse-vector" else 0
    yield Due("noise", "the window is within 2 alpha n", room >= least, f"{float(room):.6g} rows left", promise=True)


def ensemble_dues(plan: EnsemblePlan) -> Iterator[Due]:
    """Play against each life's teachers, behind the noisy counts of a record: Theorem 29."""
    questions, control = min(2, len(plan.classes) - 1), plan.control.epsilon
    yield at_least("questions", "paid questions of one query", plan.questions, questions)
    most = plan.declared // plan.teacher_rows
    yield at_most("teachers", "teachers of as many rows", plan.teachers, most, promise=True)
    yield from truth_dues(plan)
    left = plan.epsilon - (0.0 if plan.truth is UNSET else plan.truth.epsilon)  # planned so for rows too
    shown = max(control, 0.0 if plan.share_slope is UNSET else plan.share_slope)
    for index, phase in enumerate(plan.phases):
        where, stopper = f"phases[{index}]", phase.stopper
        rounds = sum(one.rounds for one in plan.phases[index : index + 2])
        delta = min(one.delta for one in plan.phases[max(index - 2, 0) : index + 1])
        told = shown if index == 0 else control
        if not (stopper.epsilon > 0.0 and 1 <= stopper.threshold < stopper.cap and told > 0.0 and phase.slope > 0.0):
            yield Due(where, "there is noise, and the Stopper halts before its cap", holds=False, says=f"{stopper}")
            continue
        paid = questions * stopper.cap
        yield at_least(f"{where}.paid", "the Stopper's cap, for each paid question", phase.paid, paid)
        count = comparisons_tables(_EDGES, told)
        factor = answer_tables(phase.slope, rounds * (len(plan.classes) - 1), 4)
        starts = ((told, told, 2.0 * told),)
        yield from price(where, Game(phase.slope, phase.gap, paid, left, starts=starts), delta, count, factor)
        pure = Fraction(stopper.epsilon) + Fraction(control)
        fine = pure <= Fraction(left) * (1 + Fraction(1, 10**11))
        yield Due(f"{where}.stopper.epsilon", "a bit and a count", fine, f"{float(pure):.9g} of {left:.9g}")
        passed = overflow(stopper.epsilon, stopper.threshold, stopper.cap - 1)
        yield at_least(f"{where}.stopper.delta_cap", "what gets to the cap", stopper.delta_cap * _NEAR, passed)
        tables = comparisons_tables(rounds + _EDGES, stopper.epsilon) + count
        last = min(one.delta for one in plan.phases[index : index + 2])  # of those who are bits of it
        yield fits(f"{where}.stopper", "to get to the cap, and tables", passed + tables, last)
        lasts = min(one.rounds - one.lag for one in plan.phases[index : index + 2])
        yield at_most(f"{where}.least_rounds", "a life is over by the next phase's end", phase.least_rounds, lasts)
    yield at_most("changed", "the error promised", plan.changed, plan.alpha, promise=True)
