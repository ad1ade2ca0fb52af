"""A reconstruction as one self-contained HTML page."""

from html import escape
from typing import Final

from oracle.audit.reconstruction.report import Report
from oracle.evaluation.document import PLOT_WIDTH, document, table

__all__ = ["page"]

_LEFT, _ROW, _RIGHT = 120, 26, 60
_LEGEND: Final = (
    "Bars: share of the rows whose secret bit is guessed right. The dashed line is what is guessed without any number. "
    "Dots: the same of fair coins in the column's place, of which half are right by chance; the green mark is what "
    "epsilon lets be guessed of them at most."
)
_WORDS: Final = (
    "right: rows whose bit is guessed right, each as most of the rows that look alike; rebuilt: rows of groups whose "
    "number of ones was found exactly; exposed: of these, rows of groups that are all alike in the secret too; error: "
    "of the published numbers, on average; epsilon proved: by one run on coins, wrong with probability {miss:g}."
)


def page(report: Report) -> str:
    """Return the whole document."""
    heads = "".join(f"<p><b>{escape(name)}</b> {escape(text)}</p>" for name, text in report.heads())
    names = "|".join(name if not place else f"#{name}" for place, name in enumerate(report.columns))
    bad = [False, *(one.release in report.refuted for one in report.lines)]
    kind = "" if report.judged and not report.refuted else " class=warning"
    return document(
        "Perpetua: reconstruction",
        [
            "<h1>What could be rebuilt of a secret column</h1>",
            f"<p{kind}>{escape(report.outcome)}</p>",
            heads,
            _plot(report),
            f"<p class=soft>{escape(_LEGEND)}</p>",
            table(names, report.cells(), bad),
            f"<p class=soft>{escape(_WORDS.format(miss=report.miss))}</p>",
            "<p class=soft>Keep this page as you keep the table: it says how many rows can be found out, and how.</p>",
        ],
    )


def _plot(report: Report) -> str:
    lines = [one for one in report.lines if not one.refused]
    height = _ROW * len(lines) + 34
    box = f"viewBox='0 0 {PLOT_WIDTH} {height}' role=img aria-label='share of bits guessed right by release'"
    parts = [f"<div class=wide><svg {box}>"]
    for step in range(6):
        at = _across(step / 5.0)
        parts.append(f"<line x1={at:.1f} x2={at:.1f} y1=4 y2={height - 24} stroke='var(--line)'/>")
        parts.append(f"<text class=soft x={at:.1f} y={height - 8} text-anchor=middle>{20 * step} %</text>")
    for number, one in enumerate(lines):
        y = number * _ROW + 16
        parts.append(f"<text x={_LEFT - 10} y={y + 4} text-anchor=end>{escape(one.release)}</text>")
        if one.best is not None:
            width = _across(one.best.right / report.rows) - _LEFT
            parts.append(f"<rect x={_LEFT} y={y - 7} width={width:.1f} height=14 fill='var(--bar)' opacity=.6 />")
        if one.release != "published":
            colour = "var(--bad)" if one.release in report.refuted else "var(--ink)"
            parts.append(f"<circle cx={_across(one.coins / report.rows):.1f} cy={y} r=4 fill='{colour}'/>")
        if one.cap is not None:
            at = _across(one.cap)
            parts.append(f"<line x1={at:.1f} x2={at:.1f} y1={y - 9} y2={y + 9} stroke='var(--good)' stroke-width=3 />")
    if report.without is not None:
        at = _across(report.without.right / report.rows)
        parts.append(f"<line x1={at:.1f} x2={at:.1f} y1=0 y2={height - 24} stroke='var(--ink)' stroke-dasharray=4 />")
    return "".join(parts) + "</svg></div>"


def _across(share: float) -> float:
    return _LEFT + (PLOT_WIDTH - _LEFT - _RIGHT) * share
