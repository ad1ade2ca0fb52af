import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import oracle

EXAMPLES = Path(__file__).parents[2] / "examples"


def _printed(name, folder):
    environment = os.environ | {"PYTHONPATH": str(EXAMPLES.parent)}
    command = [sys.executable, EXAMPLES / name]
    run = subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True)
    return run.stdout.splitlines()


@pytest.mark.slow
def test_the_example_runs_as_written(tmp_path):
    """Its ten lines print a score and leave a state that can be loaded."""
    right, used = _printed("notebook.py", tmp_path)
    assert float(right.removeprefix("right: ")) > 0.8
    with oracle.load(tmp_path / "late-flights") as predictor:
        assert used == f"rounds used: {predictor.facts.round} of {predictor.plan.rounds}"


def test_questions_are_answered_as_written(tmp_path):
    """The carriers' shares and that of the evening are near the true ones, and the state can be loaded."""
    evening, *carriers = _printed("questions.py", tmp_path)
    assert abs(ast.literal_eval(evening.removeprefix("late in the evening: "))["value"] - 0.0557) < 0.01
    assert [ast.literal_eval(one)["carrier"] for one in carriers] == ["AA", "B6", "DL", "EV", "UA", "other", None]
    with oracle.load(tmp_path / "late") as predictor:
        assert predictor.facts.round == 8


def test_quantiles_are_found_as_written(tmp_path):
    """Each is within the promised error of the true one, of minutes and of texts, and the states can be loaded."""
    on_time, *quantiles, airbus, middle = _printed("distributions.py", tmp_path)
    assert abs(ast.literal_eval(on_time.removeprefix("on time: "))["value"] - 0.5938) < 0.02
    found = [ast.literal_eval(one)["quantile"] for one in quantiles]
    for value, low, high in zip(found, (-28, -18, -6, 12, 46), (-23, -15, -3, 18, 62), strict=True):
        assert low <= value <= high
    assert abs(float(airbus.removeprefix("Airbus: ")) - 0.3137) < 0.04
    assert ast.literal_eval(middle.split(": ", 1)[1])["quantile"].startswith("A3")
    for name, rounds in (("delays", 6), ("models", 3)):
        with oracle.load(tmp_path / name) as predictor:
            assert predictor.facts.round == rounds
