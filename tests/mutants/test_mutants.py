"""The list of planted faults, and the list of slow tests, are of the code as it is."""

from pathlib import Path

import pytest

from tests.conftest import FIRST, SLOW
from tests.mutants.mutants import PRIVACY, Mutant, load_mutants

_ROOT = Path(__file__).parents[2]


def test_there_are_sixty_by_different_names():
    """A name is what `make mutants ARGS="--only ..."` finds one by."""
    assert len({one.name for one in load_mutants()}) == len(load_mutants()) >= 60


@pytest.mark.parametrize("mutant", [*load_mutants(), *load_mutants(PRIVACY)], ids=lambda one: one.name)
def test_every_mutant_can_be_planted(mutant: Mutant):
    """Its texts stand in one place, are others then, and are still Python; the tests or parts that find it are told."""
    mutated = mutant.planted(_ROOT)
    assert mutated
    for path, text in mutated.items():
        assert text != path.read_text()
        compile(text, str(path), "exec")
    assert all((_ROOT / name.split("::")[0]).exists() for name in mutant.tests)
    assert mutant.tests or (mutant.about and mutant.kind and mutant.why)


def test_slow_tests_are_where_the_list_says():
    """No entry is left of a file that was moved; what comes first is taken from what is slow."""
    assert all((_ROOT / "tests" / name.split("::")[0]).exists() for name in (*SLOW, *FIRST))
    assert all(name.startswith(SLOW) for name in FIRST)
