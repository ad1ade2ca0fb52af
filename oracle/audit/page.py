"""The report as one self-contained HTML file."""

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape
from itertools import groupby
from typing import Final

from oracle.audit.findings import NEAR, Check, Finding, near, outcome, verdict
from oracle.audit.score import score_in_words
from oracle.evaluation.document import PLOT_WIDTH, document, table

__all__ = ["page"]

_LEFT, _ROW = 330, 22
_TICKS: Final = 7
_LEGEND: Final = (
    "Each line is one adversary at one claim. The green mark is the claimed epsilon. The dot is the lower bound that "
    "was proved; the bar goes on to the upper end of the interval of the event that was counted. A dot to the right "
    "of its mark would refute the claim. Provable is what so many counted games could prove at most, were there no "
    "privacy at all."
)


def page(results: Sequence[Finding | Check], *, version: str, software: str, seed: str, miss: float) -> str:
    """Return the whole HTML document.

    Args:
        results: Of all parts, in the order they are to be shown.
        version: Of the software.
        software: Its fingerprint, hex digits.
        seed: Of the audit's randomness, hex digits.
        miss: Probability that at least one true claim is refuted by chance.
    """
    games = [one for one in results if isinstance(one, Finding)]
    checks = [one for one in results if isinstance(one, Check)]
    parts = [
        "<h1>What an auditor could prove about epsilon</h1>",
        f"<p>{escape(_summary(results))}</p>",
        f"<p class=soft>Perpetua {escape(version)} ({escape(software[:16])}); seed {escape(seed)}.</p>",
        f"<p class=soft>All hold but with probability {miss:g}.</p>",
        f"<p class=soft>{escape(_LEGEND)}</p>",
        f"<p class=soft>{escape(score_in_words())}</p>",
    ]
    for key, group in groupby(games, lambda one: (one.level, one.target)):
        found = list(group)
        nominal = " (nominal claims)" if found[0].nominal else ""
        parts.append(f"<h2>{escape(_title(*key))}{nominal}</h2>{_plot(found)}{_table(found)}")
    if checks:
        parts.append(f"<h2>Structure, restarts and time</h2>{_checks(checks)}")
    return document("Perpetua: audit", parts)


def _title(level: str, target: str) -> str:
    titles = {
        "between-thresholds": f"BetweenThresholds, {target} noise",
        "paid-questions": f"Paid questions, {target} noise",
        "stopper": "Stopper",
    }
    return titles.get(level, f"{level}: {target}")


def _summary(results: Sequence[Finding | Check]) -> str:
    levels = ", ".join(f"{level}: {factor:.2g}" for level, factor in near(results).items())
    return (
        f"{outcome(results)} ({len(results)} parts.) The claim over the best bound that was proved of it, by what was "
        f"attacked: {levels or 'no games were played'} (wanted: {NEAR:g} at most)."
    )


def _plot(found: Sequence[Finding]) -> str:
    most = 1.08 * max(max(one.epsilon, min(one.highest or one.lowest, 2.0 * one.epsilon)) for one in found)
    height = _ROW * len(found) + 34

    def across(value: float) -> float:
        return _LEFT + (PLOT_WIDTH - _LEFT - 20) * min(max(value, 0.0), most) / most

    box = f"viewBox='0 0 {PLOT_WIDTH} {height}' role=img aria-label='lower bounds beside claims'"
    parts = [f"<div class=wide><svg {box}>"]
    unit = next(unit for unit in (0.1, 0.25, 0.5, 1.0, 2.0, math.inf) if most <= _TICKS * unit)
    for step in range(math.floor(most / unit) + 1):
        value = step * unit if step else 0.0
        at = across(value)
        parts.append(f"<line x1={at:.1f} x2={at:.1f} y1=4 y2={height - 24} stroke='var(--line)'/>")
        parts.append(f"<text class=soft x={at:.1f} y={height - 8} text-anchor=middle>{value:g}</text>")
    for number, one in enumerate(found):
        parts += _line(one, number * _ROW + 16, across)
    return "".join(parts) + "</svg></div>"


def _line(one: Finding, at: float, across: Callable[[float], float]) -> Iterable[str]:
    name = f"{one.adversary}, ε = {one.epsilon:g}"
    colour = "var(--bad)" if one.refutes else "var(--bar)"
    high = across(one.highest if one.highest is not None else 2.0 * one.epsilon)
    yield f"<text x={_LEFT - 10} y={at + 4} text-anchor=end>{escape(name)}</text>"
    ends = f"x1={across(one.lowest):.1f} x2={high:.1f} y1={at} y2={at}"
    yield f"<line {ends} stroke='{colour}' stroke-width=3 opacity=.4 />"
    yield f"<circle cx={across(one.lowest):.1f} cy={at} r=4.5 fill='{colour}'/>"
    claim = across(one.epsilon)
    yield f"<line x1={claim:.1f} x2={claim:.1f} y1={at - 7} y2={at + 7} stroke='var(--good)' stroke-width=3 />"


def _table(found: Sequence[Finding]) -> str:
    columns = "adversary|hidden record|#ε claimed|#δ|#provable|#estimate|#counted|#counts|#proved"
    rows = [
        (
            one.adversary,
            one.record,
            f"{one.epsilon:g}",
            f"{one.delta:g}",
            f"{one.ceiling:.2f}",
            "-" if one.estimate is None else f"{one.estimate:.3f}",
            f"{one.games:,}",
            f"{one.likelier:,} : {one.rarer:,}",
            f"{one.lowest:.3f}",
        )
        for one in found
    ]
    return table(columns, rows, [one.refutes for one in found])


def _checks(checks: Sequence[Check]) -> str:
    rows = [(one.target, one.name, one.says, verdict(one)) for one in checks]
    return table("target|what must hold|seen|", rows, [not one.passed for one in checks])
