"""The demonstration of ensembles: its flights, its model file, and its way through the commands."""

import contextlib

import msgspec
import numpy as np
import pytest

from oracle.planning.kinds import KINDS
from oracle.planning.planner import plan_model
from tests.experiments.analyst.serving import Daemon, run
from tests.experiments.learner.__main__ import ask_all, summary
from tests.experiments.learner.flights import COLUMNS, EXAMPLES, model_text, task
from tests.support.broker import Broker


@pytest.fixture(scope="module")
def flights():
    """Return a demonstration's flights."""
    return task(EXAMPLES, 4_000)


def test_the_model_file_has_a_plan():
    """As many rows as it declares are enough, for the columns that there are."""
    table = msgspec.toml.decode(model_text(EXAMPLES))["model"]
    plan = plan_model(msgspec.convert(table, KINDS["ensemble"].model))
    assert plan.declared == EXAMPLES
    assert [feature.name for feature in plan.features] == COLUMNS


def test_nobody_asks_what_was_learned(flights):
    """Flights are one or the other; with time, those that ask come later and in order. Some values are missing."""
    assert not set(flights.train.index) & set(flights.asked.index)
    assert flights.train["wind_gust"].isna().any()
    later = task(EXAMPLES, 4_000, in_time=True)
    assert not set(later.train.index) & set(later.asked.index)
    days = later.asked["sched_dep_time"].to_numpy()
    assert np.count_nonzero(np.diff(days // 100) < 0) < 10  # four or five days, each in order


@pytest.mark.slow
@pytest.mark.parametrize("bus", ["pipes", "kafka"])
def test_asked_through_the_commands(tmp_path, flights, bus):
    """Every flight gets an answer, and the answers beat the majority's."""
    (tmp_path / "model.toml").write_text(flights.model)
    flights.train.to_parquet(tmp_path / "flights.parquet", index=False)
    run("init", tmp_path / "model.toml", "--data", tmp_path / "flights.parquet", "--state", tmp_path / "state")
    with contextlib.ExitStack() as held:
        servers = held.enter_context(Broker(tmp_path / "broker")).servers if bus == "kafka" else None
        answers = ask_all(Daemon(tmp_path, servers), flights)
    assert [answer["id"] for answer in answers] == list(range(4_000))
    wrong = np.mean([answer["label"].strip() != true for answer, true in zip(answers, flights.truth, strict=True)])
    assert wrong < 0.7 * np.mean(flights.truth == "late")
    assert summary(flights, answers).row_count == 1
