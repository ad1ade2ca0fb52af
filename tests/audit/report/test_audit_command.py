"""`perpetua audit` itself: its table, its JSON, its page, and going on where it was broken off."""

import json
import re
from html.parser import HTMLParser

import pytest
from typer.testing import CliRunner

from oracle.audit import software
from oracle.audit.findings import Check, Finding, near, near_predictors, outcome, refuted, untold, verdict
from oracle.audit.report.contents import Report, Scope, make_report
from oracle.audit.report.page import page
from oracle.audit.runner import Settings
from oracle.cli.main import app
from oracle.errors import InputError
from tests.audit.planted.mutants import planted

_PARTS = ("--only", "structure|classical box, one side|a", "--only", "boxes, one side|twins|4")
_QUICK = ("audit", *_PARTS, "--games", "64", "--workers", "1")


@pytest.fixture
def runner(monkeypatch):
    """Return what runs the command in this process."""
    monkeypatch.setenv("COLUMNS", "200")
    return CliRunner()


def test_it_prints_a_table_and_a_verdict(runner):
    """Nothing is refuted, and every part has its line."""
    result = runner.invoke(app, [*_QUICK])
    assert result.exit_code == 0, result.output
    assert "No claim was refuted" in result.output
    assert "twins" in result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("NO FAULT FOUND IN A PART")
    assert lines[-1] == lines[0]
    part = next(line.split()[4:] for line in lines if line.startswith("  classical box, one side "))
    assert (int(part[0]) >= 1, part[1:]) == (True, [part[0], "0", "0"])


def test_json_holds_every_figure(runner):
    """Every finding has its claim, its bound, its counts and the confidence."""
    result = runner.invoke(app, [*_QUICK, "--json", "--seed", "0" * 32, "--miss", "0.01"])
    report = json.loads(result.stdout)
    assert report["refuted"] == []
    assert (report["seed"], report["miss"]) == ("0" * 32, 0.01)
    game = next(one for one in report["results"] if one["kind"] == "game")
    assert game["epsilon"] == 4.0
    assert game["games"] == 48
    assert 0.0 <= game["lowest"] <= 4.0
    assert game["miss"] == pytest.approx(0.01)  # the only part that may be wrong by chance
    assert game["lowest"] < game["ceiling"] < 4.0


def test_a_broken_part_makes_it_fail(runner):
    """With a planted bug it exits with 1 and names the check."""
    with planted("key not ratcheted"):
        result = runner.invoke(app, [*_QUICK])
    assert result.exit_code == 1
    assert "FAILS" in result.output
    assert "parts failed: structure|" in result.output


def test_it_goes_on_where_it_was_broken_off(runner, tmp_path, monkeypatch):
    """What is done is not done again, torn lines are let be; a folder of another audit or software is refused."""
    out = ("--out", str(tmp_path))
    assert runner.invoke(app, [*_QUICK, *out]).exit_code == 0
    kept = tmp_path / "audit.jsonl"
    lines = kept.read_bytes().splitlines(keepends=True)
    first = json.loads((tmp_path / "audit.json").read_bytes())
    last = next(line for line in lines[1:] if b"twins" in line)
    done = [line for line in lines if line != last]
    with planted("key not ratcheted"):  # what is kept is not run again, or it would fail here
        kept.write_bytes(b"".join(done))
        assert runner.invoke(app, [*_QUICK, *out]).exit_code == 0
    kept.write_bytes(b"".join(lines[:3]) + lines[3][:20])
    assert runner.invoke(app, [*_QUICK, *out]).exit_code == 0
    again = json.loads((tmp_path / "audit.json").read_bytes())
    for report in (first, again):
        report.pop("made")
        for one in report["results"]:
            one.pop("seconds")
    assert again == first
    kept.write_bytes(b"".join(lines[:3]))
    other = runner.invoke(app, [*_QUICK, *out, "--miss", "0.5"])
    assert other.exit_code != 0
    assert "other settings" in str(other.exception)
    monkeypatch.setattr(software, "fingerprint", lambda: "another")
    other = runner.invoke(app, [*_QUICK, *out])
    assert other.exit_code != 0
    assert "of other software than this" in str(other.exception)


def test_a_complete_audit_is_not_taken_for_the_next_one(runner, tmp_path):
    """What was found of the software as it was then is put aside: it says nothing of the software as it is now."""
    out = ("--out", str(tmp_path))
    assert runner.invoke(app, [*_QUICK, *out]).exit_code == 0
    with planted("key not ratcheted"):
        assert runner.invoke(app, [*_QUICK, *out]).exit_code == 1
    assert {path.name for path in tmp_path.glob("*.old")} == {"audit.jsonl.old", "audit.html.old", "audit.json.old"}


def test_an_audit_without_its_report_is_not_complete(runner, tmp_path):
    """Where it ended between the last part and the report, the report is written of what is kept."""
    out = ("--out", str(tmp_path))
    assert runner.invoke(app, [*_QUICK, *out]).exit_code == 0
    kept, report = (tmp_path / "audit.jsonl").read_bytes(), json.loads((tmp_path / "audit.json").read_bytes())
    (tmp_path / "audit.json").unlink()
    assert runner.invoke(app, [*_QUICK, *out]).exit_code == 0
    assert (tmp_path / "audit.jsonl").read_bytes() == kept
    assert json.loads((tmp_path / "audit.json").read_bytes()) | {"made": report["made"]} == report


def test_what_could_not_have_failed_is_told(runner, tmp_path):
    """Attacks with too few games to refute are counted, what was not done is not praised; brackets are no markup."""
    result = runner.invoke(
        app,
        [
            "audit",
            "--only",
            "twins",
            "--games",
            "64",
            "--epsilon",
            "4",
            "--workers",
            "1",
            "--out",
            str(tmp_path / "x[/b]y"),
        ],
    )
    assert result.exit_code == 0, result.output
    assert "No claim was refuted; nothing was checked. 5 of 7 attacks had too few games" in result.output
    assert "x[/b]y/audit.html" in result.output
    told = outcome([finding(cell="one", ceiling=1.9), finding()])
    assert told.endswith("1 of 2 attacks had too few games to refute their claim, whatever they saw (one).")
    assert outcome([Check(cell="c", target="t", name="n", passed=True, says="s", seconds=0.1)]).startswith(
        "Every check"
    )


class Reader(HTMLParser):
    """Collects what a page would fetch, and checks that tags close."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember the tag and whatever it refers to."""
        self.tags.append(tag)
        self.links += [str(value) for name, value in attrs if name in {"src", "href", "xlink:href"}]


def finding(**fields: object) -> Finding:
    """Return a finding."""
    usual: dict[str, object] = {
        "cell": "a cell", "level": "predictor", "target": "boxes", "adversary": "edge <hammer>",
        "record": "training row", "epsilon": 2.0, "delta": 0.01, "nominal": False, "games": 100, "aims": 2,
        "aim": "edge", "limit": 3.0, "likelier": 50,
        "rarer": 10, "lowest": 0.9, "estimate": 1.6, "highest": None, "ceiling": 2.5, "miss": 1e-3, "seconds": 1.0,
    }  # fmt: skip
    return Finding(**{**usual, **fields})  # type: ignore[arg-type]  # as written above


def report(results: list[Finding | Check]) -> Report:
    """Return the report of an audit that ended."""
    settings = Settings(version="1", software="ab", seed="00", miss=1e-3, jobs=())
    return make_report(results, settings, Scope(attacked=("toys",), left_out=("more",)))


def test_the_page_needs_nothing_else():
    """One file with plots inside, no script, nothing fetched, and names escaped."""
    check = Check(cell="c", target="boxes", name="a & b", passed=False, says="seen <it>", seconds=0.1)
    text = page(report([finding(), finding(lowest=2.5, estimate=None), check]))
    reader = Reader()
    reader.feed(text)
    assert reader.links == []
    assert "script" not in reader.tags
    assert reader.tags.count("svg") == 1
    assert reader.tags.count("circle") == 2
    assert "url(" not in text
    assert "edge &lt;hammer&gt;" in text
    assert "seen &lt;it&gt;" in text
    assert "2 of 3 parts failed" in text
    numbers = [float(value) for value in re.findall(r"cx=([0-9.]+)", text)]
    assert 330 < numbers[0] < numbers[1] < 860


def test_what_could_not_tell_is_no_refutation():
    """It has not passed, and nothing is said against what must hold."""
    check = Check(cell="timing|x", target="t", name="n", passed=False, unsure=True, says="could not tell", seconds=0.1)
    assert (refuted([check]), untold([check]), verdict(check)) == ([], [check], "could not tell")
    text = page(report([finding(), check]))
    assert "No claim was refuted, but 1 of 1 checks could not tell: timing|x" in text
    assert "<td class='bad'>could not tell" in text


def test_what_counts_as_refuted():
    """A bound above its claim, and a check that fails; nominal claims do not count as near."""
    good, bad = finding(), finding(lowest=2.01)
    assert refuted([good, bad]) == [bad]
    assert near([good, finding(lowest=0.5)]) == {"predictor": pytest.approx(2.0 / 0.9)}
    assert near([finding(nominal=True), finding(level="daemon")]) == {}
    by_predictor = near_predictors([good, finding(target="stumps", lowest=0.0), finding(level="stopper")])
    assert by_predictor == {"boxes": pytest.approx(2.0 / 0.9), "stumps": float("inf")}


@pytest.mark.parametrize(
    "option",
    [("--games", "100"), ("--only", "twins"), ("--epsilon", "2"), ("--miss", "0.01"), ("--daemon-games", "16")],
)
@pytest.mark.parametrize("own", ["--plan", "--state"])
def test_options_of_games_are_refused_where_none_is_played(runner, tmp_path, own, option):
    """They name themselves, before anything is read."""
    result = runner.invoke(app, ["audit", own, str(tmp_path / "none"), *option])
    assert result.exit_code != 0
    assert str(result.exception).startswith(option[0])


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["--games", "3"], "--games"),
        (["--miss", "0"], "--miss"),
        (["--miss", "1e-13"], "--miss"),
        (["--epsilon", "99"], "--epsilon"),
        (["--seed", "xyz"], "--seed"),
        (["--only", "nobody"], "--only"),
        (["--daemon-games", "3"], "--daemon-games"),
    ],
)
def test_bad_settings_are_named(runner, arguments, field):
    """Each is refused with its name and bound."""
    result = runner.invoke(app, ["audit", *arguments])
    assert result.exit_code != 0
    assert field in str(result.exception)


def test_each_part_that_is_asked_for_is_there():
    """A name that is misspelt beside a right one would leave its parts out without a word."""
    result = CliRunner().invoke(app, ["audit", "--only", "structure", "--only", "timings"])
    assert isinstance(result.exception, InputError)
    assert "--only = 'timings'" in str(result.exception)
