"""What the comparison says: a Markdown table and a paragraph, for docs/evidence.md."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from tests.experiments.comparison.boxes import BOXES_A_SIDE
from tests.experiments.comparison.methods import EPSILONS, METHODS, Method, Outcome
from tests.experiments.comparison.task import Task

_RATE: Final = 10_000
"""Queries a second, for saying how long a number of rounds lasts."""

_YEAR: Final = 365.25 * 86_400


def _percent(value: float) -> str:
    """Return a part in percent: two decimals, three below a tenth, a bare 0 for none."""
    if value == 0.0:
        return "0"
    return f"{100.0 * value:.2f}" if value >= 1e-3 else f"{100.0 * value:.3f}"


def _error(outcome: Outcome) -> str:
    if outcome.refused:
        return f"refuses: wants {outcome.wanted:,} rows"
    if len(outcome.errors) == 1 or not outcome.spread:
        return _percent(outcome.mean)
    return f"{_percent(outcome.mean)} ± {_percent(outcome.spread)}"


def _lasts(method: Method, outcomes: Sequence[Outcome]) -> str:
    rounds = [outcome.rounds for outcome in outcomes if outcome.rounds is not None]
    if not rounds:
        return method.lasts
    least = min(rounds)
    return f"{_power(least)} ({least / _RATE / _YEAR:.0f} years at {_RATE:,} a second)"


def _power(rounds: int) -> str:
    """Return a number of queries rounded down to a power of ten and one digit."""
    zeros = len(str(rounds)) - 1
    return f"{rounds // 10**zeros}e{zeros} queries"


def _of(outcomes: Sequence[Outcome], key: str, epsilon: float | None = None) -> list[Outcome]:
    return [one for one in outcomes if one.method == key and epsilon in {None, one.epsilon}]


def markdown(outcomes: Sequence[Outcome]) -> str:
    """Return the Markdown table: one row a method, the error in percent at each epsilon."""
    heads = [
        "method",
        *(f"ε = {epsilon:g}" for epsilon in EPSILONS),
        "ε protects",
        "guarantee lasts",
        "keeps queries",
        "rows wanted at ε = 1",
    ]
    lines = [heads, ["---", *["---:"] * len(EPSILONS), "---", "---", "---", "---:"]]
    for method in METHODS:
        mine = _of(outcomes, method.key)
        if not mine:
            continue
        cells = [_cell(method, mine, epsilon) for epsilon in EPSILONS]
        wanted = [one.wanted for one in mine if one.epsilon == 1.0 and one.wanted is not None]
        lines.append(
            [
                method.name,
                *cells,
                method.protects,
                _lasts(method, mine),
                "some, encrypted" if method.keeps else "no",
                f"{wanted[0]:,}" if wanted else "-",
            ]
        )
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(method: Method, mine: Sequence[Outcome], epsilon: float) -> str:
    if method.epsilons == (None,):
        return _error(mine[0])
    there = [one for one in mine if one.epsilon == epsilon]
    return _error(there[0]) if there else "-"


def notes(task: Task, outcomes: Sequence[Outcome], seeds: int) -> str:
    """Return what a reader of the table has to know."""
    phases = [one.first_phase for one in _of(outcomes, "perpetua") if one.first_phase is not None and not one.refused]
    inside = bool(phases) and min(phases) >= len(task.queries)
    values = " and ".join(str(len(np.unique(column))) for column in task.rows.T)
    return (
        f"Wrong answers in percent of {len(task.queries):,} queries, mean ± standard deviation over {seeds} runs, "
        f"after {len(task.rows):,} labelled rows. An epsilon is for one record of the kind it protects; delta is 0 but "
        "for Perpetua, whose deltas sum to 1e-3 over all records. "
        + ("Perpetua answers these queries within its first phase; the last row's go on into a second. " * inside)
        + f"The data are kind to boxes: the rule is one, and the features take {values} distinct values. The "
        "quantiles' level and the forest's depth were chosen on these data, in their favour."
    )


def advice(task: Task, outcomes: Sequence[Outcome]) -> str:
    """Return one paragraph on when to take something else, with this run's figures."""
    return " ".join((_figures(task, outcomes), _PUBLIC, _OURS))


_PUBLIC: Final = (
    "A released box is public for ever. Its queries need no epsilon, as no answer depends on another query: nobody "
    "learns of a query from other answers, no query has to be kept, and an asker may even apply the box at home."
)

_OURS: Final = (
    "Perpetua goes on learning from its queries, so each of them is a record that it must protect: from all who see "
    "other answers, but not from its own asker nor from whoever runs the daemon. Take it where no hypothesis may ever "
    "be released, or where the values have no finite grid to choose edges from."
)


def _figures(task: Task, outcomes: Sequence[Outcome]) -> str:
    best = _of(outcomes, "best-box")
    worst = max(one.mean for one in best)
    ours = _of(outcomes, "perpetua")
    text = (
        "**If a hypothesis may be public, take a classical private learner.** On these data the private best box (one "
        f"noisy choice among the {BOXES_A_SIDE ** len(task.sides):,} boxes of a grid) gives "
        + (f"at most {_percent(worst)} % wrong answers" if worst else "no wrong answer")
        + f" from epsilon {min(one.epsilon or 0.0 for one in best):g} on"
    )
    few = [one for one in _of(outcomes, "best-box-few", 1.0) if not one.refused]
    text += (
        f", and {_percent(few[0].mean)} % at epsilon 1 from {few[0].wanted:,} rows drawn at random. " if few else ". "
    )
    refused = [f"{one.wanted:,} rows at epsilon {one.epsilon:g}" for one in ours if one.refused]
    text += f"Perpetua wants {' and '.join(refused)}, and refuses. " if refused else ""
    served = [f"{_percent(one.mean)} % wrong answers at {one.epsilon:g}" for one in ours if not one.refused]
    return text + (f"Where it runs, it gives {', '.join(served)}." if served else "It runs at none of these.")
