"""HTML files that need nothing else: one stylesheet, tables, and what is drawn as inline SVG."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

__all__ = ["PLOT_WIDTH", "document", "table"]

PLOT_WIDTH: Final = 860
"""Width of a drawing, in its own units; on the page it is as wide as there is room."""

_STYLE: Final = """
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#5b6470;--line:#d5d9df;--bar:#4f7cac;--good:#2e7d32;--bad:#b3261e}
@media(prefers-color-scheme:dark){:root{--ink:#e6e8eb;--soft:#9aa3ad;--line:#3a4149;--bar:#7da7d4;--good:#7bc67e;
--bad:#ff8a80}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:Canvas;max-width:900px;margin:2em auto;
padding:0 1em;overflow-wrap:anywhere}
h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;overflow-wrap:normal}
th,td{text-align:left;padding:.25em .6em;border-bottom:1px solid var(--line);vertical-align:top}
td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
svg{width:100%;min-width:560px;height:auto}svg text{fill:var(--ink);font-size:13px}
.soft{color:var(--soft)}svg .soft{fill:var(--soft)}.bad{color:var(--bad);font-weight:600}
.warning{border:2px solid var(--bad);padding:.5em 1em;font-weight:600}
"""


def document(title: str, parts: Iterable[str], *, style: str = "") -> str:
    """Return a whole document.

    Args:
        title: Its title, as text.
        parts: What it consists of, as HTML.
        style: Rules of its own, as CSS.
    """
    head = "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
    return "\n".join([head, f"<title>{escape(title)}</title><style>{_STYLE}{style}</style>", *parts]) + "</html>\n"


def table(columns: str, rows: Iterable[Sequence[str]], bad: Iterable[bool] = ()) -> str:
    """Return a table.

    Args:
        columns: Headings, parted by "|"; one that begins with "#" is of numbers.
        rows: Texts of the cells.
        bad: Of each row, whether its last cell is to stand out.
    """
    names = columns.split("|")
    kinds = [" class=n" if name.startswith("#") else "" for name in names]
    heads = "".join(f"<th{kind}>{escape(name.lstrip('#'))}" for name, kind in zip(names, kinds, strict=True))
    marks = list(bad)
    lines = []
    for number, row in enumerate(rows):
        cells = [f"<td{kind}>{escape(text)}" for text, kind in zip(row, kinds, strict=True)]
        if number < len(marks) and marks[number]:
            cells[-1] = f"<td class='bad'>{escape(row[-1])}"
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<div class=wide><table><tr>{heads}</tr>{''.join(lines)}</table></div>"
