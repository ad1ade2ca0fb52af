"""`perpetua audit reconstruct`: rows and published tables in files, releases, verdicts, the page, and errors."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from oracle.audit.reconstruction import releases
from oracle.cli.main import app
from oracle.errors import DataError, InputError, PerpetuaError, SourceError

_SEED = "5" * 32
_ROWS = 60


@pytest.fixture
def audit(monkeypatch):
    """Return what runs the command in this process: its exit code and output, or its error."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments):
        result = CliRunner().invoke(app, ["audit", "reconstruct", *map(str, arguments)])
        if isinstance(result.exception, PerpetuaError):
            raise result.exception
        return result.exit_code, result.stdout

    return run


@pytest.fixture
def rows(tmp_path):
    """Return a file of rows, no two of which have the same three attributes, with a secret of some."""
    random = np.random.default_rng(12)
    every = [(a, b, c) for a in "wxyz" for b in range(5) for c in (False, True)]
    lines = [every[place] for place in random.permutation(len(every))] + every[:20]
    ill = ["yes" if one else "no" for one in random.random(_ROWS) < 0.3]
    path = tmp_path / "rows.csv"
    told = (f"{a},{b},{str(c).lower()},{one}\n" for (a, b, c), one in zip(lines, ill, strict=True))
    path.write_text("town,age,owner,ill\n" + "".join(told))
    return path


_KNOWN = ("--attribute", "town", "--attribute", "age", "--attribute", "owner")


def _lines(said):
    report = json.loads(said)
    return report, {line["release"]: line for line in report["lines"]}


def test_tables_about_to_be_published(audit, rows):
    """Exact, rounded and suppressed ones give all away; noise keeps below what epsilon allows."""
    arguments = (rows, "--secret", "ill", *_KNOWN, "--ways", 3, "--seed", _SEED)
    code, said = audit(*arguments, "--json")
    report, lines = _lines(said)
    assert code == 0
    assert (report["rows"], report["groups"], report["kind"], report["yes"]) == (_ROWS, 40, "marginals", "yes")
    assert report["judged"] is True
    assert report["refuted"] == []
    ones = sum(line.endswith("yes") for line in rows.read_text().splitlines())
    assert report["having"] == ones
    exact = lines["exact"]["least_squares"]
    assert (
        exact["rebuilt"] == lines["suppressed"]["linear_program"]["rebuilt"] + 0 == _ROWS or exact["rebuilt"] == _ROWS
    )
    assert exact["right"] >= report["without"]["right"]
    assert lines["exact"]["error"] == 0.0
    assert lines["exact"]["coins_rebuilt"] == _ROWS
    assert lines["exact"]["cap"] is None
    for name in ("laplace", "gaussian"):
        assert lines[name]["error"] > 0.3
        assert lines[name]["cap"] == pytest.approx(0.731, abs=1e-3)
        assert lines[name]["lowest"] <= 1.0
        assert lines[name]["least_squares"]["rebuilt"] < _ROWS
    assert "no plan for 60 rows" in lines["statistics"]["refused"]
    code, said = audit(*arguments)
    assert code == 0
    assert "60, by town, age, owner: 40 groups that look alike, 20 of one row" in said
    assert "of fair coins 100.0 % are rebuilt of exact numbers" in said
    assert " rows exposed; more are by exact " in said
    assert "as sensitive as the table itself" in said


def test_our_own_statistics_are_asked_for_the_same_numbers(audit, tmp_path):
    """Marginals, and counts of sets of rows: within what the plan promises, and without proof against its epsilon."""
    random = np.random.default_rng(5)
    table = {"a": random.integers(0, 3, 3000), "b": random.integers(0, 2, 3000), "s": random.random(3000) < 0.4}
    pyarrow.parquet.write_table(
        pa.table({name: pa.array(column) for name, column in table.items()}), tmp_path / "r.parquet"
    )
    options = (tmp_path / "r.parquet", "--secret", "s", "--release", "statistics", "--epsilon", 16, "--json")
    known = ("--attribute", "a", "--attribute", "b", "--seed", _SEED)
    lines = _lines(audit(*options, *known)[1])[1]
    assert abs(lines["exact"]["coins"] - 1500) < 200  # of many rows that look alike half have theirs
    found = lines["statistics"]
    assert found["refused"] == ""
    assert found["numbers"] == 6
    assert 0.0 < found["error"] < 0.1 * 3000
    assert found["lowest"] <= 16
    others = _lines(audit(*options, *known, "--kind", "trees")[1])[1]["statistics"]
    assert others["refused"] == "statistics answer counts and marginals only"


def test_what_was_not_tried_is_told_with_its_reason_where_nothing_can_be_judged(audit, rows):
    """Too few numbers to judge by leave no release without the reason why it was not tried."""
    code, said = audit(rows, "--secret", "ill", *_KNOWN, "--ways", 1, "--release", "statistics", "--seed", _SEED)
    assert code == 1
    assert "cannot judge" in said
    assert "; not tried: statistics (no plan for 60 rows" in " ".join(said.split())


def test_zeros_that_are_suppressed_too_hide_more(audit, rows):
    """Where 0 is shown, a count that is left out is one that is not 0."""
    arguments = (rows, "--secret", "ill", *_KNOWN, "--ways", 3, "--release", "suppressed", "--seed", _SEED, "--json")
    shown, hidden = (_lines(audit(*arguments, *more)[1])[1]["suppressed"] for more in ((), ("--zeros",)))
    assert shown["linear_program"]["exposed"] > hidden["linear_program"]["exposed"]
    assert shown["coins_rebuilt"] > hidden["coins_rebuilt"]


def test_a_release_without_its_epsilon_is_refuted(audit, rows, tmp_path, monkeypatch):
    """Coins prove more than it claims: exit 1, in the terminal and on the page."""
    monkeypatch.setattr(releases, "gaussian_deviation", lambda _epsilon, _delta: 0.01)
    arguments = (rows, "--secret", "ill", *_KNOWN, "--ways", 3, "--release", "gaussian", "--release", "laplace")
    code, said = audit(*arguments, "--epsilon", 0.1, "--seed", _SEED, "--out", tmp_path / "out")
    assert code == 1
    assert "REFUTED: gaussian at epsilon = 0.1: coins prove more" in said
    assert "<p class=warning>REFUTED" in (tmp_path / "out" / "reconstruction.html").read_text()


def test_too_few_numbers_to_judge(audit, rows):
    """Tables of single attributes leave coins open: that is no verdict on the release."""
    code, said = audit(rows, "--secret", "ill", *_KNOWN, "--ways", 1, "--release", "gaussian", "--seed", _SEED)
    assert code == 1
    assert "cannot judge: of exact numbers about fair coins" in said


@pytest.mark.parametrize("kind", ["counts", "trees", "errors", "linear", "logistic", "robust"])
def test_each_kind_is_rebuilt(audit, tmp_path, kind):
    """Of rows that all look different, by five binary attributes and more: exact numbers give all bits away."""
    random = np.random.default_rng(3)
    every = np.array(np.unravel_index(np.arange(64), (2,) * 6)).T
    bits = random.permutation(every[every.sum(axis=1) > 1])[:9]  # "errors" do not tell apart who has no two of them
    names = [f"a{place}" for place in range(6)]
    secret = pa.array(random.random(9) < 0.5)
    path = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(pa.table({**dict(zip(names, bits.T, strict=True)), "s": secret}), path)
    known = [part for name in names for part in ("--attribute", name)]
    options = ("--secret", "s", *known, "--kind", kind, "--ways", 3, "--seed", _SEED, "--json")
    code, said = audit(path, *options, "--release", "rounded", "--unit", 2, "--release", "laplace")
    report, lines = _lines(said)
    assert code == 0
    assert report["yes"] == "true"
    assert lines["exact"]["coins_rebuilt"] == 9
    assert max(lines["exact"][by]["right"] for by in ("least_squares", "linear_program")) == 9
    if kind in {"linear", "logistic", "robust"}:
        assert lines["rounded"]["error"] < 1e-3
        assert lines["rounded"]["least_squares"]["right"] == 9
    assert bool(lines["laplace"]["refused"]) == (kind == "robust")


def _publish(path, rows, *, change=lambda count: count):
    """Write tables of each two attributes with the secret, as an office would."""
    head, *lines = (line.split(",") for line in rows.read_text().splitlines())
    counts: dict[tuple[tuple[str, str], ...], dict[str, int]] = {}
    for line in lines:
        cells = dict(zip(head, line, strict=True))
        for some in (("town", "age", "owner"), ("town", "age"), ("age", "owner")):
            where = tuple((name, cells[name]) for name in some)
            counts.setdefault(where, {"yes": 0, "no": 0})[cells["ill"]] += 1
    if path.suffix == ".csv":
        told = [
            ",".join([dict(where).get(name, "") for name in head[:3]] + [value, str(change(count))])
            for where, both in counts.items()
            for value, count in both.items()
        ]
        path.write_text("town,age,owner,ill,count\n" + "\n".join(told) + "\ny,,,,7\n")
    else:
        told = [
            json.dumps({**dict(where), "ill": value, "count": change(count)})
            for where, both in counts.items()
            for value, count in both.items()
        ]
        path.write_text("\n".join(told) + "\n")


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_published_tables_are_attacked(audit, rows, tmp_path, form):
    """Whether the column is at hand to compare with, or not; what was done to the counts is declared."""
    tables = tmp_path / f"tables.{form}"
    _publish(tables, rows)
    options = ("--secret", "ill", *_KNOWN, "--tables", tables, "--seed", _SEED, "--json")
    code, said = audit(rows, *options)
    report, lines = _lines(said)
    assert code == 0
    assert report["kind"] == "published tables"
    assert lines["published"]["least_squares"]["rebuilt"] == _ROWS
    assert lines["published"]["error"] == 0.0
    empty = (lambda count: "" if 0 < count < 3 else count) if form == "csv" else lambda n: None if 0 < n < 3 else n
    _publish(tables, rows, change=empty)
    with pytest.raises(InputError, match=r"--release = 'exact': must be suppressed: .*tables.* has lines without a"):
        audit(rows, *options)
    code, said = audit(rows, *options, "--release", "suppressed", "--least", 3)
    found = _lines(said)[1]["published"]
    assert found["linear_program"]["rebuilt"] == _ROWS
    without = tmp_path / "public.csv"
    without.write_text("\n".join(line.rpartition(",")[0] for line in rows.read_text().splitlines()) + "\n")
    _publish(tables, rows)
    with pytest.raises(InputError, match=r"--yes is not set: must be the value of ill that is a 1"):
        audit(without, *options, "--unknown")
    with pytest.raises(DataError, match=r"line \d+: ill must be yes, or nothing"):
        audit(without, *options, "--unknown", "--yes", "yes")
    code, said = audit(without, *options, "--unknown", "--yes", "yes", "--no", "no")
    report, lines = _lines(said)
    assert code == 0
    assert report["having"] is report["without"] is lines["published"]["least_squares"] is None
    assert lines["exact"]["coins_rebuilt"] == _ROWS


def test_what_was_rebuilt_is_written_on_demand(audit, rows, tmp_path):
    """A line for each group of rows that look alike, beside a page that says what happened."""
    out = tmp_path / "out"
    code, said = audit(rows, "--secret", "ill", *_KNOWN, "--ways", 3, "--out", out, "--seed", _SEED)
    assert code == 0
    assert str(out / "reconstruction.html") in said
    page = (out / "reconstruction.html").read_text()
    assert page.count("<circle") == 5
    assert "What could be rebuilt of a secret column" in page
    assert "as you keep the table" in page
    assert json.loads((out / "reconstruction.json").read_text())["rows"] == _ROWS
    assert (out / "reconstruction.html").stat().st_mode & 0o077 == 0


def test_a_sample_of_the_rows(audit, rows):
    """So many of them, each known by name."""
    code, said = audit(rows, "--secret", "ill", "--kind", "counts", "--sample", 30, "--release", "exact", "--json")
    report, lines = _lines(said)
    assert code == 0
    assert (report["rows"], report["groups"], lines["exact"]["numbers"]) == (30, 30, 150)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("town,count\nw,1\n", "tables.csv: line 1 must name the columns ill, count"),
        ("town,ill,count\nw,yes,many\n", "line 2: count must be a number, or nothing where it was suppressed"),
        ("town,ill,count\nw,yes,1,000\n", "line 2: must have at most 3 fields"),
        ("town,ill,count\nw,yes,1000\n", "line 2: count must be from 0 to 20, as many rows as it is about"),
        ("town,ill,count\nw,yes,-1\n", "line 2: count must be from 0 to"),
        ("town,ill,count\nw,yes,1\nq,yes,1\n", "line 3: town must be a value that some row has, or nothing for any"),
        ("city,ill,count\nw,yes,1\n", "line 2: city must be one of the attributes: town, age, owner"),
        ("town,ill,count\nw,maybe,1\n", "line 2: ill must be no or yes, or nothing for any value"),
        ("town,ill,count\nw,,1\n", "must have a line with a value of ill and a count"),
        ("town,ill,count\n", "must have a line with a value of ill and a count"),
    ],
)
def test_malformed_tables_are_named(audit, rows, tmp_path, text, said):
    """With the line, the field and the bound."""
    (tmp_path / "tables.csv").write_text(text)
    with pytest.raises(DataError, match=said):
        audit(rows, "--secret", "ill", *_KNOWN, "--tables", tmp_path / "tables.csv")


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        (("--secret", "ill"), InputError, "--attribute is not set: must name a column that anybody may know"),
        (("--secret", "ill", "--attribute", "age", "--ways", 2), InputError, "--ways = 2: must be at most 1, as many"),
        (("--secret", "ill", *_KNOWN, "--ways", 4), InputError, "--ways = 4: must be at most 3, as many"),
        (("--secret", "ill", "--attribute", "ill"), InputError, "--attribute = 'ill': must not be the secret column"),
        (("--secret", "town", "--attribute", "age"), InputError, "--yes is not set: .* of town .* it has 4 values"),
        (("--secret", "town", "--yes", "q", "--attribute", "age"), InputError, "--yes = 'q': must be a value of"),
        (("--secret", "none", "--attribute", "age"), DataError, "column none is missing"),
        (("--secret", "ill", "--kind", "maps"), InputError, "--kind = 'maps': must be one of counts, marginals"),
        (("--secret", "ill", "--release", "all"), InputError, "--release = 'all': must be one of exact, rounded"),
        (("--secret", "ill", "--epsilon", 0), InputError, "--epsilon = 0.0: must be from 1e-06 to 1,000"),
        (("--secret", "ill", "--epsilon", 1e-300), InputError, "--epsilon = 1e-300: must be from 1e-06 to 1,000"),
        (
            ("--secret", "count", *_KNOWN, "--tables", "x.csv"),
            InputError,
            "--secret = 'count': must be called otherwise",
        ),
        (
            ("--secret", "ill", "--attribute", "count", "--tables", "x.csv"),
            InputError,
            "--attribute = 'count': must be",
        ),
        (
            ("--secret", "ill", *_KNOWN, "--tables", "x.csv", "--release", "exact", "--release", "rounded"),
            InputError,
            "--release = 'exact, rounded': must be given once",
        ),
        (("--secret", "ill", "--delta", 1), InputError, "--delta = 1.0: must be above 0 and below 1"),
        (("--secret", "ill", "--miss", 0), InputError, "--miss = 0.0: must be from 1e-09 to below 1"),
        (("--secret", "ill", "--sample", 9, "--tables", "x.csv"), InputError, "--sample = 9: must be left out with"),
        (("--secret", "ill", "--unknown"), InputError, "--unknown = true: needs --tables"),
        (("--secret", "ill", "--seed", "x"), InputError, "--seed = 'x': must be 32 hex digits"),
        (
            ("--secret", "ill", "--kind", "counts", "--questions", 10_000_000),
            InputError,
            "published numbers = 10000000: times 60 groups of rows must be at most",
        ),
        (("--secret", "ill", "--kind", "trees", "--attribute", "town"), InputError, "must be at least two with two"),
    ],
)
def test_what_cannot_be_done_is_said(audit, rows, options, error, said):
    """In one line that names the option, the value and the bound."""
    with pytest.raises(error, match=said):
        audit(rows, *options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("rounded", "--unit", 3), "--unit = 3: must be what all counts are multiples of: 4 is not"),
        (("suppressed", "--least", 5), "--least = 5: must be the least count, .*: 4 is among the counts"),
    ],
)
def test_counts_that_were_treated_otherwise(audit, rows, tmp_path, options, said):
    """They are not rounded or suppressed once more without a word."""
    (tmp_path / "tables.csv").write_text("town,ill,count\nw,yes,6\nx,yes,4\n")
    with pytest.raises(InputError, match=said):
        audit(rows, "--secret", "ill", *_KNOWN, "--tables", tmp_path / "tables.csv", "--release", *options)


def test_noisy_counts_beyond_all_sense(audit, rows, tmp_path):
    """A solver that gives up says nothing of the line."""
    (tmp_path / "tables.csv").write_text("town,ill,count\nw,yes,1e20\n")
    with pytest.raises(DataError, match="line 2: count must be a number"):
        audit(rows, "--secret", "ill", *_KNOWN, "--tables", tmp_path / "tables.csv", "--release", "laplace")


def test_a_column_of_one_value_is_no_regressor(audit, tmp_path):
    """There is no bit to regress on."""
    path = tmp_path / "rows.csv"
    path.write_text("town,ill\n" + "w,yes\nw,no\n" * 4)
    with pytest.raises(InputError, match="--attribute = 'town': must have two values or more for linear"):
        audit(path, "--secret", "ill", "--attribute", "town", "--kind", "linear")


def test_files_that_cannot_be_read(audit, rows, tmp_path):
    """By their names, as everywhere."""
    with pytest.raises(SourceError, match=r"none\.csv: cannot be read: No such file"):
        audit(tmp_path / "none.csv", "--secret", "ill", *_KNOWN)
    with pytest.raises(PerpetuaError, match=r"none\.csv: cannot be read: No such file"):
        audit(rows, "--secret", "ill", *_KNOWN, "--tables", tmp_path / "none.csv")
    with pytest.raises(InputError, match=r"--tables = .*must end in \.csv or \.jsonl"):
        audit(rows, "--secret", "ill", *_KNOWN, "--tables", tmp_path / "none.txt")
    (tmp_path / "few.csv").write_text("town,ill\nw,yes\nx,no\n")
    with pytest.raises(DataError, match="must have 8 rows or more, has 2"):
        audit(tmp_path / "few.csv", "--secret", "ill", "--attribute", "town")
