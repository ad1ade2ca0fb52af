"""What the demo says at its end: the rows of its table, and plain words for a newcomer."""

import math
from pathlib import Path

from oracle.cli.flights.data import Prepared
from oracle.cli.flights.model import LEAST_VISIBILITY, MOST_WIND
from oracle.cli.flights.score import Score
from oracle.cli.status import Status
from oracle.planning.plan import Plan

__all__ = ["STRICTER_EPSILON", "summary", "what_happened", "what_next"]

STRICTER_EPSILON = 1.5
"""What the flights at hand are enough for, if the first phase may be long."""


def summary(plan: Plan, status: Status, score: Score, seconds: float) -> list[tuple[str, str]]:
    """Return the rows of the closing table: (name, value).

    Args:
        plan: The plan that was served.
        status: The state's public facts at the end.
        score: The answers beside the truth.
        seconds: Time that answering took, restart included.
    """
    phases = ", ".join(f"{error:.2%} in phase {phase}" for phase, error in score.errors_by_phase.items())
    return [
        ("accuracy", f"{1.0 - score.error:.2%}"),
        ("error", f"{score.error:.2%} ({phases}); planned for at most {plan.alpha:.0%}"),
        ("error without any learning", f"{score.baseline:.2%} (always giving the more frequent answer)"),
        ("rounds", f"{status.round:,} (one for each query)"),
        ("phase", f"{status.phase} of {len(plan.phases)}; {status.phase_rounds_left:,} rounds left in it"),
        ("sides armed again within a phase", f"{status.rearms:,}"),
        ("epsilon", f"{plan.epsilon:g} for each flight, however many queries follow"),
        ("delta", f"{status.delta:.2g} for each flight of this phase"),
        ("delta spent", f"{status.delta_spent:.3g} of {status.delta_limit:g}, the bound on its sum for ever"),
        ("throughput", f"{score.rounds / max(seconds, 1e-9):,.0f} answers a second, restart included"),
    ]


def what_happened(prepared: Prepared, plan: Plan, score: Score) -> str:
    """Tell what just happened, in paragraphs separated by empty lines."""
    days = (score.times[-1] - score.times[0]).astype("timedelta64[D]").astype(int) + 1
    paragraphs = [
        f"{prepared.examples:,} flights that left New York from January to September 2013 were labelled by a rule of "
        f"flight: visibility at least {LEAST_VISIBILITY:g} statute miles (14 CFR 91.155, flight by sight) and wind at "
        f"most {MOST_WIND:g} knots (a flight school's limit). The oracle never saw the rule. It learned from the "
        f"labelled flights, {prepared.share:.0%} of them allowed. ({prepared.dropped:,} of the {prepared.flights:,} "
        "flights were left out: the hour they left in has no weather report.)",
        f"Then the flights of the last {days} days asked, one after another: may I take off? Each got one answer. The "
        f"daemon was killed on the way (kill -9) and started again: {score.rounds:,} queries, {score.rounds:,} "
        f"answers, none lost, none twice. {score.error:.2%} of them were wrong; always giving the more frequent answer "
        f"would have been wrong in {score.baseline:.2%}.",
        _renewal(score),
        f"What is protected: every labelled flight and every flight that asked. Someone who sees all answers but one "
        f"flight's own learns little about that flight: whether it was there changes the odds of anything they can see "
        f"by a factor of at most e^{plan.epsilon:g} = {math.exp(plan.epsilon):.3g}, except with a probability delta "
        f"that stays below {plan.delta:g} when summed over all flights for ever. One flight is one record; the "
        "weather of an hour, which many flights share, is not protected as a whole.",
    ]
    return "\n\n".join(part for part in paragraphs if part)


def _renewal(score: Score) -> str:
    if not score.phase_starts:
        return ""
    phase, row = next(iter(score.phase_starts.items()))
    before, after = score.errors_by_phase[phase - 1], score.errors_by_phase[phase]
    return (
        f"At query {row:,} phase {phase} began: the oracle threw away what it had learned from and went on with what "
        f"it had gathered from the queries, which carry no labels. The error was {before:.2%} before and {after:.2%} "
        "after. This renewal is why it can answer for ever: no flight is used for longer than two phases."
    )


def what_next(prepared: Prepared, plan: Plan, least: int, model_file: Path, state: Path) -> str:
    """Tell what to try next, one suggestion a line.

    Args:
        prepared: The demo's data.
        plan: The plan that was served.
        least: Flights that epsilon 1 would need (`least_flights`).
        model_file: The demo's model file.
        state: The demo's state folder.
    """
    months = 9.0 * least / prepared.examples
    lines = [
        f"A stronger promise. Epsilon {plan.epsilon:g} is a weak one; 1 is a strong one (odds change by at most 2.72). "
        f"Epsilon 1 would take {least:,} labelled flights, about {months:.0f} months of them; here are "
        f"{prepared.examples:,} from 9 months.",
        f"These flights are enough for epsilon {STRICTER_EPSILON:g}: in {model_file} write epsilon = "
        f"{STRICTER_EPSILON:g} and take out first_share. The first phase then lasts millions of queries, so this "
        f"log would not reach a second one. See it with: perpetua plan {model_file}",
        f"What anyone may know about the oracle: perpetua status {state}",
        "Your own data: copy the model file, name your columns and their ranges, then: "
        "perpetua init MODEL.toml --data ROWS.csv --state DIR",
    ]
    return "\n".join(f"- {line}" for line in lines)
