"""An evaluation as one HTML file that needs nothing else: tables, and plots as inline SVG."""

from collections.abc import Sequence
from html import escape
from typing import Final

from oracle.evaluation.report import Report

__all__ = ["page"]

_WIDTH, _LEFT, _ROW = 860, 300, 26
_STYLE: Final = """
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#6b7280;--line:#d5d9df;--bar:#4f7cac;--ours:#2e7d32;--bad:#b3261e}
@media(prefers-color-scheme:dark){:root{--ink:#e6e8eb;--soft:#9aa3ad;--line:#3a4149;--bar:#7da7d4;--ours:#7bc67e;
--bad:#ff8a80}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:Canvas;max-width:900px;margin:2em auto;
padding:0 1em}
h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.25em .6em;border-bottom:1px solid var(--line);vertical-align:top}
td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}svg{width:100%;height:auto}
svg text{fill:var(--ink);font-size:13px}.soft{color:var(--soft)}.bad{color:var(--bad);font-weight:600}
.warning{border:2px solid var(--bad);padding:.5em 1em;font-weight:600}
"""


def page(report: Report) -> str:
    """Return the whole document."""
    found = "".join(f"<li class=bad>{escape(cause)}" for cause in report.causes)
    warning = f"<p class=warning>{escape(report.warning)}</p>"
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>{escape(report.model)}: evaluation</title><style>{_STYLE}</style>",
        warning,
        f"<h1>{escape(report.model)}: wrong on {report.error:.2%}</h1><p>{escape(_seen(report))}</p>",
        f"<h2>What was promised</h2>{_promised(report)}",
        f"<h2>What the rows do not meet</h2><ul>{found or '<li>nothing was found'}</ul>",
        f"<h2>Beside others, on the same rows</h2>{_bars(report)}{_others(report)}",
        f"<h2>By phase</h2>{_phases(report)}",
        warning,
    ]
    return "\n".join(parts) + "</html>\n"


def _seen(report: Report) -> str:
    wrongs = f"{report.false_positives:.2%} say 1 and should say 0, {report.false_negatives:.2%} say 0 and should say 1"
    which = f"Predictor {report.predictor}, epsilon {report.epsilon:g}, delta {report.delta:g}"
    return f"95 % interval {report.low:.2%} to {report.high:.2%}; {wrongs}. {which}."


def _promised(report: Report) -> str:
    promise = report.promise
    beyond = f" beyond {promise.beyond}" if promise.beyond else ""
    bound = f"At most {promise.bound:.2%}{beyond} on honest queries: {'kept' if report.kept else 'not kept'}."
    rests = "".join(f"<li>{escape(condition)}" for condition in promise.conditions)
    basis = f"It is {_kind(promise.kind)}: {promise.basis}. It rests on:"
    return f"<p class={'ok' if report.kept else 'bad'}>{escape(bound)}</p><p>{escape(basis)}</p><ul>{rests}</ul>"


def _kind(kind: str) -> str:
    return {"theorem": "a theorem", "estimate": "an estimate", "nominal": "nominal"}[kind]


def _bars(report: Report) -> str:
    """Draw errors as bars, ours first with its interval, and the promised bound as a line."""
    rows = [(report.model, report.error, "var(--ours)")]
    rows += [(one.name, one.error, "var(--bar)") for one in report.baselines if one.error is not None]
    bound = None if report.promise.beyond else report.promise.bound
    most = 1.05 * max([report.high, bound or 0.0, *(error for _, error, _ in rows), 1e-3])
    height = _ROW * len(rows) + 8
    scale = (_WIDTH - _LEFT - 70) / most
    parts = [f"<svg viewBox='0 0 {_WIDTH} {height}' role=img aria-label='errors beside each other'>"]
    for number, (name, error, colour) in enumerate(rows):
        top = number * _ROW + 4
        parts.append(f"<text x={_LEFT - 10} y={top + 16} text-anchor=end>{escape(name)}</text>")
        width = error * scale
        parts.append(f"<rect x={_LEFT} y={top + 3} width={width:.1f} height={_ROW - 10} fill='{colour}'/>")
        parts.append(f"<text x={_LEFT + width + 8:.1f} y={top + 16}>{error:.2%}</text>")
    parts += _marks(report, bound, scale, height)
    return "".join(parts) + "</svg>"


def _marks(report: Report, bound: float | None, scale: float, height: int) -> Sequence[str]:
    low, high = _LEFT + report.low * scale, _LEFT + report.high * scale
    middle = 4 + 3 + (_ROW - 10) / 2
    parts = [f"<line x1={low:.1f} x2={high:.1f} y1={middle} y2={middle} stroke='var(--ink)' stroke-width=2 />"]
    if bound is not None:
        at = _LEFT + bound * scale
        parts.append(f"<line x1={at:.1f} x2={at:.1f} y1=0 y2={height} stroke='var(--bad)' stroke-dasharray='5 4'/>")
    return parts


def _others(report: Report) -> str:
    rows = "".join(
        f"<tr><td>{escape(one.name)}<td class=n>{_percent(one.error)}<td>{escape(one.note)}" for one in report.baselines
    )
    return f"<table><tr><th>learner<th class=n>wrong<th>note</tr>{rows}</table>"


def _phases(report: Report) -> str:
    rows = "".join(
        f"<tr><td class=n>{seen.phase}<td class=n>{seen.rounds:,}<td class=n>{seen.of:,}<td class=n>{seen.error:.2%}"
        for seen in report.phases
    )
    return f"<table><tr><th class=n>phase<th class=n>asked<th class=n>rounds in all<th class=n>wrong</tr>{rows}</table>"


def _percent(error: float | None) -> str:
    return "-" if error is None else f"{error:.2%}"
