"""What declaring `paid` would take: fewer rows than as many paid answers as can ever be needed."""

from contextlib import suppress

from msgspec.structs import replace

from oracle.errors import PlanError
from oracle.planning.model import Model
from oracle.planning.statistics.model import StatisticsModel
from oracle.planning.statistics.tight import MOST_PAID, quick_examples_of_statistics

__all__ = ["declared_in_words", "most_paid"]


def declared_in_words(model: Model) -> str | None:
    """Return in a line how many answers a model could declare, and for how many rows; None where that is no question.

    Args:
        model: Of any predictor.
    """
    if not isinstance(model, StatisticsModel) or model.profile != "tight" or model.paid is not None:
        return None
    paid, rows = most_paid(model)
    return f"`paid = {paid}` declared takes about {rows:,} rows; that so many last is then an estimate"


def most_paid(model: StatisticsModel) -> tuple[int, int]:
    """Return the most paid answers that the rows buy if they are declared, and what these take; else 1, and its rows.

    Where the rows buy all that can be needed, it is half as many rows as these take.
    """
    rows = model.examples
    with suppress(PlanError):  # more are needed than any plan has
        rows = min(rows, quick_examples_of_statistics(model) // 2)
    low, high = 1, MOST_PAID + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _rows(model, middle) <= rows else (low, middle)
    return low, _rows(model, low)


def _rows(model: StatisticsModel, paid: int) -> int:
    return quick_examples_of_statistics(replace(model, paid=paid))
