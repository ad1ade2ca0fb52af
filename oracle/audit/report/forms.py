"""Forms that others have made, filled in from a plan and its audit; what the owner must say is left open."""

import re
import textwrap
from decimal import ROUND_CEILING, Context
from pathlib import Path
from string import Template
from typing import Final, Literal

from msgspec import UNSET

from oracle.audit.report.contents import Report
from oracle.errors import RefusedError
from oracle.planning.plan import Plan, truth_of
from oracle.planning.promise import promise_of
from oracle.planning.statistics.model import TablePlan

__all__ = ["Form", "filled_in"]

Form = Literal["registry", "nist"]

_TEMPLATES: Final = {"registry": "registry.yaml", "nist": "nist.md"}
_PROOFS: Final = {
    "rectangles": "thresholds on noisy numbers of private points, and Stoppers (Theorem 11",
    "stumps": "two private choices, thresholds on noisy numbers of points, and Stoppers (Theorems 10 and 11",
    "classical": "the exponential mechanism, over all edges (Theorem 12",
    "bisection": "bits of noisy comparisons of the rows' mean (Theorem 12",
    "statistics": "private multiplicative weights: noisy comparisons, of which K are paid (Theorem 23",
    "sparse-vector": "a sparse vector: noisy comparisons, of which K are paid (Theorem 23",
    "distribution": "noisy comparisons with thresholds, of which K are paid (Theorem 30",
    "ensemble": "thresholds on teachers' votes with noise, Stoppers, and noisy counts (Theorem 29",
}
"""What each predictor releases by, and where PRIVACY.md proves it."""

_UNPROVED: Final = ", but not of this plan: epsilon and delta of its profile, paper, are bounded by no proof"
_KINDS: Final = {
    "theorem": "proved",
    "estimate": "an estimate, with some figure from experiments, and no theorem",
    "nominal": "a name, with constants that nobody proved",
}
"""Of promises, in words."""

_UP: Final = Context(prec=4, rounding=ROUND_CEILING)
_WIDTH: Final = 100
"""Columns of a checklist."""

_ROW = "a training row that is not there is blanked and keeps its number"
_QUERY = ", a query that is not there is a round without one"
_NOISE: Final = "Noise comes from integer tables under AES-256; no floating-point noise is added."
_CHANNELS: Final = (
    "Replays repeat the noise and spend nothing. That answering time does not tell the label is measured for boxes, "
    "and proved of no predictor. Caches, power and the machine's memory are not covered. Whether and why a message is "
    "rejected is public."
)


def filled_in(form: Form, plan: Plan, report: Report) -> str:
    """Return a form: OpenDP's registry of deployments (YAML), or a checklist along NIST SP 800-226 (Markdown).

    Args:
        form: Which.
        plan: Of what is deployed.
        report: Of its audit.

    Raises:
        RefusedError: Epsilon and delta of the plan are nominal, and a registry is of guarantees.
    """
    if plan.nominal and form == "registry":
        raise RefusedError("--format = 'registry': epsilon and delta of this plan are names, and no guarantee")
    template = Template((Path(__file__).parent / "templates" / _TEMPLATES[form]).read_text(encoding="utf-8"))
    facts = {**_guarantee(plan), **_deployment(plan), **_audit(plan, report)}
    text = template.substitute({name: text.replace("\n", " ") for name, text in facts.items()})
    return "".join(f"{_wrapped(line)}\n" for line in text.splitlines()) if form == "nist" else text


def _wrapped(line: str) -> str:
    """Return a line of Markdown as several that can be read, unless it is a heading."""
    if line.startswith("#"):
        return line
    indent = "  " if line.startswith("- ") else ""
    return textwrap.fill(line, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _rounded_up(value: float) -> float:
    """Return a figure of few digits that is no smaller: what is claimed holds all the more; the plan has all digits.

    >>> _rounded_up(3.779003850804928e-08), _rounded_up(0.001)
    (3.78e-08, 0.001)
    """
    return float(_UP.create_decimal(repr(value)))


def _guarantee(plan: Plan) -> dict[str, str]:
    hides, delta = _hides(plan), _rounded_up(max(phase.delta for phase in plan.phases))
    sums = f", and all records' deltas sum to {_rounded_up(plan.delta)!r} at most, for ever" if plan.sums_delta else ""
    person = "nothing in the plan bounds m"
    if plan.person is not UNSET:
        rows, epsilon = plan.person.rows, _rounded_up(plan.person.epsilon)
        person = f"{rows} training rows of a person at most are used: epsilon = {epsilon!r} for these"
    unit = "One record: one training row or one query." if hides else f"One training row; {_unprotected(plan)}."
    return {
        "epsilon": _yaml_number(_rounded_up(plan.epsilon)),
        "delta": _yaml_number(delta),
        "nominal": " (nominal: no proof bounds it)" if plan.nominal else "",
        "variant": "Approximate" if delta > 0.0 else "Pure",
        "deltas": f"A record pays delta = {delta!r} at most{sums}." if delta else "Delta is 0.",
        "square": f"1/n^2 is {1.0 / plan.declared**2:.2g} for the n = {plan.declared:,} rows that are declared",
        "unit": unit,
        "neighbours": f"Neighbours differ in one record, there or not: {_ROW}{_QUERY if hides else ''}. The numbers of "
        "declared rows and of rounds are public. Exchanging a record for another is two records.",
        "composition": "A record pays epsilon and delta once, for all answers, however many there are. m records of a "
        f"person pay m times epsilon, and more delta; {person}. Other models of the same rows, and forks, add theirs.",
        "mechanism": f"{_PROOFS[plan.predictor]} of PRIVACY.md{_UNPROVED if plan.nominal else ''}){_counts(plan)}",
    }


def _counts(plan: Plan) -> str:
    """Return what is released of true labels, behind the mechanism that answers; "" where nothing is."""
    truth = truth_of(plan)
    if truth is None:
        return ""
    return (
        f"; of true labels that come later, once for each {truth.rounds:,} rounds, the numbers of right and of wrong "
        f"answers with discrete Laplace noise (Theorem 32): {truth.epsilon:g} of a query's epsilon"
    )


def _deployment(plan: Plan) -> dict[str, str]:
    hides, promise = _hides(plan), promise_of(plan)
    columns = [f"{one.name} ({one.kind})" for one in plan.features]
    if isinstance(plan, TablePlan):
        columns = [f"{one.name} ({one.cells} cells)" for one in plan.attributes]
    beyond = f" beyond {promise.beyond}" if promise.beyond else ""
    first = "" if promise.questions is None else f", the first {promise.questions:,} of them"
    missed = "" if promise.missed is None else f", missed with probability {_rounded_up(promise.missed):g} at most"
    private = hides or plan.released
    others = "" if private else f"; {_unprotected(plan)}"
    own = "An asker learns the answer to its own query, and nobody else may read it." if private else ""
    return {
        "product": "Machine learning model" if plan.released else "Interactive API",
        "domain": f"{plan.declared:,} declared rows of {', '.join(columns)}",
        "public": f"the plan, rounds and their times, phases, and which messages were rejected and why{others}",
        "actors": "Whoever runs Perpetua is trusted with rows, queries, state and key. Askers are not: all of them may "
        f"work together, know all records but one, and choose queries by earlier answers. {own}",
        "source": "Dynamic" if hides else "Static",
        "dynamics": "Queries become records that later ones are answered by."
        if hides
        else "No new private records come in.",
        "channels": _CHANNELS if plan.nominal else f"{_NOISE} {_CHANNELS}",
        "utility": f"Error at most {_rounded_up(promise.bound):g}{beyond} on {promise.on}{first}{missed}. This is "
        f"{_KINDS[promise.kind]}: {promise.basis}. It rests on: {'; '.join(promise.conditions)}.",
    }


def _audit(plan: Plan, report: Report) -> dict[str, str]:
    date = report.made[:10]
    return {
        "name": plan.name,
        "slug": re.sub(r"[^a-z0-9]+", "_", plan.name.lower()).strip("_") or "perpetua",
        "predictor": plan.predictor,
        "version": report.version,
        "digest": plan.digest.hex(),
        "date": date,
        "audited": f"`perpetua audit` of {date}, which can refute and not prove: {report.banner}",
    }


def _yaml_number(value: float) -> str:
    """Return a number as YAML 1.1 reads it: one with an exponent needs a point."""
    digits, exponent, power = f"{value!r}".partition("e")
    return f"{digits}{'' if '.' in digits or not exponent else '.0'}{exponent}{power}"


def _unprotected(plan: Plan) -> str:
    return "a query changes no answer but its own" if plan.released else "what queries say is not protected"


def _hides(plan: Plan) -> bool:
    return plan.protects_queries and not plan.released
