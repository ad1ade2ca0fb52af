"""The tables of docs/evidence.md and README.md: wrong answers of every method on every table, by epsilon."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from tests.experiments.peers.run import EPSILONS, Found

BEGIN: Final = "<!-- from here `make compare` -->\n"
END: Final = "<!-- to here `make compare` -->\n"


class _Line(NamedTuple):
    """A row of the table: of several methods the one with the least mean error on a table and epsilon is shown."""

    name: str
    methods: tuple[str, ...]
    protects: str


_NONE, _ROWS, _BOTH = "nothing", "rows; released, for ever", "rows **and queries**"

_LINES: Final = (
    _Line("always the more frequent label", ("majority",), _NONE),
    _Line("tree of depth 2 (scikit-learn)", ("open tree",), _NONE),
    _Line("logistic regression (scikit-learn)", ("open logistic",), _NONE),
    _Line("gradient boosting (scikit-learn)", ("open boosting",), _NONE),
    _Line("logistic regression (diffprivlib)", ("logistic",), _ROWS),
    _Line("Gaussian naive Bayes (diffprivlib)", ("naive-bayes",), _ROWS),
    _Line("random forest (diffprivlib)", ("forest-5", "forest-10"), _ROWS),
    _Line("one tree (diffprivlib)", ("tree-5", "tree-10"), _ROWS),
    _Line("Perpetua's classical stump", ("our classical",), _ROWS),
    _Line("PATE with the same depth-2 trees, until its budget is spent", ("pate",), "rows; not all are answered"),
    _Line("PATE's student, a tree, if those queries are public", ("pate student",), _ROWS),
    _Line("Perpetua, boxes", ("our box",), _BOTH),
    _Line("Perpetua, stumps", ("our stump",), _BOTH),
    _Line("**Perpetua, ensemble** of depth-2 trees", ("ensemble tree",), _BOTH),
    _Line("**Perpetua, ensemble** of logistic regressions", ("ensemble logistic",), _BOTH),
)

_COUNTED: Final = (
    ("(queries that PATE answers)", "pate", "answered"),
    ("(the same by the loss that may be told)", "pate", "plainly"),
    ("(queries that trees of an ensemble answer)", "ensemble tree", "answered"),
    ("(queries that its regressions answer)", "ensemble logistic", "answered"),
    ("(rows that ensembles of trees want)", "ensemble tree", "wanted"),
)
"""Lines of counts: name, method and field."""

_SHORT: Final = {
    "always the more frequent label": "always the more frequent label",
    "gradient boosting (scikit-learn)": "gradient boosting, not private",
    "logistic regression (diffprivlib)": "logistic regression, diffprivlib",
    "**Perpetua, ensemble** of depth-2 trees": "**Perpetua**, ensemble of depth-2 trees",
}
"""Lines that README.md has, and what they are called there."""

_SHORT_EPSILON: Final = 4.0


def table(found: Mapping[str, Sequence[Found]]) -> str:
    """Return the Markdown table, a column a data set, and what PATE answers and ensembles want.

    Args:
        found: Of each data set by its name.
    """
    sizes = [f"{name}<br>{some[0].rows:,}; {some[0].asked:,}" for name, some in found.items()]
    lines = [["rows; queries", *sizes, "ε protects"], ["---", *["---:"] * len(found), "---"]]
    lines += [[one.name, *(_cell(some, one.methods) for some in found.values()), one.protects] for one in _LINES]
    for name, method, field in _COUNTED:
        lines.append([name, *(_counts(some, method, field) for some in found.values()), ""])
    return _markdown(lines)


def short_table(found: Mapping[str, Sequence[Found]]) -> str:
    """Return a few lines of it, at one epsilon."""
    lines = [[f"wrong, %, at ε = {_SHORT_EPSILON:g} (–: wants more rows)", *found], ["---", *["---:"] * len(found)]]
    for line in _LINES:
        if line.name in _SHORT:
            cells = (_one(some, line.methods, _SHORT_EPSILON) for some in found.values())
            lines.append([_SHORT[line.name], *cells])
    return _markdown(lines)


def _markdown(lines: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(found: Sequence[Found], methods: Sequence[str]) -> str:
    """Return the mean error in percent; where there is an epsilon, of each."""
    if any(one.method in methods and not one.epsilon for one in found):
        return _one(found, methods, 0.0)
    return " / ".join(_one(found, methods, epsilon) for epsilon in EPSILONS)


def _one(found: Sequence[Found], methods: Sequence[str], epsilon: float) -> str:
    means = [_mean(found, method, at) for method in methods for at in (epsilon, 0.0)]
    known = [mean for mean in means if mean is not None]
    if known:
        return f"{100.0 * min(known):.1f}"
    return "–" if any(one.method in methods and one.epsilon == epsilon for one in found) else "not run"


def _mean(found: Sequence[Found], method: str, epsilon: float) -> float | None:
    errors = [one.wrong for one in found if (one.method, one.epsilon) == (method, epsilon) and one.wrong is not None]
    return statistics.fmean(errors) if errors else None


def _counts(found: Sequence[Found], method: str, field: str) -> str:
    """Return the median of a count at each epsilon; 0 where a planner refuses, so nothing is shown for it."""
    cells = []
    for epsilon in EPSILONS:
        counts = [getattr(one, field) for one in found if (one.method, one.epsilon) == (method, epsilon)]
        cells.append(f"{statistics.median_low(counts):,}" if any(counts) else "–")
    return " / ".join(cells)
