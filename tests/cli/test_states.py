"""What a shard on files is, told alike everywhere: serving, unable to save, and serving again."""

import time
from pathlib import Path

import pytest

from tests.support.agreement import Told
from tests.support.folders import command, long_plan, make_state, write_config
from tests.support.served import Served
from tests.support.shards import bodies

_SECONDS = 60.0


class _Followed(Served):
    """A model whose daemon follows a file."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.plan, self.processes = folder, long_plan(), []
        make_state(folder / "state", self.plan)
        self.queries, self.answers = folder / "q.jsonl", folder / "out.jsonl"
        self.queries.touch()
        source = {"kind": "jsonl", "path": str(self.queries), "follow": True}
        state = {"folder": str(folder / "state"), "snapshot_rounds": 5}
        config = write_config(folder, source=source, state=state, service={"log": "json"}, web={"port": 0})
        self.process = self.start(command("serve", config), "serve.log")

    def ask(self, count: int, answered: int) -> None:
        """Ask, and wait until so many are answered in all."""
        with self.queries.open("ab") as file:
            file.write(b"".join(body + b"\n" for body in bodies(count)))
        deadline = time.monotonic() + _SECONDS
        while not self.answers.exists() or self.answers.read_bytes().count(b"\n") < answered:
            assert time.monotonic() < deadline, self.log()[-5:]
            time.sleep(0.05)


@pytest.fixture
def followed(tmp_path):
    """A model that is served; killed at the end."""
    made = _Followed(tmp_path)
    yield made
    made.end()


@pytest.mark.slow
def test_drill_snapshots_that_fail_while_it_answers(followed):
    """Its state folder is gone for a while: it answers, says that it cannot save, and is well again afterwards."""
    told = Told(followed)
    told.becomes("serving")
    state, away = followed.folder / "state", followed.folder / "away"
    for times in range(1, 3):
        state.rename(away)
        followed.ask(20, 20 * times)
        assert {reason["check"] for reason in told.becomes("degraded")} == {"folder"}
        away.rename(state)
        told.becomes("serving")
    assert "snapshot.failed" in followed.events()
