"""What `perpetua evaluate` prints: what a released score costs, and what was found."""

from rich.console import Console
from rich.table import Table as ConsoleTable

from oracle.accounting.ledger import ScoreReleased
from oracle.cli.output import figure_table, print_rows, wide_console
from oracle.cli.plan.page import promise_rows
from oracle.evaluation.release import cost_of, noise_reach
from oracle.evaluation.report import NOT_PRIVATE, Report
from oracle.evaluation.votes import VotesSeen, votes_rows
from oracle.planning.plan import Plan

__all__ = ["print_cost", "print_report", "print_votes"]


def print_cost(plan: Plan, epsilon: float, rounds: int, data: str) -> None:
    """Say what a released score costs, before the trial."""
    cost = cost_of(plan, epsilon)
    delta = f", delta {cost.delta:.3g}" if cost.delta else ""
    console = wide_console(stderr=True)
    own = "" if cost.test == epsilon else f": {plan.epsilon:g} for being asked, {epsilon:g} for the score"
    console.print(f"To be released: how many of {rounds:,} answers are wrong, with noise of epsilon {epsilon:g}")
    console.print(f"  a test row pays      epsilon {cost.test:g}{delta}{own}")
    console.print(f"  a training row pays  epsilon {cost.training:g}{delta}: the trial is a run of the model on it")
    console.print(f'  once for each such trial and each state made of the data "{data}"; a row in both files pays both')


def print_votes(votes: VotesSeen) -> None:
    """Say what the teachers' votes are like, where there is no plan."""
    console = wide_console()
    console.print(NOT_PRIVATE)
    console.print()
    print_rows(console, votes_rows(votes))


def print_report(report: Report) -> None:
    """Print it as tables."""
    console = wide_console()
    console.print(report.warning)
    console.print()
    seen = f"{report.error:.4f} wrong, {report.low:.4f} to {report.high:.4f} ({report.interval})"
    limit = f"; at most {report.limit:.4f} wrong on these rows" if report.promise.beyond else ""
    rows = [
        ("model", f"{report.model}: {report.predictor}, epsilon = {report.epsilon:g}, delta = {report.delta:g}"),
        ("seen", seen + report.wrongs(".4f")),
        ("promise", (report.verdict if report.kept else report.verdict.replace("not kept", "NOT KEPT", 1)) + limit),
        *promise_rows(report.promise),
    ]
    rows += votes_rows(report.votes) if report.votes is not None else []
    rows += [("" if number else "found", cause) for number, cause in enumerate(report.causes or ("nothing wrong",))]
    print_rows(console, rows)
    tables = (_others(report), *([_classes(report)] if report.classes else []), _phases(report), _stretches(report))
    for table in tables:
        console.print()
        console.print(table)
    if report.later:
        last = report.phases[-1]
        console.print(
            f"{last.rounds:,} rounds of phase {last.phase} were tried, which lasts {report.phase_rounds[-1]:,}: where "
            "more of it has been learned from answers, it may err more, and so may later ones (--rounds tries more)"
        )
    if report.released is not None:
        console.print()
        _print_released(console, report.released)


def _print_released(console: Console, event: ScoreReleased) -> None:
    reach = noise_reach(event.noise)
    console.print("This may be published, and nothing above:")
    console.print(
        f"  {event.model}: wrong on {event.wrong:,} of {event.round:,} answers ({event.wrong / event.round:.2%}), "
        f"with noise of {reach:,} at most ({reach / event.round:.2%}), but with probability 0.05"
    )


def _others(report: Report) -> ConsoleTable:
    table = figure_table("on the same rows", "wrong", "")
    table.columns[2].justify = "left"
    table.add_row(report.model, f"{report.error:.4f}", f"this model, epsilon {report.epsilon:g}")
    for one in report.baselines:
        table.add_row(one.name, "-" if one.error is None else f"{one.error:.4f}", one.note)
    return table


def _classes(report: Report) -> ConsoleTable:
    table = figure_table("class", "of the rows", "of the answers", "missed")
    for one in report.classes:
        table.add_row(str(one.name), f"{one.share:.4f}", f"{one.given:.4f}", f"{one.missed:.4f}")
    return table


def _phases(report: Report) -> ConsoleTable:
    table = figure_table("phase", "rounds", "wrong", "interval")
    for seen in report.phases:
        table.add_row(str(seen.phase), f"{seen.rounds:,}", f"{seen.error:.4f}", f"{seen.low:.4f} to {seen.high:.4f}")
    return table


def _stretches(report: Report) -> ConsoleTable:
    table = figure_table("from round", "rounds", "wrong", "interval", title=f"{report.order}:")
    for seen in report.stretches:
        table.add_row(f"{seen.first:,}", f"{seen.rounds:,}", f"{seen.error:.4f}", f"{seen.low:.4f} to {seen.high:.4f}")
    return table
