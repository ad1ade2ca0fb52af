"""The numbers that texts of a feature with categories become, the same in messages of all kinds and in files."""

from collections.abc import Mapping

from oracle.planning.ensemble.model import MISSING
from oracle.planning.features import Feature

__all__ = ["category_numbers", "other_category"]


def category_numbers(feature: Feature) -> Mapping[str | None, float]:
    """Return each category's place among them. A text of no characters is missing where it is no category.

    >>> sorted(category_numbers(Feature(name="carrier", categories=("UA", "AA"))).items(), key=str)
    [('', -1.7976931348623157e+308), ('AA', 1.0), ('UA', 0.0), (None, -1.7976931348623157e+308)]
    """
    numbers: dict[str | None, float] = {None: MISSING, "": MISSING}
    numbers.update((text, float(place)) for place, text in enumerate(_texts(feature)))
    return numbers


def other_category(feature: Feature) -> float:
    """Return what any other text becomes: their number."""
    return float(len(_texts(feature)))


def _texts(feature: Feature) -> tuple[str, ...]:
    return feature.categories or ()  # `msgspec.UNSET` is false
