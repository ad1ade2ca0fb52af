"""The command line within this process, which is quicker than one of its own."""

import functools
import hashlib
import itertools
import os
import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from oracle.cli.main import run as run_line
from oracle.planning.boxes.tight import plan_boxes
from oracle.planning.kinds import KINDS
from tests.support.checked import make_ready
from tests.support.folders import long_plan, make_state, write_config, write_log

_MODEL = """
[model]
name = "interval"
predictor = "rectangles"
epsilon = 8.0
alpha = 0.4
examples = {examples}
first_share = 0.5

[[model.features]]
name = "a"
bounds = [0.0, 1.0]
"""


class Result(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def same_keys(monkeypatch, request) -> None:
    """Draw the same keys, salts and nonces in every run of a test: what noise may rarely do fails always or never."""
    calls = itertools.count()
    name = request.node.nodeid

    def token_bytes(count: int = 32) -> bytes:
        return hashlib.shake_256(f"{name} {next(calls)}".encode()).digest(count)

    monkeypatch.setattr(secrets, "token_bytes", token_bytes)


@pytest.fixture
def cli(monkeypatch, capsys) -> Callable[..., Result]:
    """Return a function that runs `perpetua` with its arguments."""
    for name in list(os.environ):
        if name.startswith("PERPETUA_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str | Path) -> Result:
        monkeypatch.setattr("sys.argv", ["perpetua", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            run_line()  # `main` would close the memory of the tests' own process
        out, err = capsys.readouterr()
        assert isinstance(caught.value.code, int)
        return Result(caught.value.code, out, err)

    return run


@pytest.fixture
def refused(cli) -> Callable[..., str]:
    """Return a function that runs a command that must fail with one clear line, and returns the line."""

    def run(code: int, *arguments: str | Path) -> str:
        result = cli(*arguments)
        assert result.code == code, result
        lines = [line for line in result.err.splitlines() if not line.startswith("20")]  # the daemon's log lines
        assert len(lines) == 1, result.err
        assert lines[0].startswith("perpetua: ")
        assert "Traceback" not in result.err
        assert "internal error" not in result.err
        return str(lines[0].removeprefix("perpetua: "))

    return run


@pytest.fixture
def model(tmp_path: Path) -> Callable[[int], Path]:
    """Return a function that writes a model file of an interval, whose plan takes 3,000-odd examples."""

    def write(examples: int = 6_000) -> Path:
        path = tmp_path / f"model-{examples}.toml"
        path.write_text(_MODEL.format(examples=examples))
        return path

    return write


_plan_once = functools.cache(plan_boxes)


@pytest.fixture
def planned_once(monkeypatch) -> None:
    """Plan each model once a session: the planner takes more than a second."""
    profiles = KINDS["rectangles"].profiles
    once = replace(profiles["tight"], plan=lambda model, _progress: _plan_once(model))
    monkeypatch.setitem(profiles, "tight", once)


@pytest.fixture
def served(tmp_path: Path, cli) -> Path:
    """Return a folder with state, genesis, log, configuration, and what `serve` wrote."""
    make_state(tmp_path / "state", long_plan())
    write_log(tmp_path, 700)
    result = cli("serve", write_config(tmp_path, service={"batch_rows": 100}))
    assert result.code == 0
    return tmp_path


@pytest.fixture
def ready(tmp_path: Path) -> Path:
    """A folder with a state that `check` passes."""
    return make_ready(tmp_path)
