"""The report as one self-contained HTML file: first what anybody can read, then an appendix with the figures."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from itertools import groupby
from typing import Final

from oracle.audit.findings import NEAR, Check, Finding, limit_text, verdict
from oracle.audit.report.contents import Report
from oracle.audit.report.words import GLOSSARY
from oracle.evaluation.document import PLOT_WIDTH, document, table

__all__ = ["chance", "made", "page"]

_SHOWN: Final = 5
"""Failures of one kind that are named before the appendix."""

_STYLE: Final = """
.banner{font-size:1.3em;font-weight:700;padding:.6em 1em;border:3px solid var(--soft);border-radius:.4em}
.banner.good{border-color:var(--good);color:var(--good)}.banner.bad{border-color:var(--bad);color:var(--bad)}
.failure{border-left:4px solid var(--bad);padding-left:1em;margin:1em 0}
dt{font-weight:600}dd{margin:0 0 .4em 1.5em}
@media print{body{max-width:none;margin:0}.wide{overflow:visible}svg{min-width:0}table{font-size:.75em}
tr,li,dd,.failure{break-inside:avoid}}
"""
_LEFT, _ROW = 330, 22
_TICKS: Final = 7
_LEGEND: Final = (
    "Each line is one adversary at one claim. The green mark is the claimed epsilon. The dot is the lower bound that "
    "was proved; the bar goes on to the upper end of the interval of the event that was counted. A dot to the right "
    "of its mark would refute the claim. Provable is what all games could prove at most, were there no privacy at all. "
    "Would see is the detection limit: the least multiple of the claimed epsilon that the same adversary would have "
    "refuted, measured in games against what was planned for that multiple (none: not even 32 times the claim, or 32 "
    "nats). Counts are of the most telling event of the aim that told most, in the two worlds."
)


def page(report: Report) -> str:
    """Return the whole HTML document."""
    games = [one for one in report.results if isinstance(one, Finding)]
    checks = [one for one in report.results if isinstance(one, Check)]
    tone = {"nothing-found": "good", "refuted": "bad", "promise-fails": "bad"}.get(report.verdict, "open")
    parts = [
        "<h1>Privacy audit</h1>",
        f"<p class='banner {tone}' role=status>{escape(report.banner)}</p>",
        f"<p>{escape(report.outcome)} {escape(chance(report))}</p>",
        f"<h2>What was attacked</h2>{_list(report.scope.attacked)}",
        *_failures(report),
        f"<h2>What was looked for</h2>{_lines(report)}",
        f"<h2>What was not looked at</h2>{_list(report.scope.left_out)}",
        f"<h2>What no audit can say</h2>{_list(report.limits)}",
        f"<h2>When, where, with what</h2>{_terms(made(report))}",
        "<h2>Appendix: words</h2>",
        _terms(GLOSSARY),
    ]
    if games:
        parts.append(f"<h2>Appendix: games</h2><p>{escape(_power(report))}</p><p class=soft>{escape(_LEGEND)}</p>")
    for key, group in groupby(games, lambda one: (one.level, one.target)):
        found = list(group)
        nominal = " (nominal claims)" if found[0].nominal else ""
        parts.append(f"<h3>{escape(_title(*key))}{nominal}</h3>{_plot(found)}{_table(found)}")
    if checks:
        parts.append(f"<h2>Appendix: checks</h2>{_checks(checks)}")
    return document("Perpetua: privacy audit", parts, style=_STYLE)


def chance(report: Report) -> str:
    """Return in a sentence what was left to chance."""
    if report.miss == 0.0:
        return "Nothing here was left to chance."
    return f"The probability that any true claim is refuted by chance is at most {report.miss:g}."


def made(report: Report) -> list[tuple[str, str]]:
    """Return when, where and with what a report was made, by name."""
    signed = f"by key {report.scope.signer}: perpetua audit receipt audit.receipt.json --public-key KEY.pub checks it"
    return [
        ("date", report.made),
        ("Perpetua", f"{report.version}, SHA-256 of its modules {report.software}"),
        ("seed", report.seed),
        *report.machine.items(),
        ("signed", "by nobody (--receipt-key signs)" if report.scope.signer is None else signed),
    ]


def _failures(report: Report) -> Iterator[str]:
    if report.failures:
        yield "<h2>What failed or could not tell, and what to do</h2>"
    for one in report.failures:
        more = [f"and {len(one.seen) - _SHOWN} more: see the appendix"] if len(one.seen) > _SHOWN else []
        yield f"<div class=failure>{_list([*one.seen[:_SHOWN], *more])}"
        yield f"<p><b>What it means.</b> {escape(one.means)}</p><p><b>What to do.</b> {escape(one.do)}</p></div>"


def _lines(report: Report) -> str:
    rows = [(one.finds, one.looked_at, one.result) for one in report.lines]
    return table("it would have found|looked at|result", rows, [one.failed for one in report.lines])


def _list(sentences: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(one)}' for one in sentences)}</ul>"


def _terms(terms: Iterable[tuple[str, str]]) -> str:
    return f"<dl>{''.join(f'<dt>{escape(name)}<dd>{escape(text)}' for name, text in terms)}</dl>"


def _title(level: str, target: str) -> str:
    titles = {
        "between-thresholds": f"BetweenThresholds, {target} noise",
        "paid-questions": f"Paid questions, {target} noise",
        "stopper": "Stopper",
    }
    return titles.get(level, f"{level}: {target}")


def _power(report: Report) -> str:
    levels = ", ".join(
        f"{level}: {'nothing proved' if factor is None else f'{factor:.2g}'}" for level, factor in report.near.items()
    )
    return (
        f"The claim over the best bound that was proved of it: {levels or 'none is proved'} (wanted: {NEAR:g} at most)."
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
    columns = "adversary|hidden record|aim|#ε claimed|#δ|#provable|#estimate|#games|#counts|#would see|#proved"
    rows = [
        (
            one.adversary,
            one.record,
            one.aim,
            f"{one.epsilon:g}",
            f"{one.delta:g}",
            f"{one.ceiling:.2f}",
            "-" if one.estimate is None else f"{one.estimate:.3f}",
            f"{one.games:,}",
            f"{one.likelier:,} : {one.rarer:,}",
            limit_text(one),
            f"{one.lowest:.3f}",
        )
        for one in found
    ]
    return table(columns, rows, [one.refutes for one in found])


def _checks(checks: Sequence[Check]) -> str:
    rows = [(one.target, one.name, one.says, verdict(one)) for one in checks]
    return table("part|what must hold|seen|result", rows, [not one.passed for one in checks])
