"""What is done to numbers before they are published: nothing, rounding, suppression, noise, or our own statistics."""

import math
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import special

from oracle.audit.randomness import Draws
from oracle.audit.reconstruction.decoders import Equations
from oracle.audit.reconstruction.functions import Linear
from oracle.audit.reconstruction.own import answered
from oracle.audit.reconstruction.people import People, Published
from oracle.audit.reconstruction.regressions import Regressions
from oracle.errors import PlanError
from oracle.planning.statistics.counts import gaussian_deviation

__all__ = ["PRIVATE", "RELEASES", "Table", "Terms", "Told", "equations_of", "release", "treated"]

Floats = NDArray[np.float64]

PRIVATE: Final = ("laplace", "gaussian", "statistics")
"""Those that have an epsilon."""
RELEASES: Final = ("exact", "rounded", "suppressed", *PRIVATE)

_LEAST: Final = 2.0**-53
_SURE: Final = 0.02
"""From 0 and from 1: whoever attacks knows the share of rows that have the bit, but is never surer than this."""


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """How numbers are released.

    Attributes:
        epsilon: Of exchanging a bit, of all numbers together (nats).
        delta: The same.
        unit: Counts are rounded to multiples of it.
        places: Coefficients are rounded to so many.
        least: Counts from 1 to below it are suppressed.
        zeros: Whether counts of 0 are suppressed as well.
    """

    epsilon: float = 1.0
    delta: float = 1e-6
    unit: int = 5
    places: int = 3
    least: int = 5
    zeros: bool = False


class Told(NamedTuple):
    """What was published.

    Attributes:
        numbers: float64[m].
        half: float64[m]; the truth is within so much of them (0 where that is not known).
        deviation: Of the noise on a sum over the rows.
    """

    numbers: Floats
    half: Floats
    deviation: float


class Table(NamedTuple):
    """What is attacked.

    Attributes:
        people: What is public.
        secret: bool[n]; None where only the published numbers are known.
        published: What is published.
        terms: How.
        found: The numbers that somebody published, float64[m], NaN where there is none; None if they are to be made.
    """

    people: People
    secret: NDArray[np.bool_] | None
    published: Published
    terms: Terms
    found: Floats | None = None

    @property
    def share(self) -> float:
        """Share of the rows that have the bit, as far as an attacker lets it decide."""
        told = 0.5 if self.secret is None else float(self.secret.mean())
        return min(max(told, _SURE), 1.0 - _SURE)


def release(name: str, table: Table, bits: NDArray[np.bool_], draws: Draws) -> Told:
    """Publish.

    Args:
        name: One of `RELEASES`.
        table: What is published.
        bits: bool[n], secret.
        draws: Where noise comes from.

    Raises:
        PlanError: What is published cannot be released so.
    """
    published, people, terms = table.published, table.people, table.terms
    if name == "statistics":
        if (
            not isinstance(published, Linear)
            or (published.matrix < 0.0).any()
            or (people.names and not published.shapes)
        ):
            raise PlanError("statistics answer counts and marginals only")
        claim = (terms.epsilon, terms.delta)
        own = answered(published, people, bits, claim, (draws.uniform(4) * 2.0**53).astype("<u8").tobytes())
        return Told(own.numbers, np.zeros(len(own.numbers)), own.error / 2.0)
    deviation = _deviation(name, published, terms)
    uniform = np.clip(draws.uniform(len(published.matrix)), _LEAST, 1.0 - _LEAST)
    noise = np.zeros(len(uniform))
    if name == "gaussian":
        noise = deviation * special.ndtri(uniform)
    elif name == "laplace":
        noise = deviation / math.sqrt(2.0) * np.sign(uniform - 0.5) * -np.log1p(-2.0 * np.abs(uniform - 0.5))
    return treated(name, published, published.release(people.counts(bits), noise), terms)


def treated(name: str, published: Published, numbers: Floats, terms: Terms) -> Told:
    """Round or suppress numbers, which changes nothing where that was done; and say how far off they may be.

    Raises:
        PlanError: What is published cannot be released so.
    """
    half = np.zeros(len(numbers))
    if name == "rounded":
        unit = 10.0**-terms.places if isinstance(published, Regressions) else float(terms.unit)
        numbers, half = unit * np.round(numbers / unit), np.full(len(numbers), unit / 2.0)
    elif name == "suppressed":
        if isinstance(published, Regressions):
            raise PlanError("only counts can be suppressed")
        first, last = 1.0 - terms.zeros, terms.least - 1.0
        small = np.isnan(numbers) | ((numbers >= first) & (numbers <= last))
        numbers = np.where(small, (first + last) / 2.0, numbers)
        half = np.where(small, (last - first) / 2.0, 0.0)
    return Told(numbers, half, _deviation(name, published, terms))


def _deviation(name: str, published: Published, terms: Terms) -> float:
    """Return the deviation of a sum's noise: calibrated to how far one bit moves all sums together."""
    if name not in {"laplace", "gaussian"}:
        return 0.0
    if isinstance(published, Regressions) and not published.loss.fixed:
        raise PlanError("of this regression no noise is known that makes it private")
    if name == "laplace":
        return float(np.abs(published.matrix).sum(axis=0).max()) / terms.epsilon * math.sqrt(2.0)
    moved = math.sqrt(float((published.matrix**2).sum(axis=0).max()))
    return moved * gaussian_deviation(terms.epsilon, terms.delta)


def equations_of(published: Published, told: Told) -> Equations:
    """Return what an attacker makes of it."""
    matrix, sums = published.equations(told.numbers)
    low, high = (published.equations(told.numbers + side * told.half)[1] for side in (-1.0, 1.0))
    return Equations(matrix, sums, np.abs(high - low) / 2.0, np.full(len(sums), told.deviation))
