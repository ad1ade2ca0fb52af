import os
import subprocess
import sys
from pathlib import Path

import oracle

EXAMPLE = Path(__file__).parents[2] / "examples" / "notebook.py"


def test_the_example_runs_as_written(tmp_path):
    """Its ten lines print a score and leave a state that can be loaded."""
    environment = os.environ | {"PYTHONPATH": str(EXAMPLE.parents[1])}
    run = subprocess.run(
        [sys.executable, EXAMPLE], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    )
    right, used = run.stdout.splitlines()
    assert float(right.removeprefix("right: ")) > 0.8
    with oracle.load(tmp_path / "late-flights") as predictor:
        assert used == f"rounds used: {predictor.facts.round} of {predictor.plan.rounds}"
