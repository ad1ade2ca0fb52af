"""`perpetua plan`: print every number of a run before any data is read."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Generic, Literal, NamedTuple, TypeVar

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from oracle.cli.models import read_in_range, read_model
from oracle.cli.options import AsJson, ModelFile
from oracle.cli.output import Row, print_json, print_rows, wide_console
from oracle.cli.plan.bisection import bisection_phases, bisection_rows, compare_bisection
from oracle.cli.plan.boxes import TERMS, box_phases, box_rows, compare_boxes
from oracle.cli.plan.classical import ADVICE, beside, classical_choices, classical_rows
from oracle.cli.plan.distribution import (
    compare_distributions,
    distribution_figures,
    distribution_rows,
    values_table,
)
from oracle.cli.plan.ensemble import LIFE_TERMS, ensemble_phases, ensemble_rows
from oracle.cli.plan.page import mebibytes, promise_rows, truth_rows
from oracle.cli.plan.statistics import (
    attribute_table,
    compare_statistics,
    counts_figures,
    sparse_rows,
    statistics_rows,
)
from oracle.cli.plan.stumps import stump_rows
from oracle.cli.progress import Progress
from oracle.cli.suggest import refused_with_offers
from oracle.errors import InputError, PlanError, RefusedError
from oracle.planning.boxes.tight import PLAN_STEPS
from oracle.planning.features import Feature
from oracle.planning.model import Model
from oracle.planning.plan import Plan
from oracle.planning.planner import as_classical, as_paper, plan_sufficient
from oracle.planning.promise import promise_of
from oracle.planning.questions import QuestionPlan
from oracle.planning.serving import serving
from oracle.planning.sharding import refuse_small_parts, shard_model
from oracle.planning.statistics.declared import declared_in_words

__all__ = ["PAGES", "Page", "run"]

PlanT = TypeVar("PlanT", bound=Plan)


_NOMINAL = """\
The paper's epsilon and delta are nominal: they are what the algorithm is called
with. Theorem 4.1 of Stemmer (2024) hides a constant, and a query may pay for two
protocols (Theorem 4.6), so no bound on what a record pays is claimed here."""

_NOMINAL_TABLE = """\
The lecture's epsilon and delta are nominal: they are what the algorithm is called with. Its proof is for noise of real
numbers, and no accountant here checks it."""


_NOMINAL_DISTRIBUTION = """\
The paper's epsilon and delta are nominal: they are what the algorithm is called with. A step of its proof is wrong as
printed, and its noise is of real numbers (PRIVACY.md, section 16), so no bound on what a row pays is claimed here."""


class Page(NamedTuple, Generic[PlanT]):
    """What is shown of one kind of plan, beside what is shown of every plan.

    Attributes:
        phases: The table of its phases, or of what else it consists of.
        compare: The table of a plan and its paper's side by side, where there is one.
        terms: What the words in the table of phases mean.
        nominal: Why epsilon and delta of its profile `paper` are nominal.
    """

    rows: Callable[[PlanT], Iterator[Row]]
    phases: Callable[[PlanT], Table]
    compare: Callable[[PlanT, PlanT], Table] | None = None
    terms: tuple[Row, ...] = ()
    figures: Callable[[PlanT], Mapping[str, object]] = lambda _plan: {}
    nominal: str = _NOMINAL


PAGES: Final[Mapping[str, Page[Any]]] = {
    "rectangles": Page(box_rows, box_phases, compare_boxes, TERMS),
    "stumps": Page(stump_rows, box_phases, compare_boxes, TERMS),
    "bisection": Page(bisection_rows, bisection_phases, compare_bisection),
    "classical": Page(classical_rows, classical_choices),
    "statistics": Page(statistics_rows, attribute_table, compare_statistics, (), counts_figures, _NOMINAL_TABLE),
    "sparse-vector": Page(sparse_rows, attribute_table, figures=counts_figures),
    "distribution": Page(
        distribution_rows, values_table, compare_distributions, (), distribution_figures, _NOMINAL_DISTRIBUTION
    ),
    "ensemble": Page(ensemble_rows, ensemble_phases, None, LIFE_TERMS),
}
"""The page of every kind in `oracle.planning.kinds.KINDS`."""

_LOOK: Final = "if one of these fails, the error has no bound: check with `perpetua evaluate` on your own rows"
_SECONDS_A_YEAR = 365.25 * 86_400


def run(
    model_file: ModelFile,
    compare: Annotated[
        Literal["paper"] | None,
        typer.Option("--compare", help="Show the constants of the paper's own proofs beside this plan."),
    ] = None,
    as_json: AsJson = False,
    shards: Annotated[
        int, typer.Option("--shards", help="Number of shards; the plan is that of each, as in init --shards.")
    ] = 1,
) -> None:
    """Print the plan of a model: examples needed, expected error, phases, delta schedule, memory. Reads no data."""
    try:
        model = read_model(model_file)
    except InputError as exc:
        near = read_in_range(model_file, exc)
        raise (refused_with_offers(exc, near, as_declared=False) if near else exc) from None
    if compare is not None and model.profile == compare:
        raise RefusedError(
            "--compare = 'paper': this model is of the paper profile itself; compare one of profile tight with it"
        )
    part = shard_model(model, shards)
    try:
        _show(model, part, shards, compare=compare, as_json=as_json)
    except PlanError as exc:
        raise refused_with_offers(exc, part) from exc


def _show(model: Model, part: Model, shards: int, *, compare: str | None, as_json: bool) -> None:
    """Print the plan of each shard's part, and refuse it where the part has too few examples."""
    with Progress("planning", PLAN_STEPS, "steps at most") as progress:
        plan = plan_sufficient(part, progress.at)
    paper = None if compare is None else _paper(part)
    other = as_classical(part)
    classical = None if other is None else plan_sufficient(other)
    if as_json:
        print_json(_json(plan, paper, classical), pretty=True)
    else:
        console = wide_console()
        if shards > 1:
            parts = f"{shards}, each as follows; a record is in one of them only, and delta sums to "
            print_rows(console, [("shards", f"{parts}at most {model.delta:g} over all")])
        _print(console, plan, part, classical)
        if paper is not None:
            _print_comparison(console, plan, paper)
    refuse_small_parts(model, shards, plan)


def _paper(model: Model) -> Plan:
    """Plan the same model as the paper does, for just enough examples."""
    paper = as_paper(model)
    if paper is None:
        raise RefusedError(f"--compare = 'paper': predictor {model.predictor} has no such profile")
    return plan_sufficient(msgspec.structs.replace(paper, examples=1))


def _json(plan: Plan, paper: Plan | None, classical: Plan | None) -> bytes:
    """Return a plan, with the classical one within it, or both profiles' plans."""
    promise, memory = msgspec.json.encode(promise_of(plan)), msgspec.json.encode(serving(plan)._asdict())
    data = b'%b,"promise":%b,"serving":%b}' % (plan.encode()[:-1], promise, memory)
    for name, figures in PAGES[plan.predictor].figures(plan).items():
        data = b'%b,"%b":%b}' % (data[:-1], name.encode(), msgspec.json.encode(figures))
    if classical is not None:
        data = b'%b,"classical":%b}' % (data[:-1], classical.encode())
    if paper is not None:
        data = b'{"tight":%b,"paper":%b}' % (data, paper.encode())
    return data


def _print(console: Console, plan: Plan, model: Model, classical: Plan | None) -> None:
    declared, fewer = model.examples, declared_in_words(model)
    enough = plan.declared == declared
    page = PAGES[plan.predictor]
    rows = (
        ("model", f"{plan.name}: {plan.predictor}, profile {plan.profile}"),
        *_types(plan.features),
        ("examples", f"{plan.examples if enough else plan.declared:,} wanted, {declared:,} declared"),
        *([] if enough else [("", f"too few; all that follows is for {plan.declared:,}")]),
        *([("", fewer)] if fewer else []),
        ("privacy", _privacy(plan)),
        *truth_rows(plan),
        *([("honest share", f"at least {plan.gamma:g} of the stream")] if _is_of_the_stream(plan) else []),
        *page.rows(plan),
        *promise_rows(promise_of(plan)),
        *([("", _LOOK)] if plan.answers == "label" else []),
        ("serving", _serving(plan)),
        ("lasts", f"{plan.rounds:.3g} rounds in {_phases(len(plan.phases))}: {_years(plan.rounds)}"),
        *_beside(plan, classical),
    )
    print_rows(console, rows)
    if plan.nominal:
        console.print(page.nominal)
    if classical is not None:
        console.print(ADVICE)
    console.print()
    console.print(page.phases(plan))
    print_rows(console, page.terms)


def _privacy(plan: Plan) -> str:
    if not plan.sums_delta:
        said = f"epsilon = {plan.epsilon:g}, delta = {plan.delta:g}, of each training row"
        return f"{said}: both nominal" if plan.nominal else f"{said}, whatever is asked, for ever"
    who = "a record" if plan.protects_queries and not plan.released else "a training row"
    if plan.nominal:
        return f"epsilon = {plan.epsilon:g} a record, sum of delta = {plan.delta:g}: both nominal"
    return f"epsilon = {plan.epsilon:g} {who}; delta sums to at most {plan.delta:g} for ever"


def _is_of_the_stream(plan: Plan) -> bool:
    """Return whether the error depends on who asks."""
    return not plan.released and plan.sums_delta


def _serving(plan: Plan) -> str:
    """Return what a daemon takes in memory at most, whatever it is asked."""
    said = serving(plan)
    more = f", {mebibytes(said.shard)} more for each further shard" if plan.sums_delta else ""
    return f"at most {mebibytes(said.daemon)} of memory{more}; model.limits bound the largest message, and with it this"


def _types(features: Sequence[Feature]) -> Iterator[Row]:
    others = [f"{feature.name} is {feature.accepts}" for feature in features if feature.kind != "number"]
    if others:
        yield "types", "; ".join(others)


def _beside(plan: Plan, classical: Plan | None) -> Iterator[Row]:
    if classical is not None:
        yield beside(classical)
    elif not isinstance(plan, QuestionPlan) and any(feature.kind == "string" for feature in plan.features):
        yield "classical", "no such learner: it chooses among all edges of a finite grid, and strings have none"


def _print_comparison(console: Console, plan: Plan, paper: Plan) -> None:
    page = PAGES[plan.predictor]
    if page.compare is not None:
        console.print()
        console.print(page.compare(plan, paper))
        if paper.nominal:
            console.print(page.nominal)


def _phases(count: int) -> str:
    return "1 phase" if count == 1 else f"{count} phases"


def _years(rounds: int) -> str:
    return f"{rounds / 1e4 / _SECONDS_A_YEAR:,.0f} years at 10,000 queries a second"
