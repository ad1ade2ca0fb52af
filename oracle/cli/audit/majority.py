"""`perpetua audit majority`: the majority attack on whatever releases noisy copies of the same bits again and again."""

from typing import Annotated, ClassVar, Final, NoReturn

import msgspec
import numpy as np
import typer
from numpy.typing import NDArray

from oracle.audit.attacks.coins import judge
from oracle.audit.attacks.conversation import Conversation
from oracle.audit.attacks.majority import agreement_bound, correlations, majority
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
from oracle.cli.audit.releases import read_bits, read_vectors, write_bits
from oracle.cli.options import AsJson
from oracle.errors import SourceError

__all__ = ["run"]

Floats = NDArray[np.float64]

_MOST_BITS: Final = 1_000_000


class _Answer(msgspec.Struct):
    values: list[float]


class Step(msgspec.Struct, frozen=True):
    """What the first answers came to.

    Attributes:
        answers: How many.
        right: Bits that their majority gets right.
        lowest: What they prove of epsilon.
    """

    answers: int
    right: int
    lowest: float


class Reconstructed(OneRun, frozen=True, kw_only=True):
    """What the majority found.

    Attributes:
        answers: k.
        least: a, the least correlation of an answer with the bits.
        most: b, the largest correlation of two answers.
        bound: Share of bits that the majority gets right at least, of any answers with these two.
        steps: The attack on the first 1, 2, 4, ... answers, and on all; each bound alone has the stated confidence.
    """

    option: ClassVar[str] = "--bits"
    most_coins: ClassVar[int] = _MOST_BITS

    answers: int
    least: float
    most: float
    bound: float
    steps: tuple[Step, ...]


def run(  # noqa: PLR0913, PLR0917 -- the command's options
    folder: Folder = None,
    make: Make = None,
    ask: Ask = None,
    answers: AnswersFile = None,
    epsilon: Epsilon = None,
    delta: Delta = 0.0,
    bits: Annotated[int, typer.Option("--bits", min=8, max=_MOST_BITS, help="Secret bits to draw.")] = 2_000,
    times: Annotated[int, typer.Option("--times", min=1, max=100_000, help="Answers to ask --ask for.")] = 40,
    miss: Miss = 1e-3,
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Find out secret bits from many noisy copies of them, and what that proves of epsilon.

    The claim must be about exchanging a bit, and about all answers
    together: where each has an epsilon of its own, these add up. DIR has
    bits.csv (id, bit), which --make draws, and answers.csv: a column for
    each id, and a line for each answer, of numbers near the bits (0, 1,
    or anything about 1/2). Or answers.jsonl: {"values": the list} a line,
    in the order of the bits. Ask as the attack does, each time for a vector
    that is as little correlated with the answers before as with the bits.
    A program gets {"bits": the list}, then {"question": 0} and so on, and
    replies {"values": the list} to each.

    Exit 1 if the claim is refuted, or could not have been.
    """
    chosen(folder, make, ask)
    claim = Claim(epsilon, delta, miss)
    if folder is not None:
        ids, secret = read_bits(folder)
        _tell(secret, read_vectors(answers_file(folder, answers), ids), claim, as_json=as_json)
    secret = Draws(Randomness(seed_of(seed), "audit majority"), 0).uniform(bits) < 0.5  # noqa: PLR2004 -- fair
    if make is not None:
        write_bits(make, secret)
        typer.echo(
            f"{make}: bits.csv; release answers.csv of it, a line each time, then: perpetua audit majority {make}"
        )
    if ask is not None:
        _tell(secret, _asked(ask, secret, times), claim, as_json=as_json)


def _asked(command: str, secret: NDArray[np.bool_], times: int) -> Floats:
    """Ask a program again and again."""
    with Conversation("--ask", command) as program:
        program.tell({"bits": secret.astype(int).tolist()})
        vectors = [program.ask({"question": number}, _Answer).values for number in range(times)]
    if any(len(one) != len(secret) for one in vectors):
        raise SourceError(f"{command}: each answer must have {len(secret)} values, one for each bit")
    return np.array(vectors)


def _tell(secret: NDArray[np.bool_], vectors: Floats, claim: Claim, *, as_json: bool) -> NoReturn:
    """Guess, judge, print, and exit."""
    counts = sorted({*(2**power for power in range(len(vectors).bit_length())), len(vectors)})
    each = [judge(majority(vectors[:count]), secret, claim.delta, claim.miss) for count in counts]
    twin = judge(np.where(secret, 1.0, -1.0), secret, claim.delta, claim.miss)
    together = correlations(vectors, secret)
    run = Reconstructed(
        attack="majority",
        neighbours="exchanging a bit",
        answers=len(vectors),
        least=together.least,
        most=together.most,
        bound=agreement_bound(together, len(vectors)),
        steps=tuple(Step(count, one.right, one.lowest) for count, one in zip(counts, each, strict=True)),
        **found(each[-1], twin, claim),
    )
    lines = [
        ("asked", f"{run.answers:,} answers of {run.coins:,} bits"),
        *(
            (f"answers: {step.answers:,}", f"{step.right:,} bits right, epsilon >= {step.lowest:.2f}")
            for step in run.steps
        ),
        (
            "correlations",
            f"{run.least:.3f} or more of an answer with the bits, {run.most:.3f} or less of two answers (1 if alike)",
        ),
        ("guaranteed", f"{100.0 * run.bound:.1f} % of the bits at least, of any answers with these correlations"),
    ]
    tell(run, lines, as_json=as_json)
