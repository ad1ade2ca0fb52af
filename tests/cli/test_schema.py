"""`perpetua schema` prints what one model's messages are."""

import json
import subprocess
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.support.folders import command, environment

_MODEL = """
[model]
name = "vfr"
predictor = "classical"
epsilon = 4.0
examples = 40000
[[model.features]]
name = "visib"
bounds = [0.0, 10.0]
"""


@pytest.mark.parametrize(
    ("of", "message"),
    [("query", {"id": "1", "visib": 3.5}), ("answer", {"id": "1", "label": 0, "model": "vfr", "round": 0, "phase": 1})],
)
def test_a_message_is_checked_by_what_is_printed(tmp_path: Path, of: str, message: dict[str, object]) -> None:
    """A query and an answer of the model are valid; with a field of another type they are not."""
    (tmp_path / "model.toml").write_text(_MODEL)
    line = [*command("schema"), str(tmp_path / "model.toml"), "--of", of]
    done = subprocess.run(line, capture_output=True, check=True, env=environment())
    schema = Draft202012Validator(json.loads(done.stdout))
    schema.validate(message)
    assert not schema.is_valid({**message, "id": [1]})
