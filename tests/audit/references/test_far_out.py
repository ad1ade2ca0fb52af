"""Choices, words and noise far out: the real ones are exact, and one that is off is named."""

import numpy as np
import pytest

from oracle.audit.references import far_out
from oracle.audit.references.far_out import wrong_far_out
from oracle.audit.structure.checks import run_check
from oracle.evaluation import release
from oracle.mechanisms.addresses import Addresses
from oracle.mechanisms.choice import edges, exponential
from oracle.mechanisms.choice.exponential import KeyedBits
from oracle.mechanisms.noise import exact, tables

SEED = bytes(range(96, 112))
_PRICED = "what is released is priced as its noise has it"


@pytest.fixture(autouse=True)
def _anew():
    """Nothing is remembered from before, or for later."""
    for made in (far_out.wrong_far_out, far_out.exact_choice, tables.edges):
        made.cache_clear()
    yield
    for made in (far_out.wrong_far_out, far_out.exact_choice, tables.edges):
        made.cache_clear()


def test_the_real_ones_are_exact():
    """To 2^-128, at every rate, late round, high side and far candidate that is looked at."""
    assert wrong_far_out() is None


def _wrapped(patch):
    real = Addresses.words
    patch.setattr(
        Addresses,
        "words",
        lambda self, purpose, rounds, sides, hashes: real(self, purpose, rounds & np.uint64(2**32 - 1), sides, hashes),
    )


def _partition(patch):
    real = edges._within
    patch.setattr(edges, "_within", lambda records, *rest: real(records[: len(records) // 2 + 1], *rest))


def _repeated(patch):
    real = KeyedBits.take

    def take(self, count):
        self._blocks %= 4
        return real(self, count)

    patch.setattr(KeyedBits, "take", take)


def _short(patch):
    real = tables.tail_reach
    patch.setattr(tables, "tail_reach", lambda scale: real(scale) if scale > 0.05 else int(40.0 / scale))


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (lambda patch: patch.setattr(exponential, "_NATS", 14.0), "choice: a candidate"),
        (lambda patch: patch.setattr(exponential, "_below", lambda count, bits: bits.take(64) % count), "of equal"),
        (_wrapped, "words of side 0"),
        (_partition, "cost others"),
        (_repeated, "bits of a choice"),
        (_short, "noise at 0.011"),
    ],
)
def test_what_is_off_far_out_is_named(monkeypatch, plant, said):
    """A tail that is left out, some of equals, rounds that wrap, records that are not looked at, bits that repeat."""
    plant(monkeypatch)
    assert said in (wrong_far_out() or "")


@pytest.mark.parametrize("target", ["boxes, learned edges", "classical stump", "ensemble"])
def test_what_is_released_is_priced(target):
    """A score has the noise that it states; it, and what `init` tells, cost what they do."""
    found = run_check(target, _PRICED, SEED)
    assert found.passed, found.says


def _louder(patch):
    real = exact.discrete_laplace
    patch.setattr(release, "discrete_laplace", lambda scale, bits: real(1.5 * scale, bits))


@pytest.mark.parametrize("plant", [_louder, lambda patch: patch.setattr(release, "_own", lambda _plan: 0.0)])
def test_a_score_that_is_too_exact_or_too_cheap_is_found(monkeypatch, plant):
    """Two thirds of its noise, or a test row that pays for the score only."""
    plant(monkeypatch)
    assert not run_check("boxes, one side", _PRICED, SEED).passed
