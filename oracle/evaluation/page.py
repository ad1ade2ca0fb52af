"""An evaluation as one HTML file that needs nothing else."""

from collections.abc import Iterator
from html import escape
from typing import Final

from oracle.evaluation.document import PLOT_WIDTH, document, table
from oracle.evaluation.report import Report
from oracle.evaluation.votes import VotesSeen, votes_rows

__all__ = ["page"]

_LEFT, _ROW, _HEIGHT, _FOOT = 300, 26, 180, 40
_TICKS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_MOST_TICKS: Final = 5
_LEGEND: Final = ". A dot is the error over a stretch of rounds, the bar its interval; the dashed line is the promise."
_PROMISED: Final = "stroke='var(--bad)' stroke-dasharray='5 4'"


def page(report: Report) -> str:
    """Return the whole document."""
    warning = f"<p class=warning>{escape(report.warning)}</p>"
    found = "".join(f"<li class=bad>{escape(cause)}" for cause in report.causes)
    parts = [
        warning,
        f"<h1>{escape(report.model)}: wrong on {report.error:.2%}</h1><p>{escape(_seen(report))}</p>",
        f"<h2>What was promised</h2>{_promised(report)}",
        f"<h2>Conditions that the rows break</h2><ul>{found or '<li>none was found'}</ul>",
        f"<h2>Other learners on the same rows</h2>{_bars(report)}{_others(report)}",
        f"<h2>Over the rounds</h2><p class=soft>{escape(report.order)}{_LEGEND}</p>{_course(report)}{_phases(report)}",
        f"<h2>By class</h2>{_classes(report)}" if report.classes else "",
        f"<h2>What the teachers vote</h2>{_votes(report.votes)}" if report.votes is not None else "",
        f"<h2>What each side was given</h2>{_sides(report)}" if report.sides else "",
        warning,
    ]
    return document(f"{report.model}: evaluation", parts)


def _seen(report: Report) -> str:
    which = f"Predictor {report.predictor}, epsilon {report.epsilon:g}, delta {report.delta:g}"
    return f"{report.low:.2%} to {report.high:.2%} ({report.interval}){report.wrongs('.2%')}. {which}."


def _promised(report: Report) -> str:
    promise = report.promise
    beyond = f" beyond {promise.beyond}, which makes {report.limit:.2%}" if promise.beyond else ""
    missed = "" if promise.missed is None else f", missed with probability {promise.missed:g} at most"
    bound = f"At most {promise.bound:.2%}{beyond} on honest queries{missed}: {report.verdict}."
    rests = "".join(f"<li>{escape(condition)}" for condition in promise.conditions)
    kind = {"theorem": "a theorem", "estimate": "an estimate", "nominal": "nominal"}[promise.kind]
    basis = f"It is {kind}: {promise.basis}. It rests on:"
    return f"<p class={'ok' if report.kept else 'bad'}>{escape(bound)}</p><p>{escape(basis)}</p><ul>{rests}</ul>"


def _bars(report: Report) -> str:
    """Draw errors as bars, ours first with its interval, and the promised limit as a line."""
    rows = [(report.model, report.error, "var(--good)")]
    rows += [(one.name, one.error, "var(--bar)") for one in report.baselines if one.error is not None]
    most = 1.05 * max([report.high, report.limit, *(error for _, error, _ in rows), 1e-3])
    height = _ROW * len(rows) + 8
    scale = (PLOT_WIDTH - _LEFT - 70) / most
    parts = []
    for number, (name, error, colour) in enumerate(rows):
        top = number * _ROW + 4
        parts.append(f"<text x={_LEFT - 10} y={top + 16} text-anchor=end>{escape(name)}</text>")
        width = error * scale
        parts.append(f"<rect x={_LEFT} y={top + 3} width={width:.1f} height={_ROW - 10} fill='{colour}'/>")
        behind = max(width, report.high * scale) if number == 0 else width
        parts.append(f"<text x={_LEFT + behind + 8:.1f} y={top + 16}>{error:.2%}</text>")
    low, high, middle = _LEFT + report.low * scale, _LEFT + report.high * scale, 7 + (_ROW - 10) / 2
    parts.append(_line(low, middle, high, middle, "stroke='var(--ink)' stroke-width=2"))
    at = _LEFT + report.limit * scale
    parts.append(_line(at, 0, at, height, _PROMISED))
    return _drawing(height, "errors side by side; the dashed line is the promise", parts)


def _course(report: Report) -> str:
    """Draw the error of each stretch of rounds with its interval, and where a phase begins."""
    most = 1.1 * max([report.limit, *(seen.high for seen in report.stretches), 1e-3])
    rounds = sum(seen.rounds for seen in report.stretches)
    left, width = 60, PLOT_WIDTH - 80

    def up(error: float) -> float:
        return 10 + (_HEIGHT - 10) * (1.0 - error / most)

    parts = []
    step = next((tick for tick in _TICKS if most / tick <= _MOST_TICKS), 1.0)
    for tick in range(int(most / step) + 1):
        at = up(tick * step)
        parts.append(_line(left, at, left + width, at, "stroke='var(--line)'"))
        parts.append(f"<text class=soft x={left - 8} y={at + 4:.1f} text-anchor=end>{tick * step:.4g}</text>")
    for phase in report.phases[1:]:
        at = left + width * phase.first / rounds
        parts.append(_line(at, 10, at, _HEIGHT, "stroke='var(--soft)' stroke-dasharray='2 3'"))
        parts.append(f"<text class=soft x={at + 4:.1f} y=20>phase {phase.phase}</text>")
    parts.append(_line(left, up(report.limit), left + width, up(report.limit), _PROMISED))
    for seen in report.stretches:
        at = left + width * (seen.first + seen.rounds / 2) / rounds
        parts.append(_line(at, up(seen.low), at, up(seen.high), "stroke='var(--bar)' stroke-width=3 opacity=.5"))
        parts.append(f"<circle cx={at:.1f} cy={up(seen.error):.1f} r=4.5 fill='var(--bar)'/>")
    parts.append(f"<text class=soft x={left} y={_HEIGHT + 24}>round 0</text>")
    parts.append(f"<text class=soft x={left + width} y={_HEIGHT + 24} text-anchor=end>{rounds:,}</text>")
    return _drawing(_HEIGHT + _FOOT, "error over the rounds", parts)


def _line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    return f"<line x1={x1:.1f} x2={x2:.1f} y1={y1:.1f} y2={y2:.1f} {style} />"


def _drawing(height: int, label: str, parts: list[str]) -> str:
    box = f"viewBox='0 0 {PLOT_WIDTH} {height}' role=img aria-label='{label}'"
    return f"<div class=wide><svg {box}>{''.join(parts)}</svg></div>"


def _others(report: Report) -> str:
    rows = [(one.name, "-" if one.error is None else f"{one.error:.2%}", one.note) for one in report.baselines]
    return table("learner|#wrong|note", rows)


def _phases(report: Report) -> str:
    def rows() -> Iterator[tuple[str, ...]]:
        for seen, of in zip(report.phases, report.phase_rounds, strict=True):
            between = f"{seen.low:.2%} to {seen.high:.2%}"
            yield str(seen.phase), f"{seen.rounds:,}", f"{of:,}", f"{seen.error:.2%}", between

    return table("#phase|#asked|#rounds in all|#wrong|#interval", rows())


def _classes(report: Report) -> str:
    rows = [(str(one.name), f"{one.share:.2%}", f"{one.given:.2%}", f"{one.missed:.2%}") for one in report.classes]
    return table("class|#of the rows|#of the answers|#missed, of all answers", rows)


def _votes(votes: VotesSeen) -> str:
    return table("|seen", votes_rows(votes))


def _sides(report: Report) -> str:
    def rows() -> Iterator[tuple[str, ...]]:
        for side in report.sides:
            held = ("-", "-") if side.held is None else (f"{side.held:,}", f"{side.needed:,}")
            yield side.name, *held, f"{side.outside:.2%}", f"{side.stripe:.2%}"

    return table("side|#rows given|#needed|#cuts off, of all rows|#planned", rows())
