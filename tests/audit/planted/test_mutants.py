"""Every planted bug is found, and by what it is found nothing is said against the real thing."""

import pytest

from tests.audit.planted.catchers import CATCHERS, Catcher, catch, caught, play
from tests.audit.planted.mutants import MUTANTS

_ALL = sorted({catcher for catchers in CATCHERS.values() for catcher in catchers})
_LONG = ("statistics", "gumbel", "logistic", "exponential")


def _marks(catcher):
    """Those of questions take half a minute each."""
    return [pytest.mark.long] if catcher.target.startswith(_LONG) else []


def test_every_mutant_has_a_catcher():
    """No planted bug is without somebody who has to find it."""
    assert set(CATCHERS) == set(MUTANTS)
    assert len(MUTANTS) >= 14


@pytest.mark.parametrize(
    ("mutant", "catcher"),
    [pytest.param(name, one, marks=_marks(one)) for name, its in CATCHERS.items() for one in its],
)
def test_planted_bugs_are_caught(mutant, catcher):
    """Each adversary and check finds the bug that it is named for."""
    found = catch(mutant, catcher)
    assert caught(found), found


@pytest.mark.parametrize(
    "catcher", [pytest.param(one, marks=_marks(one)) for one in _ALL], ids=lambda one: f"{one.target}, {one.name}"
)
def test_the_real_thing_passes(catcher: Catcher):
    """The same parts, with the same randomness, find nothing where no bug is planted."""
    found = play(catcher)
    assert not caught(found), found
