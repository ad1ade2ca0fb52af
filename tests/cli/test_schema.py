"""`perpetua schema` prints what one model's messages are."""

import json
import subprocess
from pathlib import Path

import fastavro
import pytest
from jsonschema import Draft202012Validator

from tests.codec.registered.writing import compiled
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


@pytest.mark.parametrize("of", ["query", "answer"])
def test_avro_and_protobuf_are_read_by_their_own_tools(tmp_path: Path, of: str) -> None:
    """What is printed parses, by the library of the one and the compiler of the other."""
    (tmp_path / "model.toml").write_text(_MODEL)
    line = [*command("schema"), str(tmp_path / "model.toml"), "--of", of, "--format"]
    avro, proto = (
        subprocess.run([*line, form], capture_output=True, check=True, env=environment()).stdout.decode()
        for form in ("avro", "protobuf")
    )
    schema = fastavro.parse_schema(json.loads(avro))
    assert isinstance(schema, dict)
    names = [field["name"] for field in schema["fields"]]
    fields = compiled(proto, tmp_path, of.title()).DESCRIPTOR.fields_by_name
    assert set(fields) - {"id_number"} == set(names)
    assert ("visib" in names) == (of == "query")


def test_questions_have_neither(tmp_path: Path) -> None:
    """They are JSON only, and this is said."""
    table = 'predictor = "distribution"\nepsilon = 1.0\nexamples = 100000000\n'
    (tmp_path / "model.toml").write_text(f'[model]\nname = "d"\n{table}[[model.features]]\nname = "v"\n')
    line = [*command("schema"), str(tmp_path / "model.toml"), "--format", "avro"]
    done = subprocess.run(line, capture_output=True, check=False, env=environment())
    assert done.returncode == 2
    assert b"must be json: questions" in done.stderr
