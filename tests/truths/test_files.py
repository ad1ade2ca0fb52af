"""`perpetua truth` on files, from the model file on: what it tells, refuses, and keeps when it is killed."""

import asyncio
import io
import json
import os
import re
import signal
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import replace

import msgspec
import pytest

from oracle.cli.main import run
from oracle.codec.json.truths import TruthCodec
from oracle.config.daemon import load_config
from oracle.config.web import WebConfig
from oracle.errors import PerpetuaError, StateError
from oracle.hosting.truths import count_truths, open_truths
from oracle.mechanisms.truth import NoisyPeriod
from oracle.planning.kinds import decode_plan
from oracle.planning.model import Truth
from oracle.runtime.truths.tally import Tally
from oracle.state.keys import read_key_file
from oracle.state.truths import TruthFile, held_truths, truth_secret
from oracle.telemetry.collector import TruthCollector
from oracle.telemetry.log import PublicLog
from oracle.telemetry.metrics import Format, encode
from oracle.telemetry.truths import TruthTelemetry
from oracle.web.truths import truths_beside
from tests.support.folders import command, environment, long_plan, make_state, perpetua, write_config, write_log
from tests.support.monitored import TRUTH_METRICS
from tests.truths.logs import MemoryLog, counted

_TRUTH = Truth(epsilon=0.5, rounds=40, lag=20)
_SECRET = "7318524176"  # noqa: S105 -- no password


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Return a folder with a state, its queries and its answers."""
    folder = tmp_path_factory.mktemp("served")
    make_state(folder / "state", msgspec.structs.replace(long_plan(), truth=_TRUTH))
    write_log(folder, 1500)
    config = write_config(folder)
    done = perpetua("serve", config)
    assert done.returncode == 0, done.stderr
    return folder


def _truths(served, flipped=0):
    """Return a true label for every answer, some of them wrong, `flipped` of these more than there were."""
    for line in (served / "out.jsonl").read_bytes().splitlines():
        told = json.loads(line)
        if told.get("label") is not None:
            wrong = told["round"] % 7 == 0 or told["round"] % 7 < flipped
            yield json.dumps({"id": told["id"], "round": told["round"], "label": told["label"] ^ wrong}).encode()


def _config(served, folder, truths, **truth):
    """Return a configuration of what counts these labels, with its own state in `folder`."""
    folder.mkdir()
    (folder / "truths.jsonl").write_bytes(b"".join(line + b"\n" for line in truths))
    table = {"folder": str(folder / "kept"), "path": str(folder / "truths.jsonl"), **truth}
    return write_config(served, name=f"{folder.name}.toml", truth=table)


def _released(log):
    """Return the lines of the releases, without their times."""
    return [line.split("]", 1)[1] for line in log.decode().splitlines() if "truth.released" in line]


def _expected(served, truths):
    plan, key = decode_plan((served / "state" / "plan.json").read_bytes()), read_key_file(served / "state" / "key")
    answers = (served / "out.jsonl").read_bytes().splitlines()
    return counted(TruthCodec(plan), _TRUTH, truth_secret(key, plan.digest, 0), (answers, list(truths))).released


@pytest.mark.slow
def test_periods_are_released_and_a_killed_process_goes_on(served, tmp_path):
    """SIGKILL twice, at whatever moment: the releases of all processes are those of one, and the same when repeated."""
    truths = list(_truths(served))
    config = _config(served, tmp_path / "whole", truths)
    whole = perpetua("truth", config)
    assert whole.returncode == 0, whole.stderr
    expected = _expected(served, truths)
    assert len(expected) > 25
    lines = _released(whole.stderr)
    assert len(lines) == len(expected)
    for line, one in zip(lines, expected, strict=True):
        assert f"period={one.period} right={one.right} wrong={one.wrong}" in " ".join(line.split())
    killed, config = [], _config(served, tmp_path / "killed", truths)
    for _ in range(2):
        with subprocess.Popen(command("truth", config), stderr=subprocess.PIPE, env=environment()) as process:
            seen: list[bytes] = []
            assert process.stderr is not None
            for line in process.stderr:
                seen.append(line)
                if b"truth.released" in line and len(_released(b"".join(seen))) > 3:
                    break
            os.kill(process.pid, signal.SIGKILL)
            killed += _released(b"".join([*seen, *process.stderr]))
    killed += _released(perpetua("truth", config).stderr)
    assert list(dict.fromkeys(killed)) == lines
    again = perpetua("truth", config)
    assert _released(again.stderr) == lines[-1:]  # what was told last is told again, and nothing is drawn anew


def test_status_says_what_a_label_costs(served):
    """Within epsilon, which is as it was."""
    said = json.loads(perpetua("status", served / "state", "--json").stdout)
    assert (said["truth_epsilon"], said["epsilon"]) == (0.5, long_plan().epsilon)


def test_its_folder_is_private_sealed_and_held(served, tmp_path):
    """Mode 0700, nothing in clear, one process at a time, one model and shard."""
    config = _config(served, tmp_path / "own", _truths(served))
    assert perpetua("truth", config).returncode == 0
    folder = tmp_path / "own" / "kept"
    (file,) = folder.glob("*.truth")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with held_truths(folder), pytest.raises(StateError, match="another process counts true labels there"):
        held_truths(folder).__enter__()
    size, key = file.stat().st_size, read_key_file(served / "state" / "key")
    digest = decode_plan((served / "state" / "plan.json").read_bytes()).digest
    assert TruthFile(folder, key, digest, 0).load() is not None
    file.rename(folder / "shard-00001.truth")
    with pytest.raises(StateError, match="of another key, plan or shard"):
        TruthFile(folder, key, digest, 1).load()
    (folder / "shard-00001.truth").write_bytes(b"PERPTRU\x02" + bytes(size))
    with pytest.raises(StateError, match="newer"):
        TruthFile(folder, key, digest, 1).load()
    (folder / "shard-00001.truth").write_bytes(b"no")
    with pytest.raises(StateError, match="damaged"):
        TruthFile(folder, key, digest, 1).load()


async def _tell(config, folder):
    """Count in this process; return the log, the metrics and the size of the state."""
    model, log = open_truths(load_config(config)), io.StringIO()
    telemetry = TruthTelemetry(model.plan.name, model.plan.alpha, model.truth.epsilon)
    with held_truths(model.table.folder) as kept:
        await count_truths(model, kept, telemetry, PublicLog(log, model=model.plan.name))
    return (
        log.getvalue(),
        encode(TruthCollector(telemetry), Format.TEXT).decode(),
        (folder / "kept" / "shard-00000.truth").stat().st_size,
    )


async def test_nothing_of_a_label_or_a_bare_count_is_told(served, tmp_path):
    """Worlds with other labels tell the same but for what noise was added to; texts of outsiders are told nowhere."""
    bad = [
        b'{"id":"%b","round":"%b","label":1}' % (_SECRET.encode(), _SECRET.encode()),
        _SECRET.encode(),
        b'{"' + _SECRET.encode(),
    ]
    told = []
    for flipped in (0, 3):
        folder = tmp_path / f"world{flipped}"
        config = _config(served, folder, [*bad, *_truths(served, flipped)])
        told.append(await _tell(config, folder))
    masked = []
    for log, metrics, size in told:
        assert _SECRET not in log + metrics
        names = ("right", "wrong", "error", "half_width")
        words = [word.split("=")[0] if word.split("=")[0] in names else word for word in log.split()]
        lines = [
            re.sub(r"(truth_(right|wrong|error|error_half_width)\{.*) .*", r"\1", one) for one in metrics.splitlines()
        ]
        masked.append(([word for word in words if not word.endswith("Z")], lines, size))
    assert masked[0] == masked[1]
    assert told[0][0] != told[1][0]
    exported = set(re.findall(r"^(perpetua_\w+)\{", told[0][1], re.MULTILINE))
    assert {name for name in exported if not name.endswith("_created")} == TRUTH_METRICS


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ({"truth": {"folder": "t", "topic": "x"}}, 'must have path, and no topic: sink.kind is "jsonl"'),
        ({"truth": {"folder": "t"}}, "must have path"),
        ({"truth": {"path": "t"}}, "truth.folder is not set: must be set"),
        ({"truth": {"folder": "t", "pth": "t"}}, "unknown setting of a configuration; did you mean path"),
        (
            {"truth": {"folder": "t", "path": "x"}, "sink": {"kind": "stdout", "path": None}},
            'is for sink.kind "kafka" and "jsonl"',
        ),
    ],
)
def test_what_cannot_be_joined_is_refused(tmp_path, tables, says):
    """By the name of what is wrong."""
    with pytest.raises(PerpetuaError) as caught:
        load_config(write_config(tmp_path, **tables))
    assert says in str(caught.value)


def test_a_file_with_two_uses_is_refused(tmp_path):
    """Labels in the answers' file, or the queries'."""
    for name in ("out.jsonl", "q.jsonl"):
        with pytest.raises(PerpetuaError, match="path must be one of its own"):
            load_config(write_config(tmp_path, truth={"folder": "t", "path": str(tmp_path / name)}))


def test_a_plan_that_pays_for_no_label_is_refused(tmp_path):
    """By name; and so is a configuration without the table."""
    make_state(tmp_path / "state", long_plan())
    with pytest.raises(PerpetuaError, match=r"model\.truth is not set: must be in the model file"):
        open_truths(load_config(write_config(tmp_path, truth={"folder": "t", "path": "x"})))
    with pytest.raises(PerpetuaError, match="truth is not set: must be set: the table"):
        open_truths(load_config(write_config(tmp_path)))


def test_check_looks_whether_the_plan_pays(served, tmp_path):
    """A line of its own, where the configuration has the table."""
    make_state(tmp_path / "state", long_plan())
    unpaid = write_config(tmp_path, truth={"folder": "t", "path": "x"})
    for config, line in ((_config(served, tmp_path / "paid", []), "ok     "), (unpaid, "WRONG  ")):
        assert f"\n{line}plan pays for true labels".encode() in perpetua("check", config).stdout


def test_each_shard_is_counted_by_itself(served, tmp_path, monkeypatch):
    """With logs, a file and a key of its own."""
    truths = list(_truths(served))
    model = replace(open_truths(load_config(_config(served, tmp_path / "two", truths))), shards=2)
    lines = (served / "out.jsonl").read_bytes().splitlines(), truths
    monkeypatch.setattr(
        "oracle.hosting.truths._on_files", lambda _: lambda _shard: tuple(MemoryLog(one, 50) for one in lines)
    )
    log, telemetry = io.StringIO(), TruthTelemetry("m", 0.1, 0.5)
    with held_truths(model.table.folder) as folder:
        asyncio.run(count_truths(model, folder, telemetry, PublicLog(log, "json")))
    told = [json.loads(line) for line in log.getvalue().splitlines()]
    for shard in (0, 1):
        secret = truth_secret(model.master_key, model.plan.digest, shard)
        expected = counted(TruthCodec(model.plan), _TRUTH, secret, lines).released
        mine = [(one["period"], one["right"], one["wrong"]) for one in told if one["partition"] == shard]
        assert mine == [tuple(one) for one in expected]
        assert telemetry.released[shard] == expected[-1]
    assert len({one["right"] for one in told if one["period"] == 0}) + len({one["wrong"] for one in told}) > 2
    assert {path.name for path in folder.glob("*.truth")} == {"shard-00000.truth", "shard-00001.truth"}


def test_what_fails_inside_says_nothing_of_a_label(served, tmp_path, monkeypatch, capsys):
    """An error of our own, with a text that nobody may see: its kind is told, and the exit code."""

    def failing(_tally, told):
        raise ValueError(_SECRET, told)

    config = _config(served, tmp_path / "failing", _truths(served))
    monkeypatch.setattr(Tally, "truth", failing)
    monkeypatch.setattr(sys, "argv", ["perpetua", "truth", str(config)])
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 70
    said = "".join(capsys.readouterr())
    assert "internal error: ExceptionGroup" in said
    assert _SECRET not in said


def test_noise_of_shards_and_models_has_keys_of_its_own():
    """No two of a model's shards, and no two models of one key."""
    keys = [truth_secret(bytes(32), bytes([plan]) * 32, shard) for plan in (0, 1) for shard in (0, 1)]
    assert len(set(keys)) == 4


async def test_what_may_be_told_is_served_over_http():
    """Metrics, liveness and readiness; nothing else, and nothing before a shard's logs are open."""
    log, telemetry = io.StringIO(), TruthTelemetry("m", 0.1, 0.5, ready={0: False})
    async with truths_beside(WebConfig(port=0), telemetry, PublicLog(log, "json")):
        port = json.loads(log.getvalue())["port"]

        async def get(path):
            return await asyncio.to_thread(_get, f"http://127.0.0.1:{port}{path}")

        assert await get("/readyz") == (503, '{"ready":false,"not_ready":[0]}')
        telemetry.ready[0] = True
        telemetry.released[0] = NoisyPeriod(7, 950, 50)
        assert await get("/readyz") == (200, '{"ready":true,"not_ready":[]}')
        assert await get("/livez") == (200, "alive\n")
        assert (await get("/status"))[0] == 404
        metrics = (await get("/metrics"))[1]
    assert 'perpetua_truth_period{model="m",shard="0"} 7.0' in metrics
    assert 'perpetua_truth_error{model="m",shard="0"} 0.05' in metrics
    assert 'perpetua_truth_error_half_width{model="m",shard="0"} 0.007' in metrics


def _get(url):
    try:
        with urllib.request.urlopen(url, timeout=30) as response:  # noqa: S310 -- our own server
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
