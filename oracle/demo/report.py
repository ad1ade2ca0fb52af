"""What the demo says at its end: the rows of its table, and plain words for a newcomer."""

import math
import shlex
from pathlib import Path
from typing import Final

from oracle.demo.data import Prepared
from oracle.demo.model import LEAST_VISIBILITY, MOST_WIND
from oracle.demo.score import Score
from oracle.planning.plan import Plan
from oracle.state.status import Status

__all__ = ["STRICTER_EPSILON", "summary", "what_happened", "what_next"]

STRICTER_EPSILON: Final = 1.5
"""What the flights at hand are enough for, if the first phase may be long."""


def summary(plan: Plan, status: Status, score: Score, seconds: float) -> list[tuple[str, str]]:
    """Return the rows of the closing table: (name, value); the seconds are of answering, restart included."""
    phases = ", ".join(f"{error:.2%} in phase {phase}" for phase, error in score.errors_by_phase.items())
    return [
        ("accuracy", f"{1.0 - score.error:.2%}"),
        ("error", f"{score.error:.2%} ({phases}); planned for at most {plan.alpha:.0%}"),
        ("error without learning", f"{score.baseline:.2%} (always giving the more frequent answer)"),
        ("rounds", f"{status.round:,} (one for each query)"),
        ("phase", f"{status.phase} of {len(plan.phases)}; {status.phase_rounds_left:,} rounds left in it"),
        ("re-armed sides", f"{status.rearms:,} (armed afresh within a phase)"),
        ("epsilon", f"{plan.epsilon:g} for each flight, however many queries follow"),
        ("delta", f"{status.delta:.2g} for each flight of this phase"),
        ("delta spent", f"{status.delta_spent:.3g} of {status.delta_limit:g}, the bound on its sum for ever"),
        ("throughput", f"{score.rounds / max(seconds, 1e-9):,.0f} answers a second, restart included"),
    ]


def what_happened(prepared: Prepared, plan: Plan, score: Score) -> str:
    """Tell what just happened, in paragraphs separated by empty lines."""
    parts = (_learning(prepared), _answering(plan, score), _renewal(score), _protection(plan))
    return "\n\n".join(part for part in parts if part)


def _learning(prepared: Prepared) -> str:
    return (
        f"{prepared.examples:,} flights that left New York from January to September 2013 were labelled by a rule of "
        f"flight: visibility at least {LEAST_VISIBILITY:g} statute miles (14 CFR 91.155, flight by sight) and wind at "
        f"most {MOST_WIND:g} knots (a limit such as flight schools set). The oracle was not told the rule; it learned "
        f"from the labelled flights, of which the rule allows {prepared.share:.0%}. ({prepared.dropped:,} of the "
        f"{prepared.flights:,} flights of the year were left out: their hour has no weather report.)"
    )


def _answering(plan: Plan, score: Score) -> str:
    days, counts, wrong = score.by_day()
    worst = float((wrong / counts).max())
    text = (
        f"Then the flights of {len(days)} days asked, one after another: may we take off in this weather? The daemon "
        f"was killed on the way (kill -9) and started again: {score.rounds:,} queries, {score.rounds:,} answers, none "
        f"lost, none twice. {score.error:.2%} of them were wrong; always giving the more frequent answer would have "
        f"been wrong in {score.baseline:.2%}."
    )
    if worst > plan.alpha:
        text += (
            f" The bound of {plan.alpha:.0%} is on the average; a day whose weather is at the edge of the rule may be "
            f"above it (the worst one here: {worst:.0%})."
        )
    return text


def _renewal(score: Score) -> str:
    if not score.phase_starts:
        return ""
    phase, row = next(iter(score.phase_starts.items()))
    before, after = score.errors_by_phase[phase - 1], score.errors_by_phase[phase]
    return (
        f"At query {row:,} phase {phase} began: the oracle dropped what it had learned from and went on with what it "
        f"had gathered from the queries, which carry no labels. The error was {before:.2%} before and {after:.2%} "
        "after. This renewal is why it can answer for ever: no flight is used for longer than two phases."
    )


def _protection(plan: Plan) -> str:
    return (
        "What is protected: every labelled flight and every flight that asked. Someone who sees all answers but the "
        "one given to a flight learns little about that flight: whether it was there changes the odds of anything "
        f"they see by a factor of at most e^{plan.epsilon:g} = {math.exp(plan.epsilon):.3g}, but for a small "
        f"probability delta; its sum over all flights stays at most {plan.delta:g}, for ever. One flight is one "
        "record; the weather of an hour, which many flights share, is not protected as a whole."
    )


def what_next(prepared: Prepared, plan: Plan, least: int, folder: Path, program: str) -> str:
    """Tell what to try next, a suggestion a paragraph; a command is a line of its own, indented.

    Args:
        prepared: The flights.
        plan: Of the demo's model.
        least: Flights that would do for epsilon 1.
        folder: Of the demo.
        program: How `perpetua` is called from here.
    """
    months, model_file = 9.0 * least / prepared.examples, folder / "flights.toml"
    stronger = (
        f"A stronger promise. Epsilon {plan.epsilon:g} is a weak one; with 1 the odds change by a factor of at most "
        f"2.72. Epsilon 1 would take {least:,} labelled flights, about {months:.0f} months of them; here are "
        f"{prepared.examples:,}, from 9 months."
    )
    enough = (
        f"These flights are enough for epsilon {STRICTER_EPSILON:g}: in {model_file} write epsilon = "
        f"{STRICTER_EPSILON:g} and take out first_share. The first phase then lasts millions of queries, so this "
        "log would not reach a second one. See it with:"
    )
    own = (
        f"Your own data: copy {model_file} to MODEL.toml, name your columns and the sides that the box may have, see "
        "what the error would be, and make a state:"
    )
    file, state = shlex.quote(str(model_file)), shlex.quote(str(folder / "state"))
    suggestions = (
        (stronger,),
        (enough, f"plan {file}"),
        ("What anyone may know about the oracle:", f"status {state}"),
        ("What a second accountant says of its plan and state (half a minute):", f"audit --state {state}"),
        (own, "evaluate MODEL.toml --train ROWS.csv --test OTHERS.csv", "init MODEL.toml --data ROWS.csv --state DIR"),
    )
    return "\n".join(
        "\n".join([f"- {text}", *(f"    {program} {command}" for command in commands)])
        for text, *commands in suggestions
    )
