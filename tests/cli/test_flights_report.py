from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from oracle.cli.demo import _program, _wrapped
from oracle.demo.data import Prepared
from oracle.demo.plot import draw
from oracle.demo.report import summary, what_happened, what_next
from oracle.demo.score import score, score_files
from oracle.errors import DataError
from oracle.planning.promise import Promise
from oracle.state.status import Status

TRUTH = np.array([True, True, True, False, True, True, False, True])
LABELS = np.array([1, 0, 1, 0, 1, 0, 1, 1], dtype=np.int8)
PHASES = np.array([1, 1, 1, 1, 1, 2, 2, 2])
TIMES = np.datetime64("2013-10-01T06:00:00") + np.array([0, 1, 24, 25, 26, 240, 241, 242]).astype("timedelta64[h]")


@pytest.fixture
def toy():
    """Return eight answers of three days and two phases."""
    return score(TIMES, TRUTH, LABELS, PHASES)


@pytest.fixture
def plan():
    """Return what the report reads of a plan."""
    return SimpleNamespace(epsilon=4.0, delta=1e-3, alpha=0.1, phases=(None,) * 24)


@pytest.fixture
def prepared():
    """Return the figures of a small data set."""
    return Prepared(
        train=Path("train.parquet"),
        queries=Path("queries.jsonl"),
        truth=Path("truth.parquet"),
        flights=110,
        dropped=2,
        examples=100,
        asked=8,
        share=0.75,
    )


def status(plan, **changes):
    """Return public facts at the end of a run."""
    facts = {
        "model": "flights",
        "predictor": "rectangles",
        "profile": "tight",
        "alpha": plan.alpha,
        "proved": True,
        "forks": 0,
        "epsilon_with_forks": plan.epsilon,
        "delta_of_forks": 0.0,
        "round": 8,
        "phase": 2,
        "phases": len(plan.phases),
        "phase_rounds_left": 1234,
        "rearms": 3,
        "epsilon": plan.epsilon,
        "delta": 1.5e-9,
        "delta_spent": 0.00052,
        "delta_limit": plan.delta,
        "snapshot_bytes": 1,
        "snapshot_age_seconds": 0.0,
        "promise": Promise(bound=plan.alpha, beyond="", missed=0.1, kind="theorem", basis="a proof", conditions=()),
    }
    return Status(**facts | changes)


def test_the_score_counts_by_hand(toy):
    """Accuracy, baseline, phases and windows of eight answers."""
    assert toy.rounds == 8
    assert toy.wrong.tolist() == [False, True, False, False, False, True, True, False]
    assert toy.error == 3 / 8
    assert toy.baseline == 2 / 8
    assert toy.errors_by_phase == {1: 1 / 5, 2: 2 / 3}
    assert toy.phase_starts == {2: 5}


def test_days_without_queries_are_left_out_and_weeks_end_on_their_day(toy):
    """Daily counts, and the error over seven days: the third day is more than a week after the first two."""
    days, counts, wrong = toy.by_day()
    weeks, errors = toy.by_week()

    assert days.astype(str).tolist() == ["2013-10-01", "2013-10-02", "2013-10-11"]
    assert counts.tolist() == [2, 3, 3]
    assert wrong.tolist() == [1, 0, 2]
    assert weeks.tolist() == days.tolist()
    assert errors.tolist() == [1 / 2, 1 / 5, 2 / 3]


def test_a_score_needs_one_answer_to_each_query():
    """Nothing, or too few answers, is refused."""
    with pytest.raises(DataError, match="0 for 0"):
        score(TIMES[:0], TRUTH[:0], LABELS[:0], PHASES[:0])
    with pytest.raises(DataError, match="7 for 8"):
        score(TIMES, TRUTH, LABELS[:7], PHASES[:7])


def lines(rows):
    """Return answers as the daemon writes them: the label padded to four bytes."""
    return "".join(
        f'{{"id":"q{i}","label":{LABELS[i]}   ,"model":"m","round":{r},"phase":{PHASES[i]}}}\n' for i, r in rows
    )


@pytest.fixture
def files(tmp_path):
    """Write the toy as the daemon and `prepare` would."""
    table = pa.table({"id": [f"q{i}" for i in range(8)], "time": TIMES, "label": TRUTH})
    pyarrow.parquet.write_table(table, tmp_path / "truth.parquet")
    (tmp_path / "answers.jsonl").write_text(lines(enumerate(range(8))))
    return tmp_path / "answers.jsonl", tmp_path / "truth.parquet"


def test_files_give_the_same_score(toy, files):
    """The daemon's answer file and the truth file hold what the arrays hold."""
    read = score_files(*files)

    for name in ("times", "truth", "labels", "phases"):
        assert np.array_equal(getattr(read, name), getattr(toy, name))


@pytest.mark.parametrize(
    "rows",
    [
        [(i, i) for i in range(7)],  # one lost
        [*((i, i) for i in range(8)), (7, 8)],  # one twice
        [(1, 0), (0, 1), *((i, i) for i in range(2, 8))],  # out of order
        [(i, i + 1) for i in range(8)],  # a round skipped
    ],
)
def test_lost_double_or_reordered_answers_are_found(files, rows):
    """The demo would notice if the crash had cost or doubled an answer."""
    answers, truth = files
    answers.write_text(lines(rows))

    with pytest.raises(DataError, match="not one answer to each query"):
        score_files(answers, truth)


def test_a_line_that_is_no_answer_is_refused(files):
    """A rejection, or half a line, is not an answer."""
    answers, truth = files
    answers.write_text('{"id":"q0","error":"malformed"}\n')

    with pytest.raises(DataError, match="not an answer"):
        score_files(answers, truth)


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_the_plot_is_the_same_bytes_each_time(toy, tmp_path, kind):
    """No date, no random names; a crash and a phase change are marked."""
    first = draw(toy, 0.1, tmp_path / f"a.{kind}", crashes=[3]).read_bytes()
    second = draw(toy, 0.1, tmp_path / f"b.{kind}", crashes=[3]).read_bytes()

    assert first == second
    assert first != draw(toy, 0.1, tmp_path / f"c.{kind}").read_bytes()
    assert len(first) > 5_000


def test_the_plot_says_what_it_shows(toy, tmp_path):
    """Title, bound, baseline and marks stand in the SVG (matplotlib writes every text as a comment as well)."""
    text = draw(toy, 0.1, tmp_path / "a.svg", crashes=[3]).read_text()

    for words in (
        "8 private answers: 37.50% were wrong",
        "alpha): 10.0%",
        "more frequent answer: 25.0%",
        "phase 2 begins (query 5)",
        "killed, resumed (query 3)",
        "wrong answers (percent)",
    ):
        assert words in text
    assert "<dc:date>" not in text


def test_the_table_has_every_figure_that_was_promised(toy, plan):
    """Accuracy, rounds, phase, epsilon and delta spent, throughput, and what they are measured against."""
    rows = dict(summary(plan, status(plan), toy, 2.0))

    assert rows["accuracy"] == "62.50%"
    assert rows["error"].startswith("37.50% (20.00% in phase 1, 66.67% in phase 2)")
    assert rows["error without learning"].startswith("25.00%")
    assert rows["rounds"].startswith("8 ")
    assert rows["phase"] == f"2 of {len(plan.phases)}; 1,234 rounds left in it"
    assert rows["re-armed sides"].startswith("3 ")
    assert rows["epsilon"].startswith("4 ")
    assert rows["delta"].startswith("1.5e-09 ")
    assert rows["delta spent"].startswith("0.00052 of 0.001")
    assert rows["throughput"].startswith("4 answers a second")


def test_the_words_carry_the_figures(toy, plan, prepared):
    """What happened names the crash, the renewal and the promise."""
    text = what_happened(prepared, plan, toy)

    assert text.count("\n\n") == 3
    for words in ("100 flights", "kill -9", "8 queries, 8 answers", "At query 5 phase 2 began", "e^4 = 54.6", "75%"):
        assert words in text
    assert "the worst one here: 67%" in text


def test_a_run_without_a_phase_change_says_nothing_about_one(plan, prepared):
    """The renewal is told only if it was seen, and the bad day only if there was one."""
    text = what_happened(prepared, plan, score(TIMES, TRUTH, TRUTH.astype(np.int8), np.ones(8, dtype=np.int64)))

    assert "phase" not in text
    assert "worst" not in text


def test_what_next_says_what_epsilon_one_takes(plan, prepared, monkeypatch):
    """The live figure, in flights and in months; commands with the demo's own paths can be pasted, however narrow."""
    monkeypatch.setenv("COLUMNS", "50")
    text = _wrapped(what_next(prepared, plan, 200, Path("d e"), ".venv/bin/perpetua"))

    assert "200 labelled flights, about 18 months" in " ".join(text.split())
    commands = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    assert commands == [
        ".venv/bin/perpetua plan 'd e/flights.toml'",
        ".venv/bin/perpetua status 'd e/state'",
        ".venv/bin/perpetua audit --state 'd e/state'",
        ".venv/bin/perpetua evaluate MODEL.toml --train ROWS.csv --test OTHERS.csv",
        ".venv/bin/perpetua init MODEL.toml --data ROWS.csv --state DIR",
    ]
    assert all(len(line) <= 50 for line in text.splitlines() if not line.startswith("    "))
    assert not any(line.endswith(" ") for line in text.splitlines())


def test_commands_are_shown_as_the_shell_finds_them(monkeypatch, tmp_path):
    """By name if it is on the path; else by the path of the environment that runs it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(Path.cwd() / ".venv" / "bin" / "python"))
    assert _program() == ".venv/bin/perpetua"
    (tmp_path / "perpetua").write_text("#!/bin/sh\n")
    (tmp_path / "perpetua").chmod(0o755)
    assert _program() == "perpetua"
