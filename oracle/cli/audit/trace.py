"""`perpetua audit trace`: the tracing attack on whatever answers questions about shares of a data set's rows."""

from pathlib import Path
from typing import Annotated, ClassVar, Final, NoReturn

import msgspec
import numpy as np
import typer
from numpy.typing import NDArray

from oracle.audit.attacks.coins import judge
from oracle.audit.attacks.conversation import Conversation
from oracle.audit.attacks.trace import Design, draw_design, predicted_share, trace
from oracle.audit.randomness import Draws, Randomness
from oracle.cli.audit.one_run import (
    AnswersFile,
    Ask,
    Claim,
    Delta,
    Epsilon,
    Folder,
    Make,
    Miss,
    OneRun,
    Seed,
    answers_file,
    chosen,
    found,
    seed_of,
    tell,
)
from oracle.cli.audit.releases import read_design, read_shares, write_design
from oracle.cli.options import AsJson
from oracle.cli.progress import Progress
from oracle.errors import InputError, SourceError

__all__ = ["run"]

Floats = NDArray[np.float64]

_MOST_BITS: Final = 1 << 30
"""Of all candidates, a byte each."""

_MOST_COINS: Final = 100_000
_PAIR: Final = 2


class _Answer(msgspec.Struct):
    answer: float | None


class Traced(OneRun, frozen=True, kw_only=True):
    """What tracing found.

    Attributes:
        questions: Asked.
        answered: Of these.
        error: Mean error of the answers, as a share of the rows.
        predicted: Share of coins that would be guessed right of normal errors as large as those of the answers.
    """

    option: ClassVar[str] = "--coins"
    most_coins: ClassVar[int] = _MOST_COINS

    questions: int
    answered: int
    error: float
    predicted: float


def run(  # noqa: PLR0913, PLR0917 -- the command's options
    folder: Folder = None,
    make: Make = None,
    ask: Ask = None,
    answers: AnswersFile = None,
    epsilon: Epsilon = None,
    delta: Delta = 0.0,
    coins: Annotated[
        int, typer.Option("--coins", min=8, max=_MOST_COINS, help="Coins to toss, one for each pair of candidates.")
    ] = 1_500,
    questions: Annotated[
        int, typer.Option("--questions", min=1, max=10_000_000, help="Questions to ask; 20 for each coin see much.")
    ] = 20_000,
    alone: Annotated[
        bool,
        typer.Option(
            "--alone",
            help="One candidate a coin, who is there or not: for a claim about a row more or less. Also for the files "
            "that this made.",
        ),
    ] = False,
    miss: Miss = 1e-3,
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Find out from answers about shares of rows who is among the rows, and what that proves of epsilon.

    A coin decides for each pair of candidates which of the two is a row.
    The claim must be about exchanging a row, or with --alone about a row
    more or less. DIR has candidates.csv (pair, id, bits: a whole number,
    the same for the two of a pair; 0 or 1 for each question; with --alone
    a number has one line), rows.csv (id, bits: the data set), and answers.csv
    (question, answer: the number of a question, from 0, and the share of
    the rows with a 1 there); --make writes the first two. Or .jsonl, a
    JSON object a line; pair, question and answer are numbers. A program
    gets the ids of the rows, and for each question its number and the ids
    with a 1: {"rows": ...}, then {"question": 0, "ids": ...} and so on. It
    replies {"answer": 0.5}, or null once it answers no more.

    Exit 1 if the claim is refuted, or could not have been.
    """
    chosen(folder, make, ask)
    claim = Claim(epsilon, delta, miss)
    if folder is not None:
        design, exact = read_design(folder)
        _refuse_other_neighbours(design, folder, alone=alone)
        given = read_shares(answers_file(folder, answers), len(exact))
        _tell(design, exact, given, claim, as_json=as_json)
    if coins * questions * (1 if alone else 2) > _MOST_BITS:
        raise InputError("--questions", questions, f"must be fewer for {coins:,} coins: {_MOST_BITS:,} bits at most")
    design = draw_design(Draws(Randomness(seed_of(seed), "audit trace"), 0), coins, questions, pairs=not alone)
    if make is not None:
        write_design(make, design)
        then = f"perpetua audit trace {make}{' --alone' if alone else ''}"
        typer.echo(f"{make}: candidates.csv and rows.csv; release answers.csv of rows.csv, then: {then}")
    if ask is not None:
        _tell(design, design.exact, _asked(ask, design), claim, as_json=as_json)


def _refuse_other_neighbours(design: Design, folder: Path, *, alone: bool) -> None:
    """Refuse candidates that say nothing of the claim: exchanging a row can take twice the epsilon of leaving it out.

    Raises:
        InputError: There are two candidates a coin and `--alone`, or one without it.
    """
    pairs = design.bits.shape[1] == _PAIR
    if pairs and alone:
        reason = "tests exchanging a row, not a row more or less: make files with --make and --alone"
        raise InputError("--alone", alone, f"{folder} has two candidates a coin, which {reason}")
    if not pairs and not alone:
        reason = "tests a row more or less, not exchanging one: say --alone if the claim is about that"
        raise InputError("--alone", alone, f"{folder} has one candidate a coin, which {reason}")


def _asked(command: str, design: Design) -> Floats:
    """Ask a program question after question."""
    names = np.array([[f"{pair}.{place}" for place in range(design.bits.shape[1])] for pair in range(len(design.bits))])
    answers = np.full(design.bits.shape[2], np.nan)
    with Conversation("--ask", command) as program, Progress("asking", len(answers), "questions") as progress:
        program.tell({"rows": names[design.present].tolist()})
        for number in range(len(answers)):
            ids = names[design.bits[:, :, number] == 1].tolist()
            value = program.ask({"question": number, "ids": ids}, _Answer).answer
            answers[number] = np.nan if value is None else value
            progress.at(number + 1)
    if np.isnan(answers).all():
        raise SourceError(f"{command}: has answered nothing")
    return answers


def _tell(design: Design, exact: Floats, answers: Floats, claim: Claim, *, as_json: bool) -> NoReturn:
    """Guess, judge, print, and exit."""
    asked, rows = np.isfinite(answers), max(int(design.present.sum()), 1)
    guesses, twin = (
        judge(trace(design.bits, one), design.coins, claim.delta, claim.miss)
        for one in (answers, np.where(asked, exact, np.nan))
    )
    traced = Traced(
        attack="trace",
        neighbours="exchanging a row" if design.bits.shape[1] == _PAIR else "a row more or less",
        questions=len(answers),
        answered=int(asked.sum()),
        error=float(np.abs(answers - exact)[asked].mean()),
        predicted=predicted_share(design.bits, answers, rows),
        **found(guesses, twin, claim),
    )
    lines = [
        ("asked", f"{traced.questions:,} questions, {traced.answered:,} answered; mean error {traced.error:.4f}"),
        ("expected", f"{100.0 * traced.predicted:.1f} % of the coins, were the errors independent"),
    ]
    tell(traced, lines, as_json=as_json)
