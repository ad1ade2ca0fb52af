"""`init` counts what the sides have got before it makes a state: what it records, refuses and says."""

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from oracle.accounting.accountant import delta_at
from oracle.accounting.ledger import StartChecked
from oracle.errors import StorageError
from oracle.planning.boxes.edges import counted
from oracle.planning.guarantees import released_event
from oracle.planning.kinds import decode_plan
from oracle.planning.plan import BoxPlan, CheckPlan
from oracle.state.event_lines import read_events
from oracle.state.folder import read_plan
from oracle.state.starts import record_start, starts_path

pytestmark = pytest.mark.usefixtures("planned_once")

_TWINS = """
[model]
name = "twins"
predictor = "rectangles"
epsilon = 8.0
alpha = 0.4
examples = {examples}
{more}
[[model.features]]
name = "a"

[[model.features]]
name = "b"

[[model.features]]
name = "c"
"""


@pytest.fixture
def twins(tmp_path):
    """Return a function that writes a model of three features without bounds, and rows where they are alike or not."""

    def write(*, alike, more="", examples=16_500):
        generator = np.random.default_rng(4)
        columns = generator.standard_cauchy((3, examples)) * 1e6
        if alike:
            columns[1:] = columns[0]
        label = (np.abs(columns) < 6e6).all(axis=0)
        rows, model = tmp_path / "rows.parquet", tmp_path / "model.toml"
        pyarrow.parquet.write_table(pa.table({**dict(zip("abc", columns, strict=True)), "label": label}), rows)
        model.write_text(_TWINS.format(more=more, examples=examples))
        return model, "--data", rows, "--state", tmp_path / "state"

    return write


def _started(tmp_path):
    return read_events(starts_path(tmp_path / "state"), StartChecked, "start")


def test_what_was_released_is_recorded(cli, twins, tmp_path):
    """One line beside the state, with a cost that the accountant proves, and no bounds declared anywhere."""
    result = cli("init", *twins(alike=False))
    assert (result.code, result.err) == (0, "")
    (event,) = _started(tmp_path)
    assert event.passed
    assert event.beyond >= event.least
    plan = decode_plan(read_plan(tmp_path / "state") or b"")
    assert isinstance(plan, BoxPlan)
    assert delta_at(released_event(plan), event.epsilon) <= event.delta < 1e-20
    assert 0.0 < event.epsilon < plan.epsilon
    assert str(event.beyond) not in result.out


def test_a_starving_side_is_refused_with_what_to_do(refused, twins, tmp_path):
    """Equal features: no state and no key, one line of what was paid, remedies that the planner stands by."""
    message = refused(2, "init", *twins(alike=True))
    (event,) = _started(tmp_path)
    assert not event.passed
    assert event.beyond < event.least
    assert not (tmp_path / "state").exists()
    for words in (
        "no state was made: a side has",
        f"epsilon = {event.epsilon:.3g}",
        str(starts_path(tmp_path / "state")),
        "nothing else was released",
        "examples = ",
        "share = ",
        "epsilon = ",
        'slicing = "sequential"',
        "leave out sides",
    ):
        assert words in message


@pytest.mark.parametrize(("beyond", "verdict"), [(-1, "so it starves"), (20, "so it may starve")])
def test_more_than_is_needed_is_not_called_too_few(beyond, verdict):
    """A side may hold what it needs, and the noise hide it."""
    check = CheckPlan(epsilon=0.1, needed=1_437, margin=31, miss=0.025, stripe=2_327)
    assert counted(check, 4, beyond).endswith(f"and needs 1,437, {verdict}")


def test_remedies_help(cli, refused, twins, tmp_path):
    """Sides one after another do not starve of equal features; and every try has its line."""
    refused(2, "init", *twins(alike=True))
    assert cli("init", *twins(alike=True, more='slicing = "sequential"', examples=25_000)).code == 0
    assert [event.passed for event in _started(tmp_path)] == [False, True]


def test_too_few_rows_labelled_1(refused, model, tmp_path):
    """Of a model whose sides take theirs one after another, or of one side, all rows labelled 1 are counted."""
    values = np.linspace(0.0, 1.0, 6_000)
    rows = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(pa.table({"a": values, "label": values < 0.02}), rows)
    path = model()
    path.write_text(path.read_text().replace('name = "a"', 'name = "a"\nsides = "upper"'))
    message = refused(2, "init", path, "--data", rows, "--state", tmp_path / "state")
    assert "rows labelled 1, and the sides need" in message
    assert not (tmp_path / "state").exists()


def test_shards_are_counted_one_by_one(refused, twins, tmp_path):
    """The first shard whose side starves is named; those that were written before it are gone."""
    message = refused(2, "init", *twins(alike=True, examples=36_000), "--shards", "2")
    assert "data: shard 0: no state was made" in message
    assert [event.shard for event in _started(tmp_path)] == [0]
    assert not list((tmp_path / "state").glob("shard-*"))


def test_the_record_is_never_a_link(tmp_path):
    """What somebody has planted there is not written to."""
    starts_path(tmp_path / "state").symlink_to(tmp_path / "elsewhere")
    event = StartChecked(0, "m", 0, 1, 2, 0.5, passed=False, epsilon=0.5, delta=0.0)
    record_start(tmp_path / "other", event)
    assert read_events(starts_path(tmp_path / "other"), StartChecked, "start") == [event]
    assert msgspec.json.decode(starts_path(tmp_path / "other").read_bytes())["kind"] == "start-checked"
    with pytest.raises(StorageError, match="nothing was shown"):
        record_start(tmp_path / "state", event)
    assert not (tmp_path / "elsewhere").exists()
