"""The table of promises, made of what was found."""

import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from oracle.evaluation.report import Report
from tests.experiments.promises.run import Outcome

PAGE: Final = Path("docs/evidence.md")
BEGIN: Final = "<!-- from here `make promises` -->\n"
END: Final = "<!-- to here `make promises` -->\n"

_HEADS: Final = (
    "rows (trained on; asked)",
    "predictor, ε",
    "promised wrong, %",
    "seen, %",
    "kept",
    "what `evaluate` names",
    "majority",
    "stump",
    "box",
    "logistic",
    "boosting",
    "diffprivlib",
    "classical",
)
_BASELINES: Final = (
    "always",
    "best stump",
    "best box",
    "logistic regression",
    "gradient boosting",
    "logistic regression of diffprivlib",
    "classical, same epsilon",
)


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the Markdown table, one row a recipe, and how many promises were kept."""
    lines = [("data", *_HEADS), ("---", *["---"] * len(_HEADS)), *map(_row, outcomes)]
    rows = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    kept = sum(bool(outcome.reports) and all(report.kept for report in outcome.reports) for outcome in outcomes)
    return f"{rows}\n{kept} of {len(outcomes)} promises were kept.\n"


def _row(outcome: Outcome) -> tuple[str, ...]:
    trained = f"{outcome.examples:,}"
    if outcome.real < outcome.examples:
        trained += f", resampled from {outcome.real:,}"
    note = f" ({outcome.note})" if outcome.note else ""
    head = (f"{outcome.question} [{outcome.source}]{note}", f"{trained}; {outcome.asked:,}")
    if outcome.refused:
        return (*head, "", "", "", "", f"refused: {outcome.refused}", *[""] * len(_BASELINES))
    first = outcome.reports[0]
    concept = "stump" if first.promise.beyond else "box"
    predictor = f"classical {concept}" if first.predictor == "classical" else first.predictor
    return (
        *head,
        f"{predictor}, {first.epsilon:g}",
        _promised(first),
        _seen(outcome.reports),
        _kept(outcome.reports),
        "; ".join(_names(outcome.reports)) or "nothing",
        *(_baseline(outcome.reports, name) for name in _BASELINES),
    )


def _percent(part: float) -> str:
    return f"{100.0 * part:.1f}"


def _errors(report: Report, name: str) -> list[float]:
    return [one.error for one in report.baselines if one.name.startswith(name) and one.error is not None][:1]


def _promised(report: Report) -> str:
    if not report.promise.beyond:
        return _percent(report.promise.bound)
    return f"{_percent(_base(report) + report.promise.bound)} ({_percent(report.promise.bound)} beyond the best stump)"


def _kept(reports: Sequence[Report]) -> str:
    """Return how often, and whether the promise says so little that one answer for all would keep it."""
    kept = sum(report.kept for report in reports)
    if kept < len(reports):
        return f"**no**: {kept} of {len(reports)}"
    promised = reports[0].promise.bound + _base(reports[0])
    return "yes; so would the majority" if min(_errors(reports[0], _BASELINES[0])) <= promised else "yes"


def _base(report: Report) -> float:
    return sum(_errors(report, "best stump")) if report.promise.beyond else 0.0


def _seen(reports: Sequence[Report]) -> str:
    mean = statistics.fmean(report.error for report in reports)
    low, high = min(report.low for report in reports), max(report.high for report in reports)
    return f"{_percent(mean)} ({_percent(low)} to {_percent(high)})"


def _names(reports: Sequence[Report]) -> list[str]:
    """Return what each cause begins with, once, sides together."""
    causes = [cause for report in reports for cause in report.causes]
    names = [re.split(r"[:,]", cause, maxsplit=1)[0] for cause in causes]
    return list(dict.fromkeys(names))


def _baseline(reports: Sequence[Report], name: str) -> str:
    """Return the mean over the keys, which private ones depend on."""
    errors = [error for report in reports for error in _errors(report, name)]
    return _percent(statistics.fmean(errors)) if errors else "-"


def put_into(text: str, made: str) -> str:
    """Return a text with what is between the two marks replaced."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin, f"no line {BEGIN!r}"
    assert end, f"no line {END!r} after it"
    return f"{before}{BEGIN}\n{made}\n{END}{after}"
