"""The analyst's experiment: its table, its questions, what it is measured against, and its way through the commands."""

import contextlib
import itertools

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from oracle.codec.json.questions import QuestionReader
from oracle.planning.attributes import Attribute, Layout
from tests.experiments.analyst.analyst import drill_down, message
from tests.experiments.analyst.counting import epsilon_for, error_of, first_lost
from tests.experiments.analyst.plot import Run, draw
from tests.experiments.analyst.serving import Daemon, run
from tests.experiments.analyst.table import FLIGHTS, Counts, flights, model_text, write_rows
from tests.support.broker import Broker
from tests.support.folders import long_plan, make_state, write_config
from tests.support.tables import statistics_plan

_FEW = (FLIGHTS[1], FLIGHTS[4], FLIGHTS[5])


@pytest.fixture(scope="module")
def table():
    """Return the flights."""
    return flights()


def test_the_table_has_what_is_said_of_it(table):
    """All flights that arrived; nothing is missing or of another carrier, and Friday the 1st of February is one."""
    assert Layout.of(FLIGHTS).size == 1_769_040
    assert table.num_rows == 327_346
    counts = Counts.of(FLIGHTS, table)
    declared = counts.cube[tuple(slice(one.declared) for one in FLIGHTS)]
    assert declared.sum() == table.num_rows
    assert counts.share({}) == 1.0
    named = table.to_pandas()
    late = named[(named["carrier"] == "UA") & (named["hour"] >= 14) & (named["weekday"] == 5)]
    where = {"carrier": (11, 12), "hour": (10, 20), "weekday": (4, 5)}
    assert counts.share(where) == len(late) / table.num_rows


def test_messages_ask_for_the_cells_that_are_meant():
    """As the daemon reads them: categories by their names, bins from an edge to an edge."""
    plan = statistics_plan(FLIGHTS)
    reader = QuestionReader(plan)
    where = {"carrier": (3, 4), "month": (0, 6), "delay": (5, 8)}
    decoded = reader.decode(message(FLIGHTS, where, 7))
    assert isinstance(decoded, tuple)
    masks = plan.layout.masks(decoded[1])
    for one, mask in zip(FLIGHTS, masks, strict=True):
        asked = np.flatnonzero(mask[0]).tolist()
        assert asked == list(range(*where.get(one.name, (0, one.cells))))


def _drilled(seed, questions=3_000):
    noise = np.random.default_rng(seed)
    asked = []

    def ask(bodies):
        asked.extend(bodies)
        return [{"value": noise.random(), "paid": 0, "verified": True} for _ in bodies]

    return list(drill_down(FLIGHTS, ask, questions)), asked


def test_questions_are_chosen_by_answers():
    """So many, all different, of up to all attributes; after other answers others are asked."""
    found, asked = _drilled(1)
    assert len(found) == len(asked) == 3_000
    assert len({frozenset(one.where.items()) for one in found}) == 3_000
    assert {len(one.where) for one in found} >= {1, 2, 3, 4}
    one, other = ({frozenset(one.where.items()) for one in _drilled(seed)[0]} for seed in (1, 2))
    assert len(one & other) < 2_000
    again, _ = _drilled(1)
    assert again == found


def test_the_largest_deviation_is_taken_apart_next():
    """Where two values of one pair go together, the first group of three has both."""
    attributes = [Attribute(name=name, categories=tuple("uvw")) for name in "abc"]

    def ask(bodies):
        wheres = [msgspec.json.decode(body)["where"] for body in bodies]
        values = [0.3 if where.items() >= {"b": ["v"], "c": ["w"]}.items() else 3.0 ** -len(where) for where in wheres]
        return [{"value": value, "paid": 0, "verified": True} for value in values]

    found = drill_down(attributes, ask, 200)
    first = next(one for one in found if len(one.where) == 3)
    assert {"b": (1, 2), "c": (2, 3)}.items() <= first.where.items()


def test_gaussian_counts_cost_what_they_err():
    """What errs so much costs so much; and from one question on they err by more than the plan."""
    plan = statistics_plan(declared=300_000)
    sizes = (1, 10, 10_000)
    assert all(epsilon_for(plan, size, error_of(plan, size)) == pytest.approx(plan.epsilon) for size in sizes)
    assert epsilon_for(plan, 10_000, error_of(plan, 10_000) / 2.0) > 1.5 * plan.epsilon
    first = first_lost(plan)
    assert error_of(plan, first - 1) <= plan.alpha < error_of(plan, first)


@pytest.mark.parametrize("bus", ["pipes", "kafka"])
def test_asked_through_the_commands(tmp_path, table, bus):
    """Made, served, and every answer within what is promised; the page is there meanwhile."""
    rows = table.select([one.name for one in _FEW])
    counts = Counts.of(_FEW, rows)
    write_rows(rows, tmp_path / "rows.parquet")
    (tmp_path / "model.toml").write_text(model_text(_FEW, rows.num_rows, alpha=0.01, paid=20))
    run("init", tmp_path / "model.toml", "--data", tmp_path / "rows.parquet", "--state", tmp_path / "state")
    with contextlib.ExitStack() as held:
        servers = held.enter_context(Broker(tmp_path / "broker")).servers if bus == "kafka" else None
        daemon = Daemon(tmp_path, servers)
        ask = held.enter_context(daemon.serving())
        found = list(itertools.islice(drill_down(_FEW, ask, 500), 500))
        status = daemon.status()
    assert (status["model"], status["promise"]["bound"]) == ("flights", 0.01)
    assert max(abs(one.value - counts.share(one.where)) for one in found) <= 0.01
    assert all(one.verified for one in found)
    with pytest.raises(RuntimeError, match="perpetua init: ended with 3"):
        run("init", tmp_path / "model.toml", "--data", tmp_path / "rows.parquet", "--state", tmp_path / "state")


def test_a_command_that_fails_says_why(tmp_path):
    """On whichever stream it does: what a check has found stands on standard output."""
    make_state(tmp_path / "state", long_plan())
    config = write_config(tmp_path)
    (tmp_path / "state" / "key").unlink()
    with pytest.raises(RuntimeError, match=r"(?s)perpetua check: ended with \d: .*WRONG .*key"):
        run("check", config)
    with pytest.raises(RuntimeError, match=r"perpetua serve: ended with 3: perpetua: key file"):
        run("serve", config)


def test_the_plot_is_the_same_each_time(tmp_path):
    """The same run gives the same bytes."""
    measured = Run(np.linspace(0.0, 0.01, 50), np.arange(50) // 10, 0.02, 9, 0.03)
    for name in ("one.png", "two.png"):
        draw(measured, "Some questions", tmp_path / name)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


def test_rows_of_a_table_that_lacks_something_are_counted_there():
    """Missing values and others have cells of their own."""
    attributes = (Attribute(name="a", categories=("x",)), Attribute(name="b", bounds=(0.0, 2.0), bins=2))
    counts = Counts.of(attributes, pa.table({"a": ["x", "y", None, "x"], "b": [0.5, 1.5, None, 1.0]}))
    assert counts.cube.tolist() == [[1, 1, 0], [0, 1, 0], [0, 0, 1]]
