"""`perpetua skip` on files: what one message stopped goes on, and everything that reads the log understands it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from oracle.accounting.ledger import MessageSkipped, decode
from tests.predictors.plans import planned
from tests.support.folders import command, environment, long_plan, make_state, write_config, write_parquet
from tests.support.poisoned import DEADLY, FAILING, body
from tests.support.shards import bodies, deliveries_of, new_shard, process_in_batches

_AT = 57
"""Number of the poisoned message, from 0."""


def _serve(folder: Path, *, poisoned: bool = True, data: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    line = [sys.executable, "-m", "tests.support.poisoned", "serve"] if poisoned else command("serve")
    return subprocess.run(
        [*line, folder / "c.toml"], input=data, capture_output=True, check=False, timeout=120, env=environment()
    )


def _contents(first: float = FAILING) -> list[bytes]:
    """Return queries of one feature, one of them poisoned."""
    queries = [body(number / 120, name=f"q{number}") for number in range(118)]
    return [*queries[:_AT], body(first), *queries[_AT + 1 :]]


def _expected(contents: list[bytes]) -> list[bytes]:
    """Return the answers to the log in which the poisoned message is none, without that message's own."""
    given = deliveries_of([*contents[:_AT], b"?", *contents[_AT + 1 :]])
    replies = process_in_batches(new_shard(planned()), given).replies
    return [*replies[:_AT], *replies[_AT + 1 :]]


def _check_answers(lines: list[bytes], contents: list[bytes]) -> None:
    refusal = json.loads(lines.pop(_AT))
    assert (refusal["id"], refusal["error"]) == ("poison", "skipped")
    assert lines == _expected(contents)


@pytest.fixture
def stopped(tmp_path: Path) -> tuple[Path, int]:
    """A folder whose daemon stopped at a message, and that message's position."""
    make_state(tmp_path / "state", planned())
    contents = _contents()
    (tmp_path / "q.jsonl").write_bytes(b"".join(line + b"\n" for line in contents))
    write_config(tmp_path, sink={"dead_letter": str(tmp_path / "dead.jsonl")})
    position = sum(len(line) + 1 for line in contents[: _AT + 1])
    result = _serve(tmp_path)
    assert result.returncode == 3, result.stderr
    last = result.stderr.splitlines()[-1].decode()
    assert f"partition 0, position {position}: the message that ends there" in last
    assert f"perpetua skip CONFIG --partition 0 --position {position}" in last
    assert "ZeroDivisionError" in last
    assert b"private" not in result.stderr
    return tmp_path, position


def test_serve_goes_on_behind_a_message_that_was_passed_over(stopped, cli, refused):
    """All others are answered as ever; the one has an error, a dead letter and a ledger event; nothing diverges."""
    folder, position = stopped
    skip = ("skip", folder / "c.toml", "--position", str(position))
    assert "would never be answered" in refused(2, *skip)
    assert "--partition = 1: must be 0" in refused(2, *skip, "--partition", "1", "--yes")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for yes in ([], ["--yes"]):  # without it the position is looked at too
        elsewhere = ("skip", folder / "c.toml", *yes, "--position")
        assert "what was answered cannot be passed over" in refused(2, *elsewhere, "3")
        assert f"the next message ends at {position}" in refused(2, *elsewhere, str(position + 1))
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert cli(*skip, "--yes").code == 0
    assert cli(*skip, "--yes").code == 0  # once more does no harm
    assert cli("check", folder / "c.toml").code == 0
    assert _serve(folder).returncode == 0
    _check_answers((folder / "out.jsonl").read_bytes().splitlines(), _contents())
    (note,) = (folder / "dead.jsonl").read_text().splitlines()
    assert json.loads(note)["error"] == "skipped"
    events = [decode(line) for line in (folder / "ledger.jsonl").read_bytes().splitlines()]
    assert [event for event in events if isinstance(event, MessageSkipped)] == [MessageSkipped(_AT, position)]
    assert cli("status", folder / "state").code == 0
    assert cli("check", folder / "c.toml").code == 0
    assert "was passed over before" in refused(2, *skip)
    verify = ("verify", folder / "q.jsonl", "--from", folder / "state.genesis")
    assert cli(*verify, "--answers", folder / "out.jsonl").out.startswith("identical: 118 messages, 117 rounds")


def test_receipt_of_a_log_with_a_skipped_message_holds(stopped, cli):
    """With the ledger, which names the message, the log leads to the receipt's tag; without it, it does not."""
    folder, position = stopped
    assert cli("skip", folder / "c.toml", "--position", str(position), "--yes").code == 0
    assert _serve(folder).returncode == 0
    assert cli("audit", "sign", folder / "state", "--out", folder / "r").code == 0
    check = (
        "audit",
        "receipt",
        folder / "r",
        "--log",
        folder / "q.jsonl",
        "--genesis",
        folder / "state.genesis",
    )
    assert cli(*check, "--ledger", folder / "ledger.jsonl").code == 0
    assert cli(*check).code != 0


def test_fork_passes_a_message_over(stopped, cli):
    """Another run over the same log can be told to pass the message over too."""
    folder, position = stopped
    fork = ("fork", folder / "q.jsonl", "--from", folder / "state.genesis", "--accept-cost")
    assert cli(*fork, "--out", folder / "f.jsonl", "--skip", str(position)).code == 0
    lines = (folder / "f.jsonl").read_bytes().splitlines()
    assert json.loads(lines[_AT])["error"] == "skipped"
    assert len(lines) == 118


def test_message_that_kills_the_process_is_found_and_passed_over(tmp_path, cli):
    """With one message a batch the daemon dies right behind its last commit, and `check` says where it stands."""
    make_state(tmp_path / "state", planned())
    contents = _contents(DEADLY)
    (tmp_path / "q.jsonl").write_bytes(b"".join(line + b"\n" for line in contents))
    write_config(tmp_path, service={"batch_rows": 1})
    assert _serve(tmp_path).returncode == -9
    ends = sum(len(line) + 1 for line in contents[:_AT])
    assert (
        f"last commit is at position {ends}; the next message ends at {ends + len(contents[_AT]) + 1}"
        in cli("check", tmp_path / "c.toml").out
    )
    assert _serve(tmp_path).returncode == -9
    assert cli("skip", tmp_path / "c.toml", "--position", str(ends + len(contents[_AT]) + 1), "--yes").code == 0
    assert _serve(tmp_path).returncode == 0
    _check_answers((tmp_path / "out.jsonl").read_bytes().splitlines(), contents)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 10])
def test_parquet(tmp_path, cli, rows):
    """A message of a Parquet file, of one row or of several, is named and passed over by the row that it ends with."""
    make_state(tmp_path / "state", long_plan())
    contents = [*bodies(_AT), body(FAILING, 0.5), *bodies(60, seed=2)]
    write_parquet(tmp_path / "q.parquet", contents)
    write_config(
        tmp_path,
        source={"kind": "parquet", "path": str(tmp_path / "q.parquet"), "rows_per_message": rows},
        sink={"kind": "parquet", "path": str(tmp_path / "out.parquet")},
    )
    position = (_AT // rows + 1) * rows
    result = _serve(tmp_path)
    assert result.returncode == 3
    assert f"--position {position}" in result.stderr.decode().splitlines()[-1]
    assert cli("skip", tmp_path / "c.toml", "--position", str(position), "--yes").code == 0
    assert _serve(tmp_path).returncode == 0
    verify = ("verify", tmp_path / "q.parquet", "--from", tmp_path / "state.genesis")
    verdict = cli(*verify, "--answers", tmp_path / "out.parquet").out
    assert verdict.startswith(f"identical: {-(-118 // rows)} messages, {118 - rows} rounds")


@pytest.mark.slow
def test_standard_input(tmp_path, cli):
    """A stream that does not go back is started again; positions are numbers of lines."""
    make_state(tmp_path / "state", planned())
    write_config(
        tmp_path,
        source={"kind": "stdin", "path": None},
        sink={"kind": "stdout", "path": None},
        service={"batch_rows": 1},
    )
    contents = _contents()
    data = b"".join(line + b"\n" for line in contents)
    first = _serve(tmp_path, data=data)
    assert first.returncode == 3
    assert f"--position {_AT + 1}" in first.stderr.decode().splitlines()[-1]
    assert cli("skip", tmp_path / "c.toml", "--position", str(_AT), "--yes").code == 2
    assert cli("skip", tmp_path / "c.toml", "--position", str(_AT + 1), "--yes").code == 0
    second = _serve(tmp_path, data=data)
    assert second.returncode == 0, second.stderr
    _check_answers([*first.stdout.splitlines(), *second.stdout.splitlines()], contents)
