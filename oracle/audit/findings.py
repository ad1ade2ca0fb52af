"""What an audit found, as it is printed, stored and drawn."""

import math
from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec

__all__ = [
    "NEAR",
    "Check",
    "Finding",
    "Seen",
    "finite",
    "limit_text",
    "near",
    "near_predictors",
    "outcome",
    "refuted",
    "too_few",
    "untold",
    "verdict",
]

NEAR: Final = 4.0
"""Adversaries count as strong enough if the best of them comes within this factor of the claim."""

Seen = tuple[bool, str]
"""Of a check: whether it passes, and what was seen."""


_NAMED: Final = 3
"""Parts that a sentence names at most."""


class Finding(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="game"):
    """What games against one target proved.

    Attributes:
        cell: Its unique name.
        level: What was attacked: one BetweenThresholds, paid questions, one Stopper, a whole predictor, or the daemon.
        target: Its name.
        adversary: Who attacked.
        record: What the hidden record was.
        epsilon: Claimed (nats).
        delta: Claimed.
        nominal: True where no proof bounds them (the `paper` profile).
        games: Games played in each world.
        aims: In how many ways the adversary aimed.
        aim: The way that told most.
        likelier: How often the most telling event happened in the world where it is likelier.
        rarer: How often in the other.
        lowest: Epsilon is at least this, but with probability `miss`.
        estimate: The same without any margin; null if the event never happened in one world.
        highest: Upper end for this event; null if it has none.
        ceiling: What all games could have proved at most, of something with no privacy at all.
        limit: The detection limit: the least multiple of the claimed epsilon, on a ladder, that the same adversary
            would have refuted, measured (`oracle.audit.games.sequence`); null if none, or if not measured
            (nominal claims, daemons).
        miss: Probability that `lowest` is too high by chance.
        seconds: Processor time that it took.
    """

    cell: str
    level: Literal["between-thresholds", "paid-questions", "stopper", "predictor", "daemon"]
    target: str
    adversary: str
    record: str
    epsilon: float
    delta: float
    nominal: bool
    games: int
    aims: int
    aim: str
    likelier: int
    rarer: int
    lowest: float
    estimate: float | None
    highest: float | None
    ceiling: float
    limit: float | None
    miss: float
    seconds: float

    @property
    def refutes(self) -> bool:
        """True if the claim is refuted."""
        return self.lowest > self.epsilon


class Check(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="check"):
    """What a check of structure, time or a daemon's restarts found.

    Attributes:
        cell: Its unique name.
        target: What was checked.
        name: What must hold.
        passed: Whether it does.
        unsure: Whether it could not be told; then it has not passed, and nothing is said against what must hold.
        says: What was seen, in words.
        seconds: Processor time that it took.
        promise: Whether it is about a promise, of errors or of rows, and not about privacy.
    """

    cell: str
    target: str
    name: str
    passed: bool
    says: str
    seconds: float
    unsure: bool = False
    promise: bool = False


def limit_text(one: Finding) -> str:
    """Return the detection limit as it is shown."""
    measured = not one.nominal and one.level != "daemon"
    return f"{one.limit:g} eps" if one.limit is not None else "none" if measured else "-"


def finite(value: float) -> float | None:
    """Return a number as JSON can hold it: None if it is infinite."""
    return value if math.isfinite(value) else None


def refuted(results: Sequence[Finding | Check]) -> list[Finding | Check]:
    """Return the findings that refute a claim, and the failed checks."""
    return [one for one in results if (one.refutes if isinstance(one, Finding) else not (one.passed or one.unsure))]


def untold(results: Sequence[Finding | Check]) -> list[Check]:
    """Return the inconclusive checks."""
    return [one for one in results if isinstance(one, Check) and one.unsure]


def too_few(results: Sequence[Finding | Check]) -> list[Finding]:
    """Return the attacks on proved claims that had too few games to refute them, whatever they had seen."""
    return [one for one in results if isinstance(one, Finding) and not one.nominal and one.ceiling <= one.epsilon]


def outcome(results: Sequence[Finding | Check]) -> str:
    """Summarize all results in a sentence or two, with what they leave open."""
    broken, open_ones, weak = refuted(results), untold(results), too_few(results)
    games, checks = (sum(isinstance(one, kind) for one in results) for kind in (Finding, Check))
    if broken:
        said = f"{len(broken)} of {len(results)} parts failed: {_names(broken)}."
    elif open_ones:
        said = f"No claim was refuted, but {len(open_ones)} of {checks} checks could not tell: {_names(open_ones)}."
    elif games and checks:
        said = "No claim was refuted, and every check passed."
    else:
        said = "No claim was refuted; nothing was checked." if games else "Every check passed; no game was played."
    if weak:
        names = f" ({weak[0].cell})" if len(weak) == 1 else ""
        said += f" {len(weak)} of {games} attacks had too few games to refute their claim, whatever they saw{names}."
    return said


def _names(results: Sequence[Finding | Check]) -> str:
    """Return what some parts are called; of many the first, as a report says what was seen of each."""
    more = f"; and {len(results) - _NAMED} more" if len(results) > _NAMED else ""
    return "; ".join(one.cell for one in results[:_NAMED]) + more


def verdict(check: Check) -> str:
    """Return a check's result in a word or two."""
    return "could not tell" if check.unsure else "holds" if check.passed else "FAILS"


def near(results: Sequence[Finding | Check]) -> dict[str, float]:
    """Return, for each level of attack, the least factor by which a proved claim exceeds what was shown of it.

    Not for daemons: their games are too few to come near; they are played for the noise to be the same.
    """
    return _factors(results, lambda one: one.level)


def near_predictors(results: Sequence[Finding | Check]) -> dict[str, float]:
    """Return the same for each predictor that was attacked as a whole, by its name."""
    return _factors([one for one in results if isinstance(one, Finding) and one.level == "predictor"], _target)


def _target(one: Finding) -> str:
    return one.target


def _factors(results: Sequence[Finding | Check], kind: Callable[[Finding], str]) -> dict[str, float]:
    factors: dict[str, float] = {}
    for one in results:
        if isinstance(one, Finding) and not one.nominal and one.level != "daemon":
            factor = one.epsilon / one.lowest if one.lowest > 0.0 else math.inf
            factors[kind(one)] = min(factors.get(kind(one), math.inf), factor)
    return factors
