"""A quick cut of `python -m tests.storms.kafka`, and daemons broken on purpose, which it must find."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.storms.kafka.__main__ import main
from tests.storms.kafka.storm import Settings, storm
from tests.support.broker import Broker

_OTHERS = ("sparse-vector", "distribution", "ensemble")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for all mutants."""
    with Broker(tmp_path_factory.mktemp("chaos") / "broker") as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize(
    "storm_", ["own", "statistics", *(pytest.param(one, marks=pytest.mark.long) for one in _OTHERS)]
)
def test_no_kill_and_no_restart_shows(capsys: pytest.CaptureFixture[str], storm_: str) -> None:
    """Daemons are killed and the broker is restarted: each query has its one answer, and what was paid is told once."""
    code = main(["--kills=4", "--restarts=1", f"--only={storm_}"])
    table = capsys.readouterr().out
    assert code == 0, table
    assert "Every query has one answer" in table


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    ("mutant", "kills", "found"),
    [("drawn noise", 1, "renoised"), ("answers first", 6, "duplicated"), ("offsets first", 6, "lost")],
)
def test_broken_daemons_are_found(broker: Broker, tmp_path: Path, mutant: str, kills: int, found: str) -> None:
    """Noise of a process's own, and answers and offsets in two commits, are broken promises, each of its kind."""
    settings = Settings(mutant.replace(" ", "-"), kills, 0, rate=250.0, seed=1, own_folders=False, mutant=mutant)
    row = storm(broker, tmp_path, settings)
    assert row.kills == kills
    assert getattr(row.verdict, found) > 0
    assert row.verdict.answered + row.verdict.lost == row.queries
