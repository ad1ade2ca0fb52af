"""What the attacks on other programs' releases have in common: options, the claim, and what is said of it."""

import re
import secrets
from pathlib import Path
from typing import Annotated, Any, ClassVar, NoReturn

import msgspec
import typer

from oracle.audit.attacks.coins import Guesses, cap, coins_needed
from oracle.cli.output import Row, print_json, print_rows, wide_console
from oracle.errors import InputError

__all__ = [
    "AnswersFile",
    "Ask",
    "Claim",
    "Delta",
    "Epsilon",
    "Folder",
    "Make",
    "Miss",
    "OneRun",
    "Seed",
    "chosen",
    "tell",
]

Folder = Annotated[Path | None, typer.Argument(metavar="[DIR]", help="What was released, as files (see --make).")]
Make = Annotated[Path | None, typer.Option("--make", help="Write what is to be released to this folder, and stop.")]
Ask = Annotated[
    str | None, typer.Option("--ask", metavar="COMMAND", help="Start this program and ask it: JSON lines both ways.")
]
AnswersFile = Annotated[
    Path | None, typer.Option("--answers", help="The answers; by default DIR/answers.csv or DIR/answers.jsonl.")
]
Epsilon = Annotated[
    float | None,
    typer.Option("--epsilon", min=0.0, help="Claimed of all answers together; left out, nothing is judged."),
]
Delta = Annotated[float, typer.Option("--delta", min=0.0, max=0.5, help="Claimed of all answers together.")]
Miss = Annotated[float, typer.Option("--miss", help="Probability that a true claim is refuted by chance.")]
Seed = Annotated[
    str | None, typer.Option("--seed", help="Seed of what is drawn, 32 hex digits; by default a fresh one.")
]

_LEAST_MISS = 1e-9


class Claim(msgspec.Struct, frozen=True):
    """What is claimed of a release.

    Attributes:
        epsilon: Nats; None where nothing is.
        delta: Probability.
        miss: Probability that a true claim is refuted by chance.
    """

    epsilon: float | None
    delta: float
    miss: float

    def __post_init__(self) -> None:
        """Refuse a probability that no bound can be computed with."""
        if not _LEAST_MISS <= self.miss < 1.0:
            raise InputError("--miss", self.miss, f"must be from {_LEAST_MISS:g} to below 1")


class OneRun(msgspec.Struct, frozen=True, kw_only=True):
    """What one attack found. `--json` prints it, with what the attack has beside.

    Attributes:
        option: Which one says how many coins are tossed.
        most_coins: Its bound.
        attack: Its name.
        neighbours: What a coin decides, and so what the epsilons are of.
        claim: What was claimed.
        coins: Fair coins that what was released depends on.
        right: How many of all were guessed right.
        cap: The share that the claim lets anybody expect to guess right, at most.
        guessed: How many guesses the bound counts.
        guessed_right: How many of these were right.
        lowest: Epsilon is at least this, but with probability `miss` (nats).
        exact_right: How many are guessed right of exact answers, by the same attack.
        exact_lowest: What exact answers prove: no claim above it can be refuted here.
    """

    option: ClassVar[str]
    most_coins: ClassVar[int]

    attack: str
    neighbours: str
    claim: Claim
    coins: int
    right: int
    cap: float | None
    guessed: int
    guessed_right: int
    lowest: float
    exact_right: int
    exact_lowest: float

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted."""
        return self.claim.epsilon is not None and self.lowest > self.claim.epsilon

    @property
    def weak(self) -> bool:
        """Whether exact answers would not have refuted the claim either."""
        return self.claim.epsilon is not None and self.exact_lowest <= self.claim.epsilon


def found(found: Guesses, exact: Guesses, claim: Claim) -> dict[str, Any]:
    """Return the fields of `OneRun` that follow from guesses."""
    return {
        "claim": claim,
        "coins": found.coins,
        "right": found.right,
        "cap": None if claim.epsilon is None else cap(claim.epsilon, claim.delta),
        "guessed": found.guessed,
        "guessed_right": found.guessed_right,
        "lowest": found.lowest,
        "exact_right": exact.right,
        "exact_lowest": exact.lowest,
    }


def chosen(folder: Path | None, make: Path | None, ask: str | None) -> None:
    """Refuse none or several of the three ways.

    Raises:
        InputError: There is not exactly one.
    """
    if sum(way is not None for way in (folder, make, ask)) != 1:
        raise InputError("DIR, --make, --ask", None, "must be one of the three: files, making them, or a program")


def seed_of(text: str | None) -> bytes:
    """Return the seed's bytes.

    Raises:
        InputError: It is none.
    """
    if text is not None and re.fullmatch(r"[0-9a-f]{32}", text) is None:
        raise InputError("--seed", text, "must be 32 hex digits")
    return secrets.token_bytes(16) if text is None else bytes.fromhex(text)


def answers_file(folder: Path, answers: Path | None) -> Path:
    """Return the file of answers."""
    lines = folder / "answers.jsonl"
    return answers or (lines if lines.exists() else folder / "answers.csv")


def tell(run: OneRun, rows: list[Row], *, as_json: bool) -> NoReturn:
    """Print what was found, and exit with 1 if a claim was refuted or could not have been."""
    if as_json:
        print_json(run)
    else:
        print_rows(wide_console(), [*rows, *_rows(run)])
    raise typer.Exit(1 if run.refuted or run.weak else 0)


def _rows(run: OneRun) -> list[Row]:
    claim, share = run.claim, run.right / run.coins
    limit = "" if run.cap is None else f"; epsilon = {claim.epsilon:g} lets {100.0 * run.cap:.1f} % be expected at most"
    surest = f", from {run.guessed_right:,} of the surest {run.guessed:,}" if run.guessed < run.coins else ""
    return [
        ("guessed right", f"{run.right:,} of {run.coins:,} coins, {100.0 * share:.1f} %{limit}"),
        (
            "exact answers",
            f"{run.exact_right:,} of {run.coins:,}; they would have proved epsilon >= {run.exact_lowest:.2f}",
        ),
        (
            "proved",
            f"epsilon >= {run.lowest:.2f}{surest}; wrong with probability {claim.miss:g} at delta = {claim.delta:g}",
        ),
        ("neighbours", f"every epsilon here is that of {run.neighbours}"),
        ("outcome", _outcome(run)),
    ]


def _outcome(run: OneRun) -> str:
    if run.claim.epsilon is None:
        return "nothing was claimed (--epsilon)"
    claim = f"epsilon = {run.claim.epsilon:g}, of {run.neighbours},"
    if run.refuted:
        return f"REFUTED: {claim} is not true of these answers"
    if run.weak:
        return f"could not tell: not even exact answers would refute {claim.removesuffix(',')}; {_more(run)}"
    if run.lowest == 0.0:
        return f"{claim} was not refuted, but the attack had no power: of these answers it refutes no claim at all"
    return f"{claim} was not refuted"


def _more(run: OneRun) -> str:
    """Say what would let the attack tell."""
    claim = run.claim
    coins = None if claim.epsilon is None else coins_needed(claim.epsilon, claim.delta, claim.miss)
    if coins is None:
        return f"no number of coins does at delta = {claim.delta:g} and --miss {claim.miss:g}"
    if coins > run.most_coins:
        return f"about {coins:,} coins would be needed, and {run.option} ends at {run.most_coins:,}"
    return f"toss {coins:,} coins or more ({run.option})" if run.coins < coins else "ask more questions"
