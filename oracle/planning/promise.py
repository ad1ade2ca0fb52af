"""What a plan promises of the error: a bound, how it is known, and what it rests on, in plain words."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET

from oracle.planning.bisection.model import BisectionPlan
from oracle.planning.boxes.edges import fewest_ones
from oracle.planning.classical.model import ClassicalPlan
from oracle.planning.distribution.model import DistributionPlan
from oracle.planning.ensemble.model import EnsemblePlan
from oracle.planning.ensemble.sizes import least_threshold, terms_of
from oracle.planning.plan import BoxPlan, Plan
from oracle.planning.statistics.model import UNDECLARED, SparseVectorPlan, StatisticsPlan, TablePlan
from oracle.planning.stumps.model import StumpsPlan

__all__ = ["Promise", "promise_of"]


class Promise(msgspec.Struct, frozen=True, kw_only=True):
    """A bound on the error of honest queries, and all that it rests on.

    Attributes:
        bound: The error that the answers stay below: a share of wrong answers, or of values the average distance.
        beyond: Whose error it comes on top of; "" where it is the whole error.
        missed: Probability of missing it although every condition holds; None where no such probability is known.
        kind: "theorem" (proved under the conditions), "estimate" (some figure in it comes from experiments), or
            "nominal" (constants that a paper's proof hides, solved for).
        basis: The proof or the experiment, in words.
        conditions: What must be true of data and stream. Where one is not, the error may be anything.
        on: What the bound is for.
        questions: How many questions of a shard it is made for, the first ones; None for all.
        told: The `error` of answers, alpha, where the bound is sharper for the rows that are declared; else unset.
    """

    bound: float
    beyond: str
    missed: float | None
    kind: Literal["theorem", "estimate", "nominal"]
    basis: str
    conditions: tuple[str, ...]
    on: str = "honest queries"
    questions: int | None = None
    told: float | msgspec.UnsetType = UNSET

    def over(self, rounds: int, paid_left: int | None) -> str | None:
        """Return why nothing new is promised; None where it is.

        Args:
            rounds: Of a shard, answered so far.
            paid_left: How many answers its data still pay for; None where they pay for none.
        """
        if paid_left == 0:
            return "all paid answers are spent, and what does not follow from them is not verified"
        if self.questions is not None and rounds >= self.questions:
            return f"it was for the first {self.questions:,} questions"
        return None


_SAME: tuple[str, ...] = ("the training rows are independent draws, and honest queries are drawn as they are",)
_SIMULATED = (
    "a side loses at most 0.9 of its stripe: the worst of the simulated adversaries took 0.40 to 0.67 of it "
    "(`make adversaries`)"
)
_CLASSICAL_BOX = (
    "the exponential mechanism's tail and exact binomial tails (`planning.classical.box_error`); of all boxes it "
    "learns one that cuts off few rows labelled 1, which is the best one only where a box fits every label"
)
_STUMP = "the best stump's"
_BOX_FITS = "a box on these sides fits every label; labels that no such box fits add an error of their own, or more"


def promise_of(plan: Plan) -> Promise:
    """Return what a plan promises of its answers' error."""
    for kind, of in _PROMISES.items():
        if isinstance(plan, kind):
            return of(plan)
    raise TypeError(f"plan: no promise is known of predictor {plan.predictor}")


def _honest(plan: BoxPlan | EnsemblePlan) -> tuple[str, ...]:
    if plan.gamma == 1.0:
        return (*_SAME, "nobody else asks: gamma = 1")
    return (*_SAME, f"at least {plan.gamma:g} of the stream is honest; anybody may have chosen the rest")


def _not_rare(plan: BoxPlan | ClassicalPlan, beyond: str = "") -> str:
    """Return when a promise is worth something."""
    least = f"{beyond} error and {plan.expected_error:.4f} together" if beyond else f"{plan.expected_error:.4f}"
    return (
        f"either label is right for more than {least} of the queries; where one is rarer, giving everybody the other "
        "one keeps the promise too"
    )


def _share(share: float, sides: int, slicing: str) -> tuple[str, ...]:
    """Return what `faces` takes for granted; with one side, or in another order, there is nothing to share."""
    if slicing != "faces" or sides == 1:
        return ()
    wide = "`bounds` are about as wide as the rows labelled 1 lie on each feature"
    return (
        f"no side gets less than {share:.0%} of its stripe: {wide}, and no two features depend strongly on each other",
    )


def _assignment(plan: BoxPlan) -> tuple[str, ...]:
    """Return what assigning rows to sides assumes, and how far `init` checks it."""
    if plan.scale is UNSET:
        return _share(plan.share, len(plan.sides), plan.slicing)
    condition = (
        f"no side gets less than {plan.share:.0%} of its stripe: features do not depend strongly on each other, and "
        f"{fewest_ones(plan.alpha):.0%} of the rows or more are labelled 1 (units, tails and equal values do not "
        "matter: edges are learned from the rows); `init` checks it for phase 1, and makes no state where it fails"
    )
    return (condition,)


def _box(plan: BoxPlan) -> Promise:
    if plan.nominal:
        basis, kind = "Lemma 4.13 of Stemmer (2024), with constants that its proof asserts", "nominal"
    else:
        basis, kind = _SIMULATED, "estimate"
    return Promise(
        bound=plan.expected_error,
        beyond="",
        missed=plan.beta,
        kind="nominal" if kind == "nominal" else "estimate",
        basis=basis,
        conditions=(_BOX_FITS, *_assignment(plan), *_honest(plan), _not_rare(plan)),
    )


def _stump(plan: StumpsPlan) -> Promise:
    if plan.nominal:
        basis = "Theorem 4.17 of Stemmer (2024), with constants that its proof asserts"
        conditions: tuple[str, ...] = ("a stump on these features fits every label", *_honest(plan))
        return Promise(
            bound=plan.expected_error, beyond="", missed=plan.beta, kind="nominal", basis=basis, conditions=conditions
        )
    return Promise(
        bound=plan.expected_error,
        beyond=_STUMP,
        missed=plan.beta,
        kind="estimate",
        basis=f"the choice of the stump is proved; of the rest, {_SIMULATED}",
        conditions=(*_honest(plan), _not_rare(plan, _STUMP)),
    )


def _classical(plan: ClassicalPlan) -> Promise:
    if plan.concept == "stump":
        return Promise(
            bound=plan.expected_error,
            beyond=_STUMP,
            missed=plan.beta,
            kind="theorem",
            basis="the exponential mechanism's tail, and uniform convergence over all stumps (`planning.classical`)",
            conditions=(*_SAME, _not_rare(plan, _STUMP)),
        )
    shared = _share(plan.share, len(plan.sides), plan.slicing)
    return Promise(
        bound=plan.expected_error,
        beyond="",
        missed=plan.beta,
        kind="estimate" if shared else "theorem",
        basis=_CLASSICAL_BOX,
        conditions=(_BOX_FITS, *shared, *_SAME, _not_rare(plan)),
    )


def _bisection(plan: BisectionPlan) -> Promise:
    paper = plan.profile == "paper"
    return Promise(
        bound=plan.expected_error * len(plan.features),
        beyond="",
        missed=None,
        kind="theorem" if paper else "estimate",
        basis="Theorem 2.1 of Choromanski et al. (2015)" if paper else "simulations (`make bisection`)",
        conditions=(
            f"1/{plan.directions} of the queries is in each cone" if paper else "nobody else asks",
            "queries lie in the span of the directions it learns in, and come in all of them from the beginning",
        ),
    )


def _distribution(plan: DistributionPlan) -> Promise:
    paper = plan.nominal
    return Promise(
        bound=plan.error,
        beyond="",
        missed=plan.beta,
        kind="nominal" if paper else "theorem",
        basis="Bun, Steinke and Ullman (2017), Theorem 5.13, with its gaps closed (PRIVACY.md, section 16)"
        if paper
        else "tails of the noise, and thresholds that retire (PRIVACY.md, Theorem 31)",
        conditions=(
            f"at most {plan.comparisons:,} comparisons with noise were made, as {plan.questions:,} shares may take",
            "anybody may choose the questions, by the answers before; `verified` says of each answer whether it holds",
        ),
        on="any question",
        told=plan.alpha if plan.error < plan.alpha else UNSET,
    )


def _questions(plan: TablePlan) -> str:
    return f"it is one of the first {plan.questions:,} questions; anybody may choose them, by the answers before"


def _statistics(plan: StatisticsPlan) -> Promise:
    kind: Literal["theorem", "estimate", "nominal"] = "theorem" if plan.complete else "estimate"
    if plan.nominal:
        kind, basis = "nominal", "the lecture of Ziani (PrivateMW), corrected (PRIVACY.md, Theorem 25)"
        needs: tuple[str, ...] = ()
    elif plan.complete:
        basis = "each paid answer takes more than 2 gamma^2 off what the divergence can be (PRIVACY.md, Theorem 24)"
        needs = (f"at most {UNDECLARED:.0%} of the rows have a value that is not declared, or none",)
    else:
        basis = (
            f"proved until {plan.paid:,} answers are paid (PRIVACY.md, Theorem 24); that this is late is an estimate"
        )
        needs = (
            f"fewer than {plan.paid:,} were paid before; after them they come from the hypothesis alone, and say so",
        )
    return Promise(
        bound=plan.alpha,
        beyond="",
        missed=plan.beta,
        kind=kind,
        basis=basis,
        conditions=(_questions(plan), *needs),
        on="any question",
        questions=plan.questions,
    )


def _sparse_vector(plan: SparseVectorPlan) -> Promise:
    return Promise(
        bound=plan.alpha,
        beyond="",
        missed=plan.beta,
        kind="theorem",
        basis="tails of the noise (PRIVACY.md, section 14): shares further from their threshold are told right",
        conditions=(
            _questions(plan),
            f'"above" was said fewer than {plan.paid:,} times; after them all it says is "budget-spent"',
        ),
        on="any question",
        questions=plan.questions,
    )


def _ensemble(plan: EnsemblePlan) -> Promise:
    return Promise(
        bound=plan.changed,
        beyond="what the teachers' own votes err",
        missed=plan.beta,
        kind="estimate",
        basis="what noise changes of votes that are spread evenly about a threshold (PRIVACY.md, Estimate 28)",
        conditions=(
            f"at most {plan.contested:.3g} of the honest queries have votes within T/20 of a threshold, T the teachers",
            f"and at most {terms_of(plan).later:.3g} where teachers were fitted to earlier ones' answers",
            "teachers fitted to what earlier ones answer err no more than these: the learner finds their rule again",
            _steered(plan),
            *_honest(plan),
        ),
    )


def _steered(plan: EnsemblePlan) -> str:
    """Return how far thresholds may go where noise is widest; it says nothing where shares are counted, but for one."""
    share, name = (0.2, "a fifth") if plan.shares is UNSET else (min(plan.shares), f"{min(plan.shares):.3g}")
    low = least_threshold(plan.alpha, share, min(phase.slope for phase in plan.phases) * plan.teachers)
    return (
        f"a class of {name} of the rows is answered as often as it is there with a threshold from {low:.2f} to "
        f"{1.0 - low:.2f} of T: else too often or too seldom; more examples widen that"
    )


_PROMISES: Final[Mapping[type[Plan], Callable[[Any], Promise]]] = {
    ClassicalPlan: _classical,
    BisectionPlan: _bisection,
    StumpsPlan: _stump,
    BoxPlan: _box,
    StatisticsPlan: _statistics,
    SparseVectorPlan: _sparse_vector,
    DistributionPlan: _distribution,
    EnsemblePlan: _ensemble,
}
"""A plan of stumps is one of boxes too, so it comes first."""
