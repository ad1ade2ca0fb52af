"""What n rows buy: for each predictor, slicing and number of sides the least epsilon, alpha and rows that have a plan.

No shares are searched for (`planner.quick_examples`), so that a figure takes a dozen sizes instead of a thousand. It
may be a few percent above the least that there is; the planner accepts it.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from oracle.errors import InputError, PlanError
from oracle.planning.boxes.model import side_names
from oracle.planning.ensemble.model import EnsembleModel
from oracle.planning.kinds import KINDS
from oracle.planning.model import Model
from oracle.planning.planner import quick_examples
from oracle.planning.schemas import range_of

__all__ = ["Offer", "lines_of", "nearest", "offer_of", "with_sides"]

_OTHERS: Final[tuple[dict[str, str | None], ...]] = (
    {"predictor": "rectangles", "slicing": "faces"},
    {"predictor": "rectangles", "slicing": "sequential", "share": None},
    {"predictor": "stumps"},
    {"predictor": "classical", "concept": "box", "slicing": "faces"},
    {"predictor": "classical", "concept": "box", "slicing": "whole", "share": None},
    {"predictor": "classical", "concept": "stump", "slicing": "faces", "share": None},
)
"""What may stand in a model's place, and the settings that make it so."""

_TEACHER_ROWS: Final = (10, 25, 50, 100)
"""Rows of a teacher that an ensemble may have instead."""

_SLOPES: Final = {"epsilon": -1.2, "alpha": -1.1, "examples": -1.0}
"""About how the logarithm of (examples needed / declared) changes with the logarithm of each."""

_NEAR: Final = 1.01
"""Ratio within which a least figure is found; or it is the next number of three digits."""

_NUDGE: Final = 0.003
"""How far beside the expected least the next number is tried, so that both sides of it become known."""

_STRIDE: Final = math.log(4.0)
"""How far a step goes at most."""

_GUESSES: Final = 8
"""Steps after which the rest is halved."""


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What a model's rows buy of one predictor at one slicing and number of sides; None where no figure would do.

    Attributes:
        predictor: Which.
        profile: Which accounting.
        concept: What a classical learner learns; "" for others.
        slicing: How rows are assigned to sides; "" where a predictor has none.
        sides: The sides in use, as a plan names them; for stumps the pairs to choose from.
        epsilon: The least at the model's alpha.
        alpha: The least at the model's epsilon.
        examples: The least rows for both as declared.
        enough: True if the declared rows are enough for both as declared.
        refused: Why there is no plan as declared whatever the rows, or "".
        teacher_rows: Rows of a teacher of an ensemble; 0 of others.
    """

    predictor: str
    profile: str
    concept: str
    slicing: str
    sides: tuple[str, ...]
    epsilon: float | None
    alpha: float | None
    examples: int | None
    enough: bool
    refused: str
    teacher_rows: int = 0


def lines_of(model: Model, *, near: bool = False) -> list[Model]:
    """Return the models to make offers of: the model itself, then what may take its place, each with fewer sides too.

    Args:
        model: The model; its rows, epsilon and alpha stay.
        near: Only it and the classical learners of the same concept, with the numbers of sides that matter most.
    """
    lines: list[Model] = []
    for variant in _variants(model, near=near):
        counts = _side_counts(variant, parts=not near, fewer=variant.predictor == model.predictor or not near)
        lines += [with_sides(variant, count) if count else variant for count in counts]
    return lines


def _variants(model: Model, *, near: bool) -> Iterator[Model]:
    yield model
    if isinstance(model, EnsembleModel):
        for rows in _TEACHER_ROWS if not near else ():
            if rows != model.teacher_rows:
                yield msgspec.structs.replace(model, teacher_rows=rows)
        return
    stump = _learns_stump(model)
    for other in _OTHERS if _has_sides(model) or _learns_stump(model) else ():
        variant = _changed(model, other)
        close = variant.predictor == "classical" and _learns_stump(variant) == stump
        if _place(variant) != _place(model) and (close or not near):
            yield variant


def _changed(model: Model, other: dict[str, str | None]) -> Model:
    """Return the model of another predictor, with every setting that both know."""
    kind: type[Model] = KINDS[str(other["predictor"])].model
    fields = msgspec.structs.asdict(model) | {"profile": "tight"} | other
    return kind(**{name: value for name, value in fields.items() if name in kind.__struct_fields__})


def _learns_stump(model: Model) -> bool:
    return model.predictor == "stumps" or getattr(model, "concept", "") == "stump"


def _has_sides(model: Model) -> bool:
    """Return whether it learns a box, whose sides may be fewer."""
    return model.predictor in {"rectangles", "classical"} and not _learns_stump(model)


def _place(model: Model) -> tuple[str, str, str, str]:
    """Return predictor, profile, concept and slicing; the last two are "" where there are none."""
    slicing = "" if _learns_stump(model) else getattr(model, "slicing", "")
    return model.predictor, model.profile, getattr(model, "concept", ""), slicing


def with_sides(model: Model, count: int) -> Model:
    """Return a model with the first `count` of its sides; features that have none left stay as columns."""
    features = []
    for feature in model.features:
        own = [side for side in ("lower", "upper") if feature.sides in {side, "both"}][:count]
        count -= len(own)
        features.append(msgspec.structs.replace(feature, sides="both" if len(own) > 1 else (*own, "none")[0]))
    return msgspec.structs.replace(model, features=tuple(features))


def _side_counts(model: Model, *, fewer: bool, parts: bool) -> Sequence[int]:
    """Return how many sides to show: all, what the rows buy, and parts of all; 0 where their number is nothing."""
    if not _has_sides(model):
        return (0,)
    sides = len(side_names(model))
    if not fewer:
        return (sides,)
    shown = {sides, _most_sides(model, sides), 1} | ({sides // 2, sides // 4} if parts else set())
    return sorted(shown - {0}, reverse=True)


def _most_sides(model: Model, sides: int) -> int:
    """Return the most sides, of the first ones, that the declared rows buy at the declared epsilon and alpha."""
    low, high = 0, sides + 1
    middle = sides
    while high - low > 1:
        low, high = (middle, high) if _lacking(with_sides(model, middle)) <= 0.0 else (low, middle)
        middle = (low + high) // 2
    return low


def offer_of(line: Model) -> Offer:
    """Return what a model's rows buy of it, as it is but for one figure at a time."""
    predictor, profile, concept, slicing = _place(line)
    epsilon, alpha, examples = (_least(line, field) for field in ("epsilon", "alpha", "examples"))
    return Offer(
        predictor=predictor,
        profile=profile,
        concept=concept,
        slicing=slicing,
        sides=side_names(line) if _has_sides(line) or _learns_stump(line) else (),
        epsilon=epsilon,
        alpha=alpha,
        examples=None if examples is None else int(examples),
        enough=_lacking(line) <= 0.0,
        refused=_refusal(line) if examples is None else "",
        teacher_rows=line.teacher_rows if isinstance(line, EnsembleModel) else 0,
    )


def nearest(offers: Sequence[Offer]) -> list[Offer]:
    """Return the best three offers: all sides as declared, the most sides that the rows buy, and the classical learner.

    Args:
        offers: Of `lines_of(model, near=True)`, in its order; further ones fill up what there is none of.
    """
    own = [offer for offer in offers if offer.predictor == offers[0].predictor]
    others = [offer for offer in offers if offer.predictor != offers[0].predictor]
    bought = [offer for offer in own if offer.enough]
    wanted = [*own[:1], *bought[:1], *sorted(others, key=_dear)[:1], *own[1:], *others]
    return [offer for number, offer in enumerate(wanted) if offer not in wanted[:number]][:3]


def _dear(offer: Offer) -> float:
    return math.inf if offer.epsilon is None else offer.epsilon


def _refusal(line: Model) -> str:
    try:
        KINDS[line.predictor].check_model(line)
        quick_examples(line)
    except (InputError, PlanError) as exc:
        return str(exc)
    return ""


@lru_cache(maxsize=4096)
def _lacking(line: Model) -> float:
    """Return the logarithm of (examples needed / declared), infinite where there is no plan."""
    try:
        KINDS[line.predictor].check_model(line)
        return math.log(quick_examples(line) / line.examples)
    except (InputError, PlanError):
        return math.inf


def _least(line: Model, field: str) -> float | None:
    """Return about the least number of three digits that a plan is possible with; above it all are taken to be."""
    least, most = range_of(Model, field)

    def lacking(index: int) -> float:
        value = _number(index)
        return _lacking(msgspec.structs.replace(line, **{field: math.ceil(value) if field == "examples" else value}))

    found = _least_index(lacking, _index(getattr(line, field)), (_index(least), _index_below(most)), _SLOPES[field])
    return None if found is None else float(math.ceil(_number(found)) if field == "examples" else _number(found))


def _least_index(lacking: Callable[[int], float], start: int, bounds: tuple[int, int], slope: float) -> int | None:
    """Return about the least index at which nothing lacks, by secants in the logarithms, and by halves at last."""
    low, high, at = bounds[0] - 1, bounds[1] + 1, min(max(start, bounds[0]), bounds[1])
    known: list[tuple[float, float]] = []
    for step in range(64):
        figure = lacking(at)
        low, high = (low, at) if figure <= 0.0 else (at, high)
        found = high <= bounds[1]
        if high - low <= 1 or (found and low >= bounds[0] and _number(high) <= _NEAR * _number(low)):
            break
        where = math.log(_number(at))
        if math.isfinite(figure):
            known.append((where, figure))
            slope = _slope(known, slope)
            reach = -figure / slope + (_NUDGE if figure > 0.0 else -_NUDGE)
            at = _index(math.exp(where + min(max(reach, -_STRIDE), _STRIDE)))
        elif not found:
            at = _index(math.exp(where + _STRIDE))
        at = min(max(at, bounds[0]), bounds[1])
        if not low < at < high or step > _GUESSES or (found and not math.isfinite(figure)):
            at = (low + high) // 2
    return high if high <= bounds[1] else None


def _slope(known: Sequence[tuple[float, float]], usual: float) -> float:
    if len(known) < 2:  # noqa: PLR2004 -- points on a line
        return usual
    (before, first), (last, second) = known[-2:]
    return min((second - first) / (last - before), -0.1)


def _number(index: int) -> float:
    """Return the index-th number of three digits, counted from 1.

    >>> [_number(index) for index in (-1, 0, 1, 899, 900)]
    [0.999, 1.0, 1.01, 9.99, 10.0]
    """
    return float(f"{100 + index % 900}e{index // 900 - 2}")


def _index(number: float) -> int:
    """Return the index of the least number of three digits that is not below this one.

    >>> _index(1.0), _index(1.004), _index(0.05)
    (0, 1, -1400)
    """
    decade = math.floor(math.log10(number))
    index = 900 * decade + round(number / 10.0**decade * 100.0) - 100
    while _number(index) < number:
        index += 1
    while _number(index - 1) >= number:
        index -= 1
    return index


def _index_below(number: float) -> int:
    """Return the index of the largest number of three digits that is not above this one."""
    index = _index(number)
    return index if _number(index) <= number else index - 1
