"""The table of real data: docs/evidence.md's is made of the committed results, and the harness runs what it says."""

import msgspec
import numpy as np
import pandas as pd
import pytest

from oracle.cli.models import read_model
from tests.experiments.promises.__main__ import RESULTS
from tests.experiments.promises.recipes import RECIPES, Recipe
from tests.experiments.promises.report import BEGIN, END, PAGE, put_into, table
from tests.experiments.promises.run import Outcome, evaluate_all
from tests.experiments.promises.sets import split


def results() -> list[Outcome]:
    """Return the committed results."""
    return msgspec.json.decode(RESULTS.read_bytes(), type=list[Outcome])


def made_up(count: int = 4_000) -> pd.DataFrame:
    """Return rows with a label that a threshold gives, but for a tenth."""
    generator = np.random.default_rng(7)
    values = generator.uniform(0.0, 100.0, count)
    return pd.DataFrame({"age": values, "label": (values >= 40.0) ^ (generator.random(count) < 0.1)})


def recipe(examples: int = 3_000) -> Recipe:
    """Return a recipe for made-up rows."""
    settings: dict[str, str | float] = {
        "predictor": "classical",
        "concept": "stump",
        "epsilon": 2.0,
        "alpha": 0.1,
        "examples": examples,
    }
    return Recipe("ages", "made up", "is it so?", lambda: split(made_up(), "ages"), settings, {"age": ("both", 0, 120)})


def test_table_of_the_page_is_made_of_the_results():
    """Figure for figure; and every recipe is in it, as it stands."""
    text = PAGE.read_text(encoding="utf-8")
    assert put_into(text, table(results())) == text
    for outcome, one in zip(results(), RECIPES, strict=True):
        assert (outcome.name, outcome.question, outcome.source) == (one.name, one.question, one.source)
        assert outcome.examples == one.settings["examples"]
        for report in outcome.reports:
            assert (report.predictor, report.epsilon) == (one.settings["predictor"], one.settings["epsilon"])


def test_what_is_not_kept_has_a_condition_that_failed():
    """No promise is broken without a name for why."""
    for outcome in results():
        for report in outcome.reports:
            assert report.kept or report.causes, outcome.name


def test_recipes_are_models(tmp_path):
    """Every recipe's model file can be read, and names its bounds."""
    for one in RECIPES:
        (tmp_path / "model.toml").write_text(one.model)
        model = read_model(tmp_path / "model.toml")
        assert [feature.name for feature in model.features] == list(one.features)


def test_rows_are_split_by_a_hash():
    """The same each time, a fifth asked, every row once, and no order left."""
    table_of = pd.DataFrame({"age": np.arange(10_000.0), "label": True})
    rows = split(table_of, "ages")
    assert rows.train.equals(split(table_of, "ages").train)
    assert len(rows.test) == pytest.approx(2_000, abs=200)
    assert sorted([*rows.train["age"], *rows.test["age"]]) == list(range(10_000))
    assert abs(np.corrcoef(rows.train["age"], np.arange(len(rows.train)))[0, 1]) < 0.05
    assert not split(table_of, "others").test.equals(rows.test)


def test_recipe_is_evaluated_under_several_keys():
    """By the command itself, on the rows that it is given; the table has one row, with what it found."""
    told: list[str] = []
    (outcome,) = evaluate_all([recipe()], 2, 1, told.append)
    assert told == ["ages"]
    assert len(outcome.reports) == 2
    assert outcome.reports[0].error == pytest.approx(0.1, abs=0.06)
    row = table([outcome]).splitlines()[2]
    assert "| 3,000; " in row
    assert "beyond the best stump" in row
    assert "| yes |" in row


def test_refusals_are_in_the_table():
    """A model that wants more rows than there are has what `evaluate` said."""
    (outcome,) = evaluate_all([recipe(100)], 1, 1, lambda _name: None)
    assert not outcome.reports
    assert "refused: " in table([outcome])
    assert "100" in outcome.refused


def test_resampled_rows_and_broken_promises_are_marked():
    """Nothing is resampled silently; a promise that one key broke is not called kept."""
    base = next(outcome for outcome in results() if outcome.reports)
    broken = msgspec.structs.replace(base.reports[0], kept=False)
    outcome = msgspec.structs.replace(base, real=10, examples=20, reports=(base.reports[0], broken))
    row = table([outcome]).splitlines()[2]
    assert "| 20, resampled from 10; " in row
    assert "**no**: " in row


def test_marks_must_be_there():
    """A page without them is not written over."""
    assert put_into(f"a\n{BEGIN}x{END}b\n", "y") == f"a\n{BEGIN}\ny\n{END}b\n"
    for text in ("a\n", f"a\n{BEGIN}", f"{END}a\n{BEGIN}"):
        with pytest.raises(AssertionError, match="no line"):
            put_into(text, "y")
