import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oracle.accounting.ledger import PhaseStarted
from oracle.cli import tables
from oracle.mechanisms.keys import PhaseKey
from oracle.mechanisms.persons import AtMost
from oracle.planning.kinds import decode_plan
from oracle.receipts.ledgers import read_ledger
from tests.predictors.plans import feature
from tests.support.folders import write_config

pytestmark = pytest.mark.usefixtures("planned_once")

_KEY = PhaseKey(bytes(range(32)))


def _kept(people, most, key=_KEY):
    """Return for each person the numbers, among the person's own rows, of those that are kept."""
    names = sorted(set(people))
    mask = AtMost(key, most).kept(
        [f"str {name}".encode() for name in names], np.array([names.index(one) for one in people])
    )
    found: dict[str, list[int]] = {name: [] for name in names}
    seen = dict.fromkeys(names, 0)
    for name, kept in zip(people, mask, strict=True):
        if kept:
            found[name].append(seen[name])
        seen[name] += 1
    return found


def test_at_most_so_many_of_each_are_kept():
    """All of those who have no more."""
    people = [*("a" * 1), *("b" * 3), *("c" * 90)]
    np.random.default_rng(2).shuffle(people)
    assert {name: len(rows) for name, rows in _kept(people, 3).items()} == {"a": 1, "b": 3, "c": 3}


def test_the_choice_looks_at_nobody_else():
    """Whoever else is there, in whatever order, a person's kept rows are the same; of another key they are others."""
    source = np.random.default_rng(3)
    people = [*("a" * 40), *("b" * 7), *("c" * 300), "d"]
    whole = _kept(people, 5)
    for _ in range(20):
        source.shuffle(people)
        assert _kept(people, 5) == whole
        without = [name for name in people if name != "b"]
        assert _kept(without, 5) == {name: rows for name, rows in whole.items() if name != "b"}
    assert _kept(people, 5, PhaseKey(bytes(32))) != whole


def test_every_set_is_equally_likely():
    """Each of a person's rows is kept as often as any other, by persons and by keys."""
    counts = np.zeros(10)
    for number in range(200):
        rows = _kept([f"p{number}-{i % 20}" for i in range(200)], 3, PhaseKey(number.to_bytes(32, "big")))
        for kept in rows.values():
            counts[kept] += 1
    assert counts.sum() == 200 * 20 * 3
    assert np.abs(counts - 1200).max() < 6 * np.sqrt(1200)


def _rows(people, values):
    return pa.table({"a": values, "who": people, "label": (values > 0.1) & (values < 0.9)})


def _table(tmp_path, suffix=".parquet", people=None, count=9_000):
    values = np.random.default_rng(1).random(count)
    table = _rows(people if people is not None else [f"p{i % 4_000}" for i in range(count)], values)
    path = tmp_path / f"rows{suffix}"
    if suffix == ".parquet":
        pq.write_table(table, path, row_group_size=1_000)
    elif suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        pa.csv.write_csv(table, path)
    return path


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_what_is_read_is_what_is_kept(tmp_path, suffix):
    """The very rows, in their order, and nothing else of them; no matter how the file is cut into batches."""
    people = ["007", "7", *(f"x{i % 40}" for i in range(8_998))]
    path = _table(tmp_path, suffix, people)
    persons = tables.read_persons(path, "who", AtMost(_KEY, 2))
    features = (feature("a"),)
    for _ in range(2):  # it may be read again
        batches = list(tables.labelled_batches(path, tables.Layout(features), "label", persons))
        found = np.concatenate([features for features, _ in batches])[:, 0]
        kept = _kept(people, 2)
        seen = dict.fromkeys(people, 0)
        wanted = []
        for name, value in zip(people, np.random.default_rng(1).random(9_000), strict=True):
            if seen[name] in kept[name]:
                wanted.append(value)
            seen[name] += 1
        assert found == pytest.approx(wanted)
        assert len(found) == 82


@pytest.mark.parametrize("shards", [1, 2])
def test_a_persons_guarantee_is_said(cli, model, tmp_path, shards):
    """By `init`, `status` and the ledger: M times epsilon, and delta by group privacy."""
    people = [f"p{i % 4_000}" for i in range(16_000)]
    rows = _table(tmp_path, people=people, count=len(people))
    files = {1: model(), 2: model(12_000)}
    given = ["--data", rows, "--state", tmp_path / "state", "--person", "who", "--at-most", 3, "--shards", shards]
    made = cli("init", files[shards], *given)
    assert made.code == 0, made.err
    folder = tmp_path / "state" / ("shard-0000" if shards > 1 else ".")
    plan = decode_plan((folder / "plan.json").read_bytes())
    delta = plan.phases[0].delta
    exact = delta * (1 + np.exp(8.0) + np.exp(16.0))
    assert (
        f"a person, of whom at most 3 rows are used: epsilon = 24, delta = {exact:.3g}; a person's queries" in made.out
    )
    status = json.loads(cli("status", tmp_path / "state", "--json").out)
    assert (status["person_rows"], status["person_epsilon"]) == (3, 24.0)
    assert status["person_delta"] == pytest.approx(exact)
    assert "person epsilon" in cli("status", tmp_path / "state").out
    if shards == 1:
        (tmp_path / "q.jsonl").write_text('{"a":0.5}\n')
        assert cli("serve", write_config(tmp_path)).code == 0
        first = read_ledger(tmp_path / "ledger.jsonl")[0]
        assert isinstance(first, PhaseStarted)
        assert first.person == plan.person


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--person", "who"], "--at-most is not set: must go with --person"),
        (["--at-most", "2"], "--person is not set: must go with --at-most"),
        (["--person", "who", "--at-most", "0"], "--at-most = 0: must be from 1"),
        (["--person", "a", "--at-most", "2"], "--person = 'a': must be a column of its own"),
        (["--person", "label", "--at-most", "2"], "--person = 'label': must be a column of its own"),
        (["--person", "whom", "--at-most", "2"], "column whom is missing: there are a, who, label; --person names"),
        (
            ["--person", "who", "--at-most", "1"],
            "data: fewer rows than model.examples = 6000 declares, once at most 1 of each person in column who ",
        ),
    ],
)
def test_what_cannot_be_is_refused(refused, model, tmp_path, given, said):
    """The options go together; the column is one; and rows that are not kept do not count as examples."""
    rows = _table(tmp_path)
    assert said in refused(2, "init", model(), "--data", rows, "--state", tmp_path / "state", *given)
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("nobody", [None, "", 0.5, True])
def test_every_row_must_say_whose_it_is(refused, model, tmp_path, nobody):
    """Else rows of many could be one person's, or of one many; no value is quoted."""
    people = [nobody if isinstance(nobody, float | bool) or i == 7 else f"p{i}" for i in range(9_000)]
    rows = _table(tmp_path, people=people)
    given = ["--data", rows, "--state", tmp_path / "state", "--person", "who", "--at-most", 2]
    assert "data: column who: " in (said := refused(2, "init", model(), *given))
    assert "must name " in said


def test_a_file_that_changes_in_between_is_refused(tmp_path):
    """More rows of a person than counted could get in."""
    path = _table(tmp_path)
    persons = tables.read_persons(path, "who", AtMost(_KEY, 2))
    _table(tmp_path, people=["p1"] * 9_000)
    with pytest.raises(Exception, match="column who: has changed while it was read"):
        list(tables.labelled_batches(path, tables.Layout((feature("a"),)), "label", persons))
