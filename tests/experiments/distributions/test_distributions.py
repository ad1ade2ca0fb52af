"""A quick cut of `make distributions`, on the flights that the demo has."""

import dataclasses

import numpy as np
import pytest

from oracle.predictors.distribution.ladder import Ladder
from tests.experiments.distributions.__main__ import main
from tests.experiments.distributions.runs import planned, run
from tests.experiments.distributions.sets import SETS, Column


def _column(name: str) -> Column:
    """Return every tenth value of a column, with as wide an error as these buy."""
    column = SETS[name]()
    return dataclasses.replace(column, alpha=0.05, values=column.values[::10])


@pytest.mark.parametrize("name", ["delays", "models", "days"])
def test_answers_keep_the_promise(name):
    """Of shares and of quantiles, and all of them say that they are verified."""
    column = _column(name)
    plan = planned(column)
    seen = run(column, plan, 4_000, seed=3)
    assert 0.0 < seen.mean < seen.largest <= plan.error
    assert seen.quantile <= plan.alpha
    assert seen.verified
    assert 0 < seen.paid <= plan.paid


def test_wrong_shares_are_seen(monkeypatch):
    """A ladder whose answers are off by more than the promise is seen to be."""
    real = Ladder._made_shares
    monkeypatch.setattr(Ladder, "_made_shares", lambda self: np.clip(real(self) + 0.06, 0.0, 1.0))
    column = _column("delays")
    plan = planned(column)
    assert run(column, plan, 2_000, seed=3).largest > plan.error


def test_the_command_prints_a_table(capsys):
    """One line a column."""
    main(["--only=days", "--questions=2000", "--keys=1"])
    head, _, line = capsys.readouterr().out.splitlines()
    assert line.startswith("| days of departure | 336,776 |")
    assert line.count("|") == head.count("|")
