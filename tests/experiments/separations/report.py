"""The three separations as Markdown: theory beside what was seen."""

import math
from collections.abc import Iterable, Sequence

from tests.experiments.separations.copying import Copied, Medians, Vectors
from tests.experiments.separations.prefix import Asked, Offline
from tests.experiments.separations.tracing import Game, Online, Toy, Traced
from tests.experiments.separations.vectors import answers_needed, response_epsilon


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [heads, ["---"] + ["---:"] * (len(heads) - 1), *rows]
    return [f"| {' | '.join(line)} |" for line in lines] + [""]


def _number(value: float, form: str = ",.0f") -> str:
    return "" if math.isnan(value) else "any number" if math.isinf(value) else format(value, form)


def _starts(found: Iterable[tuple[str, float, float]]) -> str:
    """Return of (name, epsilon, epsilon proved) from which epsilon on each name's answers prove any."""
    first: dict[str, float] = {}
    for name, epsilon, proved in found:
        first[name] = min(first.get(name, math.inf), epsilon if proved > 0.0 else math.inf)
    said = [f"of {name} {'nowhere' if math.isinf(low) else f'from epsilon {low:g} on'}" for name, low in first.items()]
    return f"The attack proves something {', '.join(said)}; elsewhere it stops."


def first_lines() -> list[str]:
    """Return what the report is of."""
    what = (
        "The three separations of Bun, Steinke and Ullman (2017): theory beside what was seen, and the attacks behind "
        "them on Perpetua's own predictors at growing epsilon. What is proved of epsilon holds but with probability "
        "0.001. docs/explanation/separations.md has the propositions."
    )
    which = (
        "Of Perpetua's predictors `statistics` and `sparse-vector` stand under the first two attacks. `distribution` "
        "cannot: they ask for sets of people that cross one another, and it answers for the rows up to a value only. "
        "Such sets lie within one another, so n rows have n + 1 of them, and K answers fix all of their shares to "
        "within alpha: nothing else is ever told. A prefix question would be the sum of n differences of such shares, "
        "with up to 2 n times their error. It can be asked for medians, and is."
    )
    return ["# Separations", "", what, "", which, ""]


def _plot(name: str, seen: str) -> list[str]:
    return [f"![{seen}]({name})", ""]


def prefix_lines(
    asked: Asked, found: Sequence[Online], told: Offline, played: tuple[Asked, Sequence[Game]], toys: Sequence[Toy]
) -> list[str]:
    """Return what came of prefix questions.

    Args:
        asked: Of the large instance.
        found: What its answerers gave away.
        told: The same instance, offline.
        played: Games of both worlds.
        toys: Batches of prefix questions.
    """
    small, games = played
    intro = (
        f"{asked.questions:,} questions about {asked.rows} rows, one after the other; errors in signs (-1 to 1). Seen "
        "and theory: standard deviations between rows and strangers, on average (Proposition 2). May answer: questions "
        f"that Proposition 3 lets a ({asked.epsilon:g}, 1/{30 * asked.rows:,})-private answerer of this error have."
    )
    at_once = (
        f"Offline, with all questions known: one purely {asked.epsilon:g}-private question says that the guess from "
        f"the questions is {'right' if told.passed else 'wrong'}; error 0, at most {2.0 * told.window:.3f} (in signs) "
        "but with probability 0.05 (Proposition 4)."
    )
    both = (
        f"The same row there or exchanged for a stranger, {games[0].games:,} games of each, {small.questions:,} "
        f"questions about {small.rows} rows; error as a share of the rows:"
    )
    return [
        "## Prefix questions: offline and online",
        "",
        intro,
        "",
        *_table(
            ["answers", "mean error", "seen", "theory, at least", "rows found, %", "may answer"],
            [
                [
                    one.name,
                    f"{one.error:.3f}",
                    f"{one.seen:.2f}",
                    f"{one.least:.2f}",
                    f"{100.0 * one.caught:.1f}",
                    _number(one.allowed),
                ]
                for one in found
            ],
        ),
        at_once,
        "",
        both,
        "",
        *_table(
            ["answers", "largest error", "sum where there", "where not", "epsilon, proved"],
            [
                [one.name, f"{one.error:.3f}", f"{one.there:.2f}", f"{one.gone:.2f}", f"{one.proved:.2f}"]
                for one in games
            ],
        ),
        "Batches of prefix questions at epsilon 1 (Figure 4):",
        "",
        *_table(
            ["answered by", "rows", "questions", "strings", "error, promised", "seen"],
            [
                [
                    one.name,
                    f"{one.rows:,}",
                    f"{one.questions:,}",
                    f"{one.cells:,}",
                    _number(one.promised, ".3f"),
                    f"{one.seen:.3f}",
                ]
                for one in toys
            ],
        ),
    ]


def stop_lines(traced: Traced) -> list[str]:
    """Return where tracing stops."""
    refused = ", ".join(f"{name} at {epsilon:g}" for name, epsilon in traced.refused)
    intro = (
        f"{traced.questions:,} questions about {traced.coins:,} rows, each one of two candidates by a coin. Epsilon "
        "is that of exchanging a row; Perpetua's plans have half of it, at the least alpha that the planner allows."
    )
    return [
        "### Where tracing stops",
        "",
        f"{intro} No plan for so few rows: {refused}." if refused else intro,
        "",
        *_table(
            ["answers", "epsilon", "right, %", "theory, %", "epsilon allows, %", "epsilon, proved", "mean error, %"],
            [
                [
                    one.name,
                    f"{one.epsilon:g}",
                    f"{100.0 * one.share:.1f}",
                    _number(100.0 * one.predicted, ".1f"),
                    f"{100.0 * one.cap:.1f}",
                    f"{one.proved:.2f}",
                    f"{100.0 * one.error:.2f}",
                ]
                for one in sorted(traced.guessed, key=lambda one: one.name)
            ],
        ),
        _starts((one.name, one.epsilon, one.proved) for one in traced.guessed),
        "",
        *_plot(
            "prefix.svg",
            "Left: how many rows, and how many strangers, have which tracing sum, of exact answers. Right: the share "
            "of coins guessed right at each epsilon; half is chance, and the dotted line is what epsilon allows",
        ),
    ]


def vector_lines(found: Vectors, copied: Sequence[Copied]) -> list[str]:
    """Return what came of correlated vectors and of bits that are asked for again and again."""
    alpha, gamma = found.asked
    right, sets = found.beforehand
    counts, needed = list(copied[0].shares), answers_needed(found.asked)
    intro = (
        f"{found.rows:,} signs, alpha = {alpha:g}, gamma = {gamma:g}. One randomized response (epsilon = "
        f"{response_epsilon(alpha):.3f}) is right for {right} of {sets} sets that were chosen beforehand, and for "
        f"{found.repeated} of 2 of the attack's; drawn anew for each question it is right for {found.fresh} of "
        f"{found.steps[-1].answers}. Three quarters of the signs are lost by {needed:.1f} answers "
        f"({needed * alpha**2:.2f}/alpha^2; the paper: 100/alpha^2). The majority of repeated answers gets "
        f"{100.0 * found.same:.1f} % right."
    )
    stops = (
        "Bits right by the majority of the first answers, each time in other words, %. Epsilon is that of exchanging a "
        "row: of Perpetua's predictors for all answers together, but of each fresh response; composed is that of all "
        "answers in both. With all bits right no more can be proved, whatever epsilon is."
    )
    return [
        "## Correlated vectors: beforehand and adaptive",
        "",
        intro,
        "",
        *_table(
            ["fresh answers", "right, %", "at least, %", "at least (Lemma 4.1), %", "epsilon, proved", "composed"],
            [
                [
                    f"{one.answers}",
                    f"{100.0 * one.share:.2f}",
                    f"{100.0 * one.bound:.1f}",
                    f"{100.0 * max(one.chebyshev, 0.0):.1f}",
                    f"{one.proved:.2f}",
                    f"{one.claimed:.2f}",
                ]
                for one in found.steps
            ],
        ),
        "### Where the majority stops",
        "",
        stops,
        "",
        *_table(
            [
                "answers",
                "epsilon",
                *(f"{count} time{'s' if count > 1 else ''}" for count in counts),
                "composed",
                "it allows, %",
                "epsilon, proved",
            ],
            [
                [
                    one.name,
                    f"{one.epsilon:g}",
                    *(f"{100.0 * share:.1f}" for share in one.shares.values()),
                    f"{one.composed:g}",
                    f"{100.0 * one.cap:.1f}",
                    f"{one.proved:.2f}",
                ]
                for one in sorted(copied, key=lambda one: one.name)
            ],
        ),
        _starts((one.name, one.epsilon, one.proved) for one in copied),
        "",
        *_plot(
            "vectors.svg",
            "Left: signs that the majority of so many fresh answers gets right, and the least share by theory. Right: "
            f"bits right after {max(counts)} answers at each epsilon; half is chance. Fresh responses add up, so only "
            "one of them keeps below the dotted line",
        ),
    ]


def median_lines(found: Medians) -> list[str]:
    """Return what came of medians."""
    search, (few, epsilon) = found.search, found.packed
    intro = (
        f"{search.values:,} values, ranks within {search.alpha:g} of the middle, on the hard rows of Proposition 6. "
        f"At epsilon 1, delta 0 no method does with fewer than {found.needed:,.0f} rows and {100.0 * search.beta:g} "
        f"% failures; Laplace noise on {math.ceil(math.log2(search.values))} shares is proved to do with "
        f"{found.enough:,.0f}. {few} rows without noise: their few failures prove epsilon >= {epsilon:.2f}. "
        f"With {found.ours[0].values:,} values epsilon grows, that of exchanging a row: Perpetua's own, with delta "
        "1e-6, at the least alpha that the planner allows, beside Laplace noise."
    )
    stops = (
        f"Where this attack stops: it wants few rows. With {found.ours[0].rows:,} not even medians that never fail "
        f"prove more than epsilon >= {found.least:.2f}, whatever Perpetua's own epsilon is."
    )
    return [
        "## Medians by binary search",
        "",
        intro,
        "",
        *_table(
            ["answers", "values", "rows", "epsilon", "failures, %"],
            [
                [one.name, f"{one.values:,}", f"{one.rows:,}", f"{one.epsilon:g}", f"{100.0 * one.failures:.1f}"]
                for one in (*found.told, *sorted(found.ours, key=lambda one: one.name))
            ],
        ),
        stops,
        "",
        *_plot(
            "medians.svg",
            "Left: medians by Laplace noise that fail, by rows; left of the solid line nobody does without failures, "
            "and the dotted line is proved to be enough. Right: medians that fail at each epsilon, of Perpetua's own "
            "and by Laplace noise",
        ),
    ]
