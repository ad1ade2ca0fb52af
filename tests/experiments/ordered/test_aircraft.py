"""A real column of strings: its figures, and that the range it learns is one of strings."""

from tests.experiments.ordered.aircraft import aircraft, run


def test_real_strings_are_told_apart():
    """At epsilon 4 and alpha 0.1, trained on real flights, hardly a flight of the months after is answered wrong."""
    figures = run(4.0, 0.1)
    assert figures.wanted <= figures.rows == 212_534
    assert figures.queries == 71_636
    assert figures.error < 0.01
    assert figures.rarer > 0.3


def test_labels_are_a_range_of_the_column():
    """All Airbus but a few have models from "A3" on and before "A4", and hardly any others."""
    for table in aircraft():
        inside = [model.startswith("A3") for model in table["model"].to_pylist()]
        wrong = sum(one != other for one, other in zip(inside, table["airbus"].to_pylist(), strict=True))
        assert wrong < 0.01 * len(table)
