"""kill -9 of a real daemon, over and over: nothing is lost, nothing is twice, nothing changes."""

import json
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from connectors.local.commitfile import DurableCommitFile
from oracle.planning.kinds import KINDS
from oracle.planning.plan import Plan
from tests.support.folders import (
    command,
    environment,
    long_plan,
    make_state,
    perpetua,
    write_config,
    write_log,
    write_parquet,
)
from tests.support.shards import bodies
from tests.support.waiting import TIMEOUT

_COUNT = 4_000
_AT_PROGRESS, _AT_START = 10, 3  # kills in one chain
_SETTINGS = {"state": {"snapshot_rounds": 100}, "service": {"batch_rows": 8}}


def _output_bytes(path: Path) -> int:
    """Return how much output there is, in whatever form."""
    try:
        return sum(part.stat().st_size for part in path.iterdir()) if path.is_dir() else path.stat().st_size
    except FileNotFoundError:
        return 0


def _content(path: Path) -> dict[str, bytes]:
    if path.is_dir():
        return {part.name: part.read_bytes() for part in path.iterdir()}
    return {path.name: path.read_bytes()}


def _kill_when(config: Path, output: Path, *, at_bytes: int | None, after: float) -> bool:
    """Start the daemon, kill it once there is so much output, and `after` seconds more; return whether it served.

    Where this machine was so slow to kill it that it came to its end, it is done again, with the files as they were.
    """
    folder = config.parent
    aside = shutil.copytree(folder, folder.with_name("aside"))
    while (served := _killed(config, output, at_bytes, after)) is None:
        shutil.rmtree(folder)
        shutil.copytree(aside, folder)
    shutil.rmtree(aside)
    return served


def _killed(config: Path, output: Path, at_bytes: int | None, after: float) -> bool | None:
    """Do it once; return None if it came to its end."""
    before = _output_bytes(output)
    with (config.parent / "log").open("ab") as log:
        process = subprocess.Popen(command("serve", config), stderr=log, stdin=subprocess.DEVNULL, env=environment())
    try:
        deadline = time.monotonic() + TIMEOUT
        while at_bytes is not None and _output_bytes(output) < at_bytes and process.poll() is None:
            assert time.monotonic() < deadline, "the daemon does not get on"
            time.sleep(0.0002)
        time.sleep(after)
    finally:
        process.kill()
        process.wait()
    if process.returncode == 0:
        return None
    assert process.returncode == -signal.SIGKILL, (config.parent / "log").read_text()
    return _output_bytes(output) > before


def _phase_ends(plain: Path, total: int) -> list[int]:
    """Return about how much output there is at each phase's end."""
    ends = [
        event["round"] for event in map(json.loads, plain.read_text().splitlines()) if event["kind"] == "phase-ended"
    ]
    return [total * end // _COUNT for end in ends]


def _chain(config: Path, output: Path, targets: list[int], total: int, rng: random.Random) -> int:
    """Kill at each target and now and then while it starts; return how many killed daemons had served."""
    served = 0
    for number, target in enumerate(targets):
        wanted = max(target, _output_bytes(output) + rng.randrange(1, 2_000))
        if wanted >= total:
            break
        served += _kill_when(config, output, at_bytes=wanted, after=rng.choice([0.0, rng.uniform(0, 0.004)]))
        if number % (len(targets) // _AT_START) == 2:
            _kill_when(config, output, at_bytes=None, after=rng.uniform(0.05, 0.4))
    return served


def _case(tmp_path: Path, kind: str, plan: Plan, count: int = _COUNT) -> tuple[Path, Path]:
    """Return two folders with copies of one state folder, and configurations that name one log each."""
    plain, chain = tmp_path / "plain", tmp_path / "chain"
    plain.mkdir()
    genesis = make_state(plain / "state", plan)
    if kind == "jsonl":
        write_log(plain, count, plan=plan)
    else:
        write_parquet(plain / "q.parquet", bodies(count))
    shutil.copytree(plain, chain)
    assert (chain / genesis.name).stat().st_mode & 0o77 == 0
    for folder in (plain, chain):
        files = {} if kind == "jsonl" else {"kind": "parquet"}
        write_config(
            folder,
            state=_SETTINGS["state"],
            service=_SETTINGS["service"],
            source={**files, "path": str(folder / f"q.{kind}"), **({"rows_per_message": 8} if files else {})},
            sink={**files, "path": str(folder / f"out.{kind}")},
        )
    return plain, chain


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "kills"), [("jsonl", _AT_PROGRESS), ("parquet", _AT_PROGRESS // 2)])
def test_killed_again_and_again(tmp_path, kind, kills):
    """Output, ledger and commit record after a chain of kills are, byte for byte, those of one uninterrupted run."""
    rng = random.Random(2024)  # noqa: S311  # moments of crashes, not noise
    plain, chain = _case(tmp_path, kind, long_plan())
    result = perpetua("serve", plain / "c.toml")
    assert result.returncode == 0, result.stderr.decode()
    output = chain / f"out.{kind}"
    total = _output_bytes(plain / f"out.{kind}")
    ends = _phase_ends(plain / "ledger.jsonl", total)
    assert len(ends) >= 10
    share = total * 9 // 10
    targets = sorted([*rng.sample(ends[:-1], kills // 3), *(rng.randrange(share) for _ in range(kills - kills // 3))])
    served = _chain(chain / "c.toml", output, targets, total, rng)
    assert served >= kills * 3 // 4
    result = perpetua("serve", chain / "c.toml")
    assert result.returncode == 0, result.stderr.decode()
    assert _content(output) == _content(plain / output.name)
    assert (chain / "ledger.jsonl").read_bytes() == (plain / "ledger.jsonl").read_bytes()
    left, right = (DurableCommitFile(folder / f"out.{kind}.commit").read() for folder in (plain, chain))
    assert left is not None
    assert left == right
    genesis = chain / "state.genesis"
    verified = perpetua("verify", chain / f"q.{kind}", "--from", genesis, "--answers", output, *_rows(kind))
    assert (verified.returncode, verified.stdout[:10]) == (0, b"identical:"), verified.stderr.decode()
    assert len(list((chain / "state").glob("*.perp"))) == 1
    assert not list(chain.rglob("*.tmp"))


@pytest.mark.parametrize("predictor", KINDS)
def test_every_kind_survives(tmp_path, predictor):
    """Over files, killed twice: the output of each kind is that of one uninterrupted run, and it verifies."""
    count = 1_000
    plain, chain = _case(tmp_path, "jsonl", long_plan(predictor), count)
    assert perpetua("serve", plain / "c.toml").returncode == 0
    total = _output_bytes(plain / "out.jsonl")
    for share in (0.2, 0.6):
        assert _kill_when(chain / "c.toml", chain / "out.jsonl", at_bytes=int(share * total), after=0.0)
    assert perpetua("serve", chain / "c.toml").returncode == 0
    for name in ("out.jsonl", "ledger.jsonl"):
        assert (chain / name).read_bytes() == (plain / name).read_bytes()
    answers = chain / "out.jsonl"
    verified = perpetua("verify", chain / "q.jsonl", "--from", chain / "state.genesis", "--answers", answers)
    assert (verified.returncode, verified.stdout[:10]) == (0, b"identical:"), verified.stderr.decode()
    status = json.loads(perpetua("status", chain / "state", "--json").stdout)
    assert status["round"] > count / 2


def _rows(kind: str) -> list[str]:
    return ["--rows-per-message", "8"] if kind == "parquet" else []


def test_phases_are_many_and_short():
    """Else the kills would hardly meet the end of one."""
    assert len(long_plan().phases) == 16
    assert long_plan().rounds > _COUNT
