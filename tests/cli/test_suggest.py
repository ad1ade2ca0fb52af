import io
import resource
import subprocess

import msgspec
import pytest

from oracle.cli.progress import Progress
from tests.support.folders import command, environment

_LINES = 3


@pytest.mark.slow
def test_the_table_shows_what_the_rows_buy(cli, model):
    """Predictors, slicings and sides with the least of each figure, and in words what is out of reach."""
    result = cli("suggest", model())
    assert result.code == 0
    assert all(line.startswith("suggesting: ") for line in result.err.splitlines())
    words: tuple[str, ...]
    words = ("interval: what 6,000 rows buy", "epsilon at alpha = 0.4", "alpha at epsilon = 8", "rows for both")
    words += ("rectangles", "sequential", "stumps", "classical box", "whole", "classical stump", "enough")
    assert [word for word in words if word not in result.out] == []
    few = cli("suggest", model(), "--rows", "300").out
    assert "what 300 rows buy" in few
    assert "none to 0.5" in few
    assert "rectangles faces: not even at epsilon 50 at alpha 0.4; at epsilon 8" in few
    assert "the rows buy no side" in few
    assert "rectangles faces: not below epsilon" in cli("suggest", model(), "--rows", "2000").out


@pytest.mark.slow
def test_brackets_are_shown(cli, model):
    """Neither a message nor a feature's name is taken for markup."""
    path = model()
    path.write_text(path.read_text().replace("bounds = [0.0, 1.0]\n", "").replace('name = "a"', 'name = "speed [m]"'))
    assert "must be declared as [low, high] for slicing" in cli("suggest", path).out
    assert "speed [m]:lower" in cli("plan", path).out


def test_its_json_has_figures_that_plan_accepts(cli, model):
    """Each figure of the model's own line, written into the model file, makes a plan."""
    path = model(3_000)
    found = msgspec.json.decode(cli("suggest", path, "--json").out)
    assert (found["examples"], found["epsilon"], found["alpha"]) == (3_000, 8.0, 0.4)
    own = found["offers"][0]
    assert (own["predictor"], own["slicing"], own["sides"]) == ("rectangles", "faces", ["a:lower", "a:upper"])
    text = path.read_text()
    for old, new in (
        ("examples = 3000", f"examples = {own['examples']}"),
        ("epsilon = 8.0", f"epsilon = {own['epsilon']}"),
    ):
        path.write_text(text.replace(old, new, 1))
        assert cli("plan", path).code == 0


@pytest.mark.parametrize("rows", ["0", "-5"])
def test_rows_out_of_range(refused, model, rows):
    """They are refused with the range that a model file has."""
    assert refused(2, "suggest", model(), "--rows", rows).startswith(f"--rows = {rows}: must be from 1")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "refusal"),
    [
        ("examples = 6000", "examples = 600", "too few training examples for this model"),
        ("epsilon = 8.0", "epsilon = 0.06", "too small; the noise would be wider"),
        ("epsilon = 8.0", "epsilon = 0.001", "must be from 0.05 to 50"),
        ("alpha = 0.4", "alpha = 0.001", "too few training examples for this model"),
        ("alpha = 0.4", "alpha = 0.6", "must be from 1e-06 to 0.5"),
        ("alpha = 0.4", "alpha = 0.0000001", "must be from 1e-06 to 0.5"),
    ],
)
def test_a_refusal_of_plan_ends_with_the_best_three(cli, model, old, new, refusal):
    """After the sentence come three lines of what the rows buy: the model's own, the classical one."""
    path = model()
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    result = cli("plan", path)
    assert result.code == 2
    first, head, *lines = [line for line in result.err.splitlines() if not line.startswith("planning: ")]
    assert first.startswith("perpetua: model.")
    assert refusal in first
    assert head.endswith("rows buy (`perpetua suggest` shows more):")
    assert len(lines) == _LINES
    assert lines[0].startswith("  rectangles, faces, 2 sides: ")
    assert any(line.startswith("  classical box, faces, 2 sides: ") for line in lines)


def test_many_sides_do_not_take_minutes(tmp_path):
    """Seconds of a processor, at an epsilon whose tables are large: about 7, and thrice that on a busy machine."""
    columns = "".join(f'[[model.features]]\nname = "f{number}"\nbounds = [0.0, 1.0]\n' for number in range(40))
    head = '[model]\nname = "wide"\npredictor = "rectangles"\nepsilon = 0.4\nexamples = 3000000\n'
    (tmp_path / "model.toml").write_text(head + columns)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command("suggest", tmp_path / "model.toml"), env=environment(), capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime < 30.0


class _Clock:
    """Seconds that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def _shown(*moments):
    """Return the lines that are shown of 90 steps, given (seconds, steps done)."""
    stream, clock = io.StringIO(), _Clock()
    with Progress("planning", 90, "steps", stream, clock) as progress:
        for clock.now, done in moments:
            progress.at(done)
    return stream.getvalue().splitlines()


def test_what_came_before_the_first_step_is_not_taken_for_its_pace():
    """13.8 seconds of loading libraries, then 0.5 seconds a step: no "1226 s left", and the truth once it is known."""
    lines = _shown((13.8, 1), *((13.8 + 0.5 * step, 1 + step) for step in range(1, 60)))
    assert lines[0] == "planning: 1 of 90 steps"
    assert lines[1].startswith("planning: 11 of 90 steps, about 40 s left")
    assert len(lines) > 2


def test_a_pace_is_said_after_a_tenth_of_the_work():
    """One slow step says nothing of the others."""
    lines = _shown((0.0, 0), (6.0, 1), (12.0, 2), (13.0, 20), (18.0, 45))
    assert lines[:2] == ["planning: 1 of 90 steps", "planning: 2 of 90 steps"]
    assert lines[2] == "planning: 45 of 90 steps, about 18 s left"


_ENSEMBLE = """\
[model]
name = "late"
predictor = "ensemble"
learner = "sklearn.tree.DecisionTreeClassifier"
examples = 14000
epsilon = 1.0
{setting}
[[model.features]]
name = "a"
"""


def _ensemble(tmp_path, setting):
    path = tmp_path / "late.toml"
    path.write_text(_ENSEMBLE.format(setting=setting))
    return path


@pytest.mark.slow
def test_an_ensemble_is_refused_once_and_not_told_of_figures_that_are_none(cli, tmp_path):
    """No rows a teacher have a plan; where some have, the table says all of it."""
    none = cli("suggest", _ensemble(tmp_path, "contested = 0.5")).out
    assert none.count("no number of examples is enough") == 1
    assert "None of these has a plan" in none
    assert "Put any of these figures" not in none
    some = cli("suggest", _ensemble(tmp_path, "contested = 0.03")).out
    assert "Put any of these figures" in some
    assert "not below epsilon" not in some


@pytest.mark.slow
def test_plan_refuses_an_ensemble_with_what_its_rows_go_by(cli, tmp_path):
    """Too few rows: for which `contested`; a class too rare: once."""
    few = cli("plan", _ensemble(tmp_path, "contested = 0.1"))
    assert few.code == 2
    assert "would be enough with contested = 0.1, declared or assumed" in few.err
    rare = cli("plan", _ensemble(tmp_path, "shares = [0.97, 0.03]"))
    assert rare.code == 2
    assert rare.err.count("most teachers of 25 have none") == 1
