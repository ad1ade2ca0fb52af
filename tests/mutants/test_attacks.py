"""What an audit of a tree with a fault comes to, and what is kept of it."""

from pathlib import Path

import pytest

from oracle.audit.report.score import HELD_OUT, SCORES, read_scores, score_in_words
from tests.mutants import scored
from tests.mutants.attacks import Verdict, audited
from tests.mutants.mutants import LISTS, Mutant

_COMMAND = """
import pathlib, sys, time
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
out.mkdir()
check = '{{"kind": "check", "cell": "{cell}", "target": "", "name": "", "passed": {passed}, "says": "", "seconds": 0}}'
{does}
"""
_KEPT = '(out / \'audit.jsonl\').write_text(\'{"version": ""}\\n{"results": [\' + check + \']}\\n{"resu\')'
_REPORT = "(out / 'audit.json').write_text('{\"refuted\": []}')"


def _tree(folder: Path, does: str, passed: str = "false") -> Path:
    """Return a tree whose `perpetua audit` does this."""
    command = folder / "oracle" / "cli" / "__main__.py"
    command.parent.mkdir(parents=True)
    for package in command.parents[:2]:
        (package / "__init__.py").touch()
    command.write_text(_COMMAND.format(cell="the first", passed=passed, does=does))
    return folder


@pytest.mark.parametrize(
    ("does", "passed", "found"),
    [
        (f"{_KEPT}; time.sleep(600)", "false", "the first"),
        (f"{_KEPT}; sys.exit(1)", "false", "the first"),
        (f"{_KEPT}; {_REPORT}", "true", ""),
        (f"{_REPORT}; sys.exit(1)", "true", ""),
    ],
    ids=["at once", "at its end", "sound", "could not tell"],
)
def test_what_is_refuted_first_is_what_found_it(tmp_path, does, passed, found):
    """An audit is stopped there; one that could not tell found nothing."""
    verdict = audited(_tree(tmp_path, does, passed), ["timing"], 64, 600.0)
    assert (verdict.outcome, verdict.check) == ("found" if found else "missed", found)


@pytest.mark.parametrize(
    ("does", "status"),
    [("raise ValueError", 1), ("sys.exit(1)", 1), ("sys.exit(3)", 3), (f"{_REPORT}; sys.exit(3)", 3)],
    ids=["a traceback", "no report", "another status", "another status behind a report"],
)
def test_an_audit_that_ends_with_an_error_has_found_nothing(tmp_path, does, status):
    """It is told apart: something is wrong, but no check says what."""
    verdict = audited(_tree(tmp_path, does), ["timing"], 64, 600.0)
    assert (verdict.outcome, verdict.check) == ("broken", f"the audit, which ends with an error (exit status {status})")


def test_a_check_that_refutes_before_an_error_has_found_it(tmp_path):
    """What was refuted before the end counts."""
    assert audited(_tree(tmp_path, f"{_KEPT}; raise ValueError"), ["timing"], 64, 600.0).outcome == "found"


def test_an_audit_that_takes_too_long_is_given_up(tmp_path):
    """What is left of it counts as missed."""
    assert audited(_tree(tmp_path, "time.sleep(600)"), ["timing"], 64, 0.1).outcome == "missed"


def test_a_score_is_kept_unless_fewer_are_found(tmp_path, monkeypatch):
    """It tells the kinds of what was missed, and how many of each, and no names."""
    kept = tmp_path / "scores.json"
    kept.write_text("{}")
    for module in ("oracle.audit.report.score", "tests.mutants.scored"):
        monkeypatch.setattr(f"{module}.SCORES", kept)
    mutants = [Mutant(f"name {kind}", "", "", "", kind=kind) for kind in ("restore", "re-arm", "re-arm", "trim")]
    some, all_ = (
        [Verdict(one, "", 0.0) for one in outcomes]
        for outcomes in (("found", "missed", "missed", "missed"), ("found",) * 4)
    )
    assert scored.write_score(HELD_OUT, mutants, some)
    assert "1 of 4 planted faults" in score_in_words()
    assert score_in_words().endswith("Missed, by kind: re-arm (2), trim (1).")
    assert "name" not in kept.read_text()
    broken = [Verdict(one, "", 0.0) for one in ("found", "broken", "missed", "missed")]
    assert scored.write_score(HELD_OUT, mutants, broken)
    assert "1 of 4 planted faults" in score_in_words()
    assert score_in_words().endswith("At 1 more it ended with an error. Missed, by kind: re-arm (1), trim (1).")
    assert scored.write_score(HELD_OUT, mutants, all_)
    assert not scored.write_score(HELD_OUT, mutants, some)
    assert "4 of 4" in score_in_words()


def test_the_score_that_is_kept_is_of_the_lists_there_are():
    """It is read by the report, and says when it was tried."""
    assert SCORES.is_file()
    assert set(read_scores()) == {"privacy", HELD_OUT} <= set(LISTS)
