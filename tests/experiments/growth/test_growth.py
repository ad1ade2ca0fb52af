"""What a state takes does not grow with its rounds: a short cut of `python -m tests.experiments.growth`."""

from dataclasses import replace

import pytest

from tests.benchmarks.states import box_plan
from tests.experiments.growth.report import broken, table
from tests.experiments.growth.run import Figures, blank_snapshot_bytes, grow


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[Figures]:
    """Return the figures of one run over several phases."""
    plan = box_plan(1, 4.0, "lower")
    return grow(plan, tmp_path_factory.mktemp("growth") / "state", (0, 1_000_000, 1_100_000, 3_000_000))


def test_three_times_the_rounds_take_no_more(found: list[Figures]) -> None:
    """From one to three million rounds, memory is within 5 % and snapshots have the size of their phase."""
    assert broken(found) == []
    assert [figures.rounds for figures in found] == [0, 1_000_000, 1_100_000, 3_000_000]
    assert found[1].phase == found[2].phase < found[3].phase
    assert found[1].snapshot == found[2].snapshot < found[3].snapshot


def test_a_blank_states_size_is_a_real_ones(found: list[Figures]) -> None:
    """The size that snapshots are held to is a function of plan and phase, and rises with the phase's sides."""
    plan = box_plan(1, 4.0, "lower")
    sizes = [blank_snapshot_bytes(plan, phase) for phase in (1, 2, 3)]
    assert sizes == sorted(set(sizes))
    assert sizes[0] == found[0].snapshot


def test_growth_is_told(found: list[Figures]) -> None:
    """Memory 6 % up and a snapshot one byte longer are broken promises, and every mark is in the table."""
    last = found[-1]
    fatter = replace(last, resident=round(found[1].resident * 1.06))
    longer = replace(last, snapshot=last.snapshot + 1)
    assert [sentence.split(" is not ")[0] for sentence in broken([*found, fatter])] == ["memory at 3,000,000 rounds"]
    assert [sentence[:12] for sentence in broken([*found, longer])] == ["the snapshot"]
    assert len(table(found).splitlines()) == 1 + len(found)
    assert "+6.0%" in table([*found, fatter])
