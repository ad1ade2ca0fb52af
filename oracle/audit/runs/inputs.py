"""Rows and messages of uneven runs: features of every type, points about the sides' edges, and what is no query."""

import math
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, Final

from oracle.audit.randomness import Draws
from oracle.audit.references.values import Value
from oracle.planning.bisection.model import BisectionPlan
from oracle.planning.features import Feature

__all__ = ["ANY", "MANY", "NUMBERS", "ONE", "SCALARS", "drawn_rows", "messages_about", "row_at", "vectors_for"]

_SILENT, _WRONG, _AGAIN = 0.08, 0.04, 0.1
_NEAR, _ANYWHERE = 0.55, 0.08
_INNER: Final = 0.15
"""What a box cuts off of a feature, at a side."""

_MISTAKEN: Final = 0.04

_LETTERS: Final = "\0\1 09AZ_az~\x7f\u00e9\u03c0\u07ff\u0800\ud7ff\uffff\U00010000\U0010ffff"
"""In the order of their codes, and of their bytes in UTF-8."""

_FIRST_DAY: Final = date(1999, 12, 1)

NUMBERS: Final = (
    Feature(name="a", sides="none"),
    Feature(name="b", sides="both", bounds=(2.0, 3.1)),
    Feature(name="c", sides="upper", bounds=(-0.45, 0.35)),
    Feature(name="d", sides="lower", bounds=(-40.0, -5.0)),
)
"""Numbers, of which one has no side."""

ANY: Final = (
    Feature(name="day", type="date", sides="lower"),
    Feature(name="none", sides="none"),
    Feature(name="text", type="string", max_bytes=8, sides="both"),
    Feature(name="price", type="decimal", places=2, sides="upper"),
)
"""Of every type; keys are bytes."""

SCALARS: Final = (
    Feature(name="day", type="date", sides="both"),
    Feature(name="none", type="string", sides="none"),
    Feature(name="price", type="decimal", places=2, sides="upper"),
    Feature(name="b", sides="lower"),
)
"""Dates and decimals, whose keys are numbers."""

MANY: Final = tuple(
    Feature(name=f"f{number}", sides=("both", "lower", "upper")[number % 3], bounds=(number - 3.5, number * 1.5 - 3.0))
    for number in range(11)
)

ONE: Final = (Feature(name="a", sides="lower"),)


def _value(feature: Feature, share: float) -> Value:
    """Return a feature's value, which grows with a number from 0 to 1; many have the same one."""
    match feature.kind:
        case "date":
            return (_FIRST_DAY + timedelta(days=int(share * 90))).isoformat()
        case "decimal":
            return round(share * 5.0 - 2.0, 1)
        case "string":
            place = int(share * 80)
            return _LETTERS[place // 4] + "az\u00e9"[: place % 4]
        case _:
            low, high = feature.bounds or (-0.5, 0.5)
            number = low + (round(share * 40.0) / 40.0 if int(share * 997) % 2 else share) * (high - low)
            return number or math.copysign(0.0, share - 0.5)


def _inside(feature: Feature, share: float) -> bool:
    low = feature.sides in {"both", "lower"} and share < _INNER
    high = feature.sides in {"both", "upper"} and share > 1.0 - _INNER
    return not low and not high


def drawn_rows(draws: Draws, features: Sequence[Feature], count: int) -> tuple[list[tuple[Value, ...]], list[bool]]:
    """Return rows, and labels by a box, but for a few."""
    shares = [
        (0.5 + (0.6 + 0.4 * draws.below(2)) * (draws.uniform(len(features)) - 0.5)).tolist() for _ in range(count)
    ]
    labels = [
        all(_inside(*pair) for pair in zip(features, row, strict=True)) != (draws.one() < _MISTAKEN) for row in shares
    ]
    return [row_at(features, row) for row in shares], labels


def row_at(features: Sequence[Feature], shares: Sequence[float]) -> tuple[Value, ...]:
    """Return a row, by a number from 0 to 1 for each feature."""
    return tuple(_value(*pair) for pair in zip(features, shares, strict=True))


def messages_about(draws: Draws, features: Sequence[Feature], rounds: int) -> list[Any]:
    """Return queries about the sides' edges, and far inside; some again, rounds with none, and what is no query."""
    sided = [place for place, feature in enumerate(features) if feature.sides != "none"]
    messages: list[Any] = []
    while rounds:
        kind = draws.one()
        shares = (0.35 + 0.3 * draws.uniform(len(features))).tolist()
        if kind < _WRONG:
            messages.append(())
        elif kind < _WRONG + _SILENT:
            messages.append(None)
        elif messages and kind < _WRONG + _SILENT + _AGAIN:
            messages.append(messages[draws.below(len(messages))])
        elif kind < _WRONG + _SILENT + _AGAIN + _ANYWHERE:
            messages.append(row_at(features, draws.uniform(len(features)).tolist()))
        else:
            if draws.one() < _NEAR:
                place = sided[-1 - draws.below(len(sided)) * draws.below(2)]  # the last one most often
                off = _INNER + 0.12 * draws.one() - 0.02
                ends = {"lower": [off], "upper": [1.0 - off], "both": [off, 1.0 - off]}[features[place].sides]
                shares[place] = ends[draws.below(len(ends))]
            messages.append(row_at(features, shares))
        rounds -= messages[-1] != ()
    return messages


def vectors_for(draws: Draws, plan: BisectionPlan) -> list[Any]:
    """Return queries along the basis, some elsewhere or out of range; rounds with none, and what is no query."""
    messages: list[Any] = []
    rounds = plan.rounds
    while rounds:
        kind = draws.one()
        if kind < _WRONG:
            messages.append(())
        elif kind < 2.0 * _WRONG:
            messages.append(None)
        elif kind < 3.0 * _WRONG:
            messages.append(tuple((3.0 * draws.uniform(len(plan.features)) - 1.0).tolist()))
        elif plan.profile == "efficient":
            messages.append(tuple((draws.uniform(3) * (0.9, 0.6, 0.3)).tolist()))
        else:
            length = 0.5 + 0.5 * draws.one()
            messages.append((0.6 * length, 0.8 * length, 0.0) if draws.below(2) else (0.0, 0.004 * draws.one(), length))
        rounds -= messages[-1] != ()
    return messages
