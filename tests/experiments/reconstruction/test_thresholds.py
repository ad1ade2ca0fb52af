"""A cut of `python -m tests.experiments.reconstruction`: the thresholds, the ceiling, the plot, lines of a table."""

import pandas as pd

from tests.experiments.reconstruction.tables import Case, lines_of, run
from tests.experiments.reconstruction.thresholds import ceilings, draw, thresholds


def test_noise_of_the_root_of_the_rows_is_what_hides_bits():
    """Nearly all at a quarter of it, five in six at half of it, two in three at all of it; theory is near."""
    found = thresholds(200, (0.25, 0.5, 1.0), 2, 7)
    for one, (low, high) in zip(found, ((0.95, 1.0), (0.79, 0.92), (0.62, 0.8)), strict=True):
        assert low <= one.least_squares <= high
        assert low - 0.05 <= one.linear_program <= high  # of normal noise a median errs more than a mean
        assert abs(one.theory - one.least_squares) < 0.08


def test_no_release_passes_its_ceiling(tmp_path):
    """And more epsilon gives more away; the same figures are drawn as the same bytes."""
    found = ceilings(200, 30, (1.0, 32.0), 7)
    for one in found:
        assert one.proved <= one.epsilon
        assert one.right <= one.allowed + 0.1
    by_epsilon = {(one.release, one.epsilon): one.right for one in found}
    assert by_epsilon["gaussian", 32.0] > by_epsilon["gaussian", 1.0] + 0.1
    for name in ("one.svg", "two.svg"):
        draw(thresholds(20, (0.25,), 1, 7), found, (20, 200), tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_a_table_becomes_lines_of_the_page(tmp_path):
    """One for what is known without numbers, and one for each release there is."""

    def made():
        return pd.DataFrame({"a": [*"xyzw"] * 5, "b": [*range(5)] * 4, "s": [True, False, False, False] * 5})

    case = Case("made", made, "s", ("a", "b"), ("--ways", "2"))
    lines = list(lines_of(case, run(case, tmp_path)))
    assert lines[0].startswith("| made: 20 rows, 20 groups, 20 numbers | nothing | | 75.0 |")
    assert lines[1] == "| | exact | 0 | 100.0 | 100.0 | 20 | 100.0 |  |"
    assert len(lines) == 6
