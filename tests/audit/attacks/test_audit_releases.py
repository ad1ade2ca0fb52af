"""`perpetua audit trace` and `perpetua audit majority`: planted releases, honest ones, files, programs, errors."""

import csv
import json
import math
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from oracle.cli.main import app
from oracle.errors import DataError, InputError, PerpetuaError, SourceError, StorageError
from oracle.planning.statistics.counts import gaussian_deviation

_NEIGHBOURS = ("exchanging a row", "a row more or less")
_ANSWERER = Path(__file__).with_name("answerer.py")


@pytest.fixture
def audit(monkeypatch):
    """Return what runs `perpetua audit` in this process: its exit code and output, or its error."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments):
        result = CliRunner().invoke(app, ["audit", *map(str, arguments)])
        if isinstance(result.exception, PerpetuaError):
            raise result.exception
        return result.exit_code, result.stdout

    return run


def _program(kind, number="0", seed=0):
    return shlex.join([sys.executable, str(_ANSWERER), kind, str(number), str(seed)])


def _lines(path):
    csv.field_size_limit(1 << 30)
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _release(folder, deviation, seed, *, form="csv"):
    """Answer rows.csv as any tool would, with normal noise of so many standard deviations."""
    rows = np.array([[int(bit) for bit in row["bits"]] for row in _lines(folder / "rows.csv")])
    answers = rows.mean(axis=0) + np.random.default_rng(seed).normal(0.0, deviation, rows.shape[1])
    if form == "csv":
        text = "question,answer\n" + "".join(f"{number},{answer}\n" for number, answer in enumerate(answers))
    else:
        text = "".join(json.dumps({"question": n, "answer": float(a)}) + "\n" for n, a in enumerate(answers))
    (folder / f"answers.{form}").write_text(text)


@pytest.mark.parametrize("alone", [(), ("--alone",)])
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_exact_answers_in_files_are_caught(audit, tmp_path, alone, form):
    """They are refuted, and the figures say so."""
    made, _ = audit("trace", "--make", tmp_path, "--coins", 200, "--questions", 8000, "--seed", "7" * 32, *alone)
    assert made == 0
    _release(tmp_path, 0.0, 0, form=form)
    code, said = audit("trace", tmp_path, "--epsilon", 2, "--json", *alone)
    report = json.loads(said)
    assert code == 1
    assert (report["attack"], report["coins"], report["questions"]) == ("trace", 200, 8000)
    assert report["neighbours"] == _NEIGHBOURS[bool(alone)]
    assert report["right"] == report["exact_right"] >= 198
    assert report["lowest"] == report["exact_lowest"] > 2.0
    assert report["error"] < 1e-9
    assert report["cap"] == pytest.approx(math.exp(2.0) / (1.0 + math.exp(2.0)))
    code, said = audit("trace", tmp_path, "--epsilon", 2, *alone)
    assert code == 1
    assert f"REFUTED: epsilon = 2, of {_NEIGHBOURS[bool(alone)]}, is not true" in said
    code, said = audit("trace", tmp_path, *alone)
    assert code == 0
    assert "nothing was claimed" in said


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(301, 309))
@pytest.mark.parametrize("alone", [(), ("--alone",)])
def test_an_honest_gaussian_release_passes(audit, tmp_path, seed, alone):
    """Calibrated to (epsilon, delta) exactly; a fiftieth of its noise is caught, as a bug in its scale would be."""
    coins, questions, epsilon = 150, 6000, (0.5, 1.0, 1.5)[seed % 3]
    audit("trace", "--make", tmp_path, "--coins", coins, "--questions", questions, "--seed", f"{seed:032x}", *alone)
    rows = len(_lines(tmp_path / "rows.csv"))
    honest = math.sqrt(questions) / rows * gaussian_deviation(epsilon, 1e-6)
    _release(tmp_path, honest, seed)
    claim = ("--epsilon", epsilon, "--delta", 1e-6, *alone)
    assert audit("trace", tmp_path, *claim)[0] == 0
    _release(tmp_path, honest / 50.0, seed)
    code, said = audit("trace", tmp_path, *claim)
    assert code == 1
    assert "REFUTED" in said


@pytest.mark.parametrize("seed", range(401, 404))
def test_programs_are_asked_and_caught_or_not(audit, seed):
    """Exact ones are caught, honest ones pass; bits that are drawn anew are caught, repeated ones are not."""
    asked = ("--coins", 40, "--questions", 1000, "--seed", f"{seed:032x}", "--epsilon", 1, "--delta", 1e-6)
    assert audit("trace", "--ask", _program("shares", 0.0, seed), *asked)[0] == 1
    honest = math.sqrt(1000) / 40 * gaussian_deviation(1.0, 1e-6)
    assert audit("trace", "--ask", _program("shares", honest, seed), *asked)[0] == 0
    kept, bits = math.e / (1.0 + math.e), ("--bits", 600, "--times", 9, "--epsilon", 1, "--seed", f"{seed:032x}")
    assert audit("majority", "--ask", _program("repeated", kept, seed), *bits)[0] == 0
    assert audit("majority", "--ask", _program("fresh", kept, seed), *bits)[0] == 1
    told = ("--bits", 20_000, "--times", 5, "--epsilon", 5, "--json")
    code, said = audit("majority", "--ask", _program("fresh", kept, seed), *told)
    report = json.loads(said)
    assert code == 0, "five answers of epsilon 1 are 5 together"
    assert [step["answers"] for step in report["steps"]] == [1, 2, 4, 5]
    assert report["steps"][0]["lowest"] <= 1.0 < report["steps"][-1]["lowest"] == report["lowest"] <= 5.0
    assert report["right"] / report["coins"] >= report["bound"]


def test_what_is_asked_follows_from_the_seed(audit):
    """The same seed gives the same report; another one does not."""
    asked = ("trace", "--ask", _program("shares", 0.1), "--coins", 60, "--questions", 300, "--json", "--seed")
    first, again, other = (audit(*asked, seed * 32)[1] for seed in "aab")
    assert first == again != other


def test_the_program_of_the_docs_answers(audit, tmp_path):
    """As it stands there, with its noise of a half: of few questions nothing can be proved."""
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "replay-and-audit.md").read_text(encoding="utf-8")
    program = tmp_path / "mechanism.py"
    program.write_text(page.partition("```python\n")[2].partition("```")[0], encoding="utf-8")
    asked = ("--coins", 40, "--questions", 1000, "--epsilon", 1, "--seed", "2" * 32)
    code, said = audit("trace", "--ask", shlex.join([sys.executable, str(program)]), *asked)
    assert code == 0
    assert "1,000 questions, 1,000 answered; mean error 0." in said


def test_a_program_may_be_spent(audit):
    """What it leaves unanswered counts for nothing, also not of the exact answers beside it."""
    asked = ("--coins", 40, "--questions", 500, "--seed", "5" * 32, "--json")
    report = json.loads(audit("trace", "--ask", _program("shares", -400), *asked)[1])
    assert (report["questions"], report["answered"]) == (500, 400)
    assert report["right"] == report["exact_right"]


def test_too_few_questions_cannot_tell(audit):
    """Then the claim does not stand: exit 1."""
    asked = ("--coins", 8, "--questions", 40, "--seed", "5" * 32, "--epsilon", 3)
    code, said = audit("trace", "--ask", _program("shares", 2.0), *asked)
    assert code == 1
    assert "could not tell: not even exact answers would refute epsilon = 3, of exchanging a row; " in said
    assert "toss 171 coins or more (--coins)" in said


@pytest.mark.parametrize(
    ("epsilon", "delta", "said"),
    [
        (3, 0.0, "toss 171 coins or more (--bits)"),
        (12, 0.0, "about 1,349,901 coins would be needed, and --bits ends at 1,000,000"),
        (20, 0.0, "about 4,023,984,219 coins would be needed"),
        (12, 1e-6, "no number of coins does at delta = 1e-06 and --miss 0.001"),
        (1000, 0.0, "no number of coins does"),
        (math.inf, 1e-6, "no number of coins does"),
    ],
)
def test_what_would_tell_can_be_done_or_is_said_not_to_be(audit, tmp_path, epsilon, delta, said):
    """No number of coins is advised that the command refuses, and none is denied that would do."""
    audit("majority", "--make", tmp_path, "--bits", 20, "--seed", "4" * 32)
    (tmp_path / "answers.jsonl").write_text(json.dumps({"values": [0.5] * 20}) + "\n")
    code, told = audit("majority", tmp_path, "--epsilon", epsilon, "--delta", delta)
    assert code == 1
    assert said in told


def test_a_claim_about_other_neighbours_is_not_judged(audit, tmp_path):
    """A row's own bits with Laplace noise, 2-private for a row more or less, are 4-private for exchanging one.

    Candidates have a question each: of a pair of them, who is exchanged changes two answers.
    """
    random, coins = np.random.default_rng(4711), 1200
    there = random.random(coins) < 0.5
    for name, each in (("pairs", 2), ("single", 1)):
        folder, lines, rows = tmp_path / name, [], []
        folder.mkdir()
        present = np.stack([~there, there], axis=1)[:, 2 - each :]
        for pair, place in np.ndindex(coins, each):
            bits = np.zeros(coins * each, dtype=int)
            bits[pair * each + place] = 1
            line = f"{pair}.{place},{''.join(map(str, bits))}\n"
            lines.append(f"{pair},{line}")
            rows += [line] if present[pair, place] else []
        (folder / "candidates.csv").write_text("pair,id,bits\n" + "".join(lines))
        (folder / "rows.csv").write_text("id,bits\n" + "".join(rows))
        noise = random.laplace(0.0, 0.5, coins * each)
        shares = (present.ravel() + noise) / len(rows)
        text = "".join(f"{number},{share}\n" for number, share in enumerate(shares))
        (folder / "answers.csv").write_text("question,answer\n" + text)
    assert json.loads(audit("trace", tmp_path / "pairs", "--json")[1])["lowest"] > 2.0
    with pytest.raises(InputError, match=r"--alone = true: .*pairs has two candidates a coin, .*exchanging a row, not"):
        audit("trace", tmp_path / "pairs", "--epsilon", 2, "--alone")
    assert audit("trace", tmp_path / "pairs", "--epsilon", 4)[0] in {0, 1}
    with pytest.raises(InputError, match=r"--alone = false: .*single has one candidate a coin, .*a row more or less"):
        audit("trace", tmp_path / "single", "--epsilon", 2)
    code, said = audit("trace", tmp_path / "single", "--epsilon", 2, "--alone")
    assert code == 0
    assert "epsilon = 2, of a row more or less, was not refuted" in said


def test_what_makes_files_says_how_they_are_judged(audit, tmp_path):
    """With the option that they need."""
    for name, alone in (("pairs", ()), ("single", ("--alone",))):
        made = audit("trace", "--make", tmp_path / name, "--coins", 8, "--questions", 9, *alone)[1]
        assert made.strip().endswith(" ".join([f"perpetua audit trace {tmp_path / name}", *alone]))


def test_an_attack_without_power_is_said_to_have_none(audit, tmp_path):
    """Noise that hides coins from it proves nothing of the claim; a claim of nothing at all would stand as well."""
    audit("trace", "--make", tmp_path, "--coins", 200, "--questions", 4000, "--seed", "6" * 32)
    _release(tmp_path, 20.0, 2)
    code, said = audit("trace", tmp_path, "--epsilon", 1)
    assert code == 0
    assert "was not refuted, but the attack had no power" in said
    _release(tmp_path, 0.25, 2)
    code, said = audit("trace", tmp_path, "--epsilon", 3)
    assert code == 0
    assert "epsilon = 3, of exchanging a row, was not refuted" in said
    assert "no power" not in said


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_releases_of_bits_in_files(audit, tmp_path, form):
    """A release of numbers: one line is honest, thirty lines of fresh noise are not."""
    audit("majority", "--make", tmp_path, "--bits", 500, "--seed", "3" * 32)
    bits = _lines(tmp_path / "bits.csv")
    secret, random = np.array([int(line["bit"]) for line in bits]), np.random.default_rng(77)
    values = secret + random.laplace(0.0, 1.0, (30, 500))

    def write(lines):
        if form == "csv":
            order = random.permutation(500)
            text = ",".join(bits[place]["id"] for place in order) + "\n"
            text += "".join(",".join(map(str, line[order])) + "\n" for line in lines)
        else:
            text = "".join(json.dumps({"values": line.tolist()}) + "\n" for line in lines)
        (tmp_path / f"answers.{form}").write_text(text)

    write(values[:1])
    assert audit("majority", tmp_path, "--epsilon", 1)[0] == 0
    write(values)
    code, said = audit("majority", tmp_path, "--epsilon", 1)
    assert code == 1
    assert "30 answers of 500 bits" in said
    assert "or more of an answer with the bits" in said
    assert "% of the bits at least, of any answers with these correlations" in said


def test_rows_that_are_no_candidates_count_for_exact_answers(audit, tmp_path):
    """Files of one's own: candidates among others, ids and pairs of any kind."""
    random = np.random.default_rng(6)
    bits = random.integers(0, 2, (60, 2, 1800))
    coins = random.random(60) < 0.5
    others = random.integers(0, 2, (40, 1800))
    texts = [["".join(map(str, one)) for one in pair] for pair in bits]
    (tmp_path / "candidates.jsonl").write_text(
        "".join(
            json.dumps({"pair": 7 * pair, "id": f"{name}{pair}", "bits": texts[pair][place]}) + "\n"
            for place, name in enumerate("ab")
            for pair in range(60)
        )
    )
    chosen = [(f"{'ab'[int(coin)]}{pair}", texts[pair][int(coin)]) for pair, coin in enumerate(coins)]
    every = [*chosen, *((f"other{number}", "".join(map(str, one))) for number, one in enumerate(others))]
    (tmp_path / "rows.csv").write_text("id,bits\n" + "".join(f"{name},{text}\n" for name, text in every))
    _release(tmp_path, 0.0, 0)
    report = json.loads(audit("trace", tmp_path, "--json")[1])
    assert report["error"] < 1e-9
    assert report["right"] == report["exact_right"] == 60


def test_coins_that_are_not_fair_are_refused(audit, tmp_path):
    """Rows that are always the first of their pairs: to guess that of all would refute any claim, whatever is told."""
    names = [(pair, f"{name}{pair}") for pair in range(40) for name in "ab"]
    (tmp_path / "candidates.csv").write_text("pair,id,bits\n" + "".join(f"{one},{name},01\n" for one, name in names))
    (tmp_path / "rows.csv").write_text("id,bits\n" + "".join(f"a{pair},01\n" for pair in range(40)))
    (tmp_path / "answers.csv").write_text(_ANSWERS)
    with pytest.raises(DataError, match="no fair coins chose: 0 of 40"):
        audit("trace", tmp_path, "--epsilon", 1)
    (tmp_path / "bits.csv").write_text("id,bit\n" + "".join(f"{bit},0\n" for bit in range(40)))
    with pytest.raises(DataError, match="no fair coins chose: 0 of 40"):
        audit("majority", tmp_path, "--epsilon", 1)


_CANDIDATES = "pair,id,bits\n0,a,01\n0,b,10\n1,c,11\n1,d,00\n"
_ROWS = "id,bits\na,01\nd,00\n"
_ANSWERS = "question,answer\n0,0.5\n1,0.5\n"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("candidates", "", "candidates.csv: line 1 must name the columns pair, id, bits"),
        ("candidates", "pair,id\n0,a\n", "candidates.csv: line 1 must name the columns pair, id, bits"),
        ("candidates", "pair,id,bits\nx,a,01\n", "candidates.csv: line 2: pair must be a whole number"),
        ("candidates", "pair,id,bits\n0,a,01\n0,,10\n", "candidates.csv: line 3: id must be a text"),
        ("candidates", "pair,id,bits\n0,a,01\n0,b,10\n1,c,11\n", "every pair must have two candidates"),
        ("candidates", "pair,id,bits\n0,a,01\n0,b,1\n", "bits must be 0s and 1s"),
        ("candidates", "pair,id,bits\n0,a,01\n0,b,12\n", "bits must be 0s and 1s"),
        ("candidates", "pair,id,bits\n0,a,01\n0,b,11\n1,a,01\n1,c,10\n", "every id must be of one candidate only"),
        ("candidates", "pair,id,bits\n", "every pair must have two candidates"),
        ("rows", "id,bits\na,01\n", "must have one candidate of each pair"),
        ("rows", "id,bits\na,01\nb,10\nc,11\n", "must have one candidate of each pair"),
        ("rows", "id,bits\na,01\nd,0\n", "bits must be 0s and 1s, one for each question"),
        ("rows", "id,bits\na,01\na,01\nd,00\n", "every id must be of one row only"),
        ("rows", "id,bits\na,11\nd,00\n", "must have the bits that candidates of the same id have"),
        ("answers", "q,answer\n0,0.5\n", "answers.csv: line 1 must name the columns question, answer"),
        ("answers", "question,answer\n0,0.5\n\n1,half\n", "answers.csv: line 4: answer must be a finite number"),
        ("answers", "question,answer\n2,0.5\n", "question 2 must be from 0 to 1"),
        ("answers", "question,answer\n0,0.5\n0,0.5\n", "question 0 must be answered once"),
        ("answers", "question,answer\n0,nan\n", "must be finite numbers|must be a finite number"),
        ("answers", "question,answer\n0,1e308\n", "must be finite numbers, from -1e"),
        ("answers", "question,answer\n0,1e999\n", "must be finite numbers|must be a finite number"),
        ("answers", "question,answer\n0,\n1,\n", "must have an answer"),
        ("answers", "question,answer\n0,0,5\n", "answers.csv: line 2: must have at most 2 fields, as line 1"),
        ("answers", "question,answer,answer\n0,0.5,0.6\n", "answers.csv: line 1 must name each column once"),
        ("answers", b"question,answer\n\xff,1\n", "is no CSV file of UTF-8"),
    ],
)
def test_malformed_files_are_named(audit, tmp_path, name, text, said):
    """With what is wrong in them."""
    for stem, content in ({"candidates": _CANDIDATES, "rows": _ROWS, "answers": _ANSWERS} | {name: text}).items():
        (tmp_path / f"{stem}.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=said):
        audit("trace", tmp_path)


def test_missing_files_are_files_errors(audit, tmp_path):
    """Exit 4, as of other files, with the option that names another."""
    with pytest.raises(StorageError, match=r"must hold candidates\.csv or candidates\.jsonl"):
        audit("trace", tmp_path)
    (tmp_path / "candidates.csv").write_text(_CANDIDATES)
    (tmp_path / "rows.csv").write_text(_ROWS)
    with pytest.raises(StorageError, match=r"answers\.csv: cannot be read: No such file .*; --answers names another"):
        audit("trace", tmp_path)
    with pytest.raises(StorageError, match=r"other\.csv: cannot be read: No such file or directory$"):
        audit("trace", tmp_path, "--answers", tmp_path / "other.csv")


def test_pairs_in_json_lines_are_numbers(audit, tmp_path):
    """As the help says; the line is that of the file, also behind an empty one."""
    (tmp_path / "candidates.jsonl").write_text('\n{"pair": "0", "id": "a", "bits": "01"}\n')
    (tmp_path / "rows.csv").write_text(_ROWS)
    with pytest.raises(DataError, match=r"candidates\.jsonl: line 2: pair must be a whole number"):
        audit("trace", tmp_path)


@pytest.mark.parametrize(
    ("bits", "answers", "said"),
    [
        ("id,bit\n", "a\n1\n", "must have lines, each with bit 0 or 1"),
        ("id,bit\na,2\n", "a\n1\n", "must have lines, each with bit 0 or 1"),
        ("id,bit\na,1\nb,0\n", "a\n1\n", "must have a column for each id"),
        ("id,bit\na,1\nb,0\n", "a,b\n1,\n", "must have a column for each id"),
        ("id,bit\na,1\nb,0\n", "a,b\n1,inf\n", "must be finite numbers"),
        ("id,bit\na,1\nb,0\n", "a,b\n", "must have lines, each of 2 values"),
        ("id,bit\na,1\na,0\n", "a,b\n1,0\n", "every id must be of one bit only"),
    ],
)
def test_malformed_bits_are_named(audit, tmp_path, bits, answers, said):
    """With what is wrong in them."""
    (tmp_path / "bits.csv").write_text(bits)
    (tmp_path / "answers.csv").write_text(answers)
    with pytest.raises(DataError, match=said):
        audit("majority", tmp_path)


def test_json_lines_that_are_none(audit, tmp_path):
    """Of answers: no JSON, too few values."""
    (tmp_path / "bits.csv").write_text("id,bit\na,1\nb,0\n")
    for text, said in (
        ("{", "is no file of JSON lines"),
        (b'{"values": ["\xff"]}', "is no file of JSON lines"),
        ("[" * 100_000, "is no file of JSON lines"),
        ('{"values": [1]}\n', "each of 2 values"),
        ("[]", "line 1: must be an object with values"),
        ('{"values": [1, "x"]}', "line 1: values must be a list of numbers"),
    ):
        (tmp_path / "answers.jsonl").write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(DataError, match=said):
            audit("majority", tmp_path)


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (("trace",), InputError, "must be one of the three"),
        (("majority", "x", "--make", "y"), InputError, "must be one of the three"),
        (("trace", "x", "--miss", 0), InputError, "--miss = 0.0: must be from 1e-09 to below 1"),
        (("trace", "--make", "x", "--seed", "7"), InputError, "--seed = '7': must be 32 hex digits"),
        (("trace", "--make", "x", "--coins", 100_000, "--questions", 100_000), InputError, "must be fewer for 100,000"),
        (
            ("trace", "--ask", "no-such-program-here", "--coins", 8, "--questions", 9),
            InputError,
            "--ask = 'no-such-program-here': must be a program",
        ),
        (("majority", "--ask", "'"), InputError, "must be a program"),
        (("majority", "--ask", ""), InputError, "must be a program"),
        (
            ("trace", "--ask", _program("ends"), "--coins", 8, "--questions", 9),
            SourceError,
            "has (ended|closed its input) before all was",
        ),
        (
            ("trace", "--ask", _program("says", "hello"), "--coins", 8, "--questions", 9),
            SourceError,
            "hello is no answer",
        ),
        (("majority", "--ask", _program("says", '{"values":[1]}'), "--times", 1), SourceError, "must have 2000 values"),
        (
            ("trace", "--ask", _program("shares", -0.5), "--coins", 8, "--questions", 3),
            SourceError,
            "has answered nothing",
        ),
    ],
)
def test_what_cannot_be_done_is_said(audit, arguments, error, said):
    """In one line that names the option or the program."""
    with pytest.raises(error, match=said):
        audit(*arguments)


def test_files_are_not_written_over(audit, tmp_path):
    """What was released may depend on them."""
    assert audit("majority", "--make", tmp_path / "new", "--bits", 10)[0] == 0
    before = (tmp_path / "new" / "bits.csv").read_bytes()
    with pytest.raises(PerpetuaError, match=r"bits\.csv: cannot be written: File exists"):
        audit("majority", "--make", tmp_path / "new", "--bits", 10)
    assert (tmp_path / "new" / "bits.csv").read_bytes() == before
