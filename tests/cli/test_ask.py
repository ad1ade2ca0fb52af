"""`perpetua ask` on files: a followed log gets one more line, and the line that answers it is printed."""

import concurrent.futures
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.folders import command, environment, long_plan, make_state, perpetua, write_config, write_log

_TOKENS = {"tokens_file": "tokens", "port": 0}
_QUERY = '{"id": "mine",\n "x": [0.5, 0.5]}'


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[Path]:
    """A configuration whose log of 60 lines is followed by a daemon."""
    make_state(tmp_path / "state", long_plan())
    write_log(tmp_path, 60)
    config = write_config(tmp_path, source={"follow": True})
    with subprocess.Popen(command("serve", config), env=environment()) as daemon:
        yield config
        daemon.terminate()


def test_query_is_appended_and_its_answer_printed(followed: Path):
    """It is on one line behind the others; of several askers each gets the answer to its own query."""
    asked = perpetua("ask", followed, _QUERY)
    assert asked.returncode == 0, asked.stderr
    out = followed.parent / "out.jsonl"
    assert out.read_bytes().splitlines()[60] == asked.stdout.rstrip(b"\n")
    assert json.loads(asked.stdout)["id"] == "mine"
    names = [f"a{number}" for number in range(4)]
    with concurrent.futures.ThreadPoolExecutor(4) as askers:
        found = askers.map(lambda name: perpetua("ask", followed, json.dumps({"id": name, "x": [0.5, 0.5]})), names)
    assert [json.loads(one.stdout)["id"] for one in found] == names
    rejected = perpetua("ask", followed, '{"x": [1]}')
    assert (rejected.returncode, json.loads(rejected.stdout)["error"]) == (2, "wrong-dimension")
    assert len(out.read_bytes().splitlines()) == 66


def test_half_a_line_is_left_alone(tmp_path: Path):
    """Where somebody is writing a line, nothing is put behind it."""
    config = write_config(tmp_path, source={"follow": True})
    (tmp_path / "q.jsonl").write_bytes(b'{"x"')
    refused = perpetua("ask", config, _QUERY)
    assert (refused.returncode, b"its last line has no newline" in refused.stderr) == (2, True)
    assert (tmp_path / "q.jsonl").read_bytes() == b'{"x"'


@pytest.mark.parametrize(
    ("arguments", "tables", "said"),
    [
        ([_QUERY], {}, "put the query into the source before `perpetua serve`"),
        ([_QUERY], {"source": {"kind": "stdin", "path": None}}, "no daemon waits for queries elsewhere"),
        (
            [_QUERY],
            {"source": {"follow": True}, "sink": {"kind": "stdout", "path": None}},
            "sink.kind = 'stdout': must be \"jsonl\"",
        ),
        (
            [_QUERY],
            {"source": {"kind": "http", "path": None}, "sink": {"kind": "http", "path": None}, "http": _TOKENS},
            "http.port = 0: must be one that is known",
        ),
        ([_QUERY, "--partition", "0"], {"source": {"follow": True}}, "only Kafka has partitions"),
        ([_QUERY, "--reply-topic", "a"], {"source": {"follow": True}}, "only Kafka and MQTT have topics"),
        (["[]"], {"source": {"follow": True}}, "QUERY: must be one JSON object"),
    ],
)
def test_refusals(tmp_path: Path, arguments, tables, said):
    """What nobody would answer is refused, and nothing is written."""
    config = write_config(tmp_path, **tables)
    (tmp_path / "q.jsonl").write_bytes(b"")
    refused = perpetua("ask", config, *arguments)
    assert refused.returncode == 2
    assert said in refused.stderr.decode()
    assert (tmp_path / "q.jsonl").read_bytes() == b""


def test_no_daemon(tmp_path: Path):
    """It says that nobody has answered in time; the query stands in the log."""
    config = write_config(tmp_path, source={"follow": True})
    (tmp_path / "q.jsonl").write_bytes(b"")
    late = perpetua("ask", config, _QUERY, "--timeout", "0.5")
    assert (late.returncode, b"no answer within 0.5 s" in late.stderr) == (5, True)
    assert json.loads((tmp_path / "q.jsonl").read_bytes())["id"] == "mine"
    (tmp_path / "q.jsonl").unlink()
    missing = perpetua("ask", config, _QUERY)
    assert (missing.returncode, b"cannot be used" in missing.stderr) == (4, True)
