import re

import msgspec
import pytest

from oracle.planning.promise import promise_of
from oracle.state.shards import begin_shards, finish_shards
from tests.predictors.ensemble.test_ensemble import resting_plan
from tests.support.folders import long_plan, make_state, write_config, write_log
from tests.support.shards import bodies


@pytest.fixture
def sharded(tmp_path, cli):
    """Return a state of three shards, the second of which has answered 300 rounds or so."""
    folder = tmp_path / "sharded"
    folder.mkdir(mode=0o700)
    begin_shards(folder, 3)
    for number in range(3):
        make_state(folder / f"shard-000{number}", long_plan(), bytes([number]) * 32)
    finish_shards(folder)
    write_log(tmp_path, 300)
    assert cli("serve", write_config(tmp_path, state={"folder": str(folder / "shard-0001")})).code == 0
    return folder


def test_status_of_a_new_state(cli, tmp_path):
    """Round 0, phase 1, nothing answered; delta is spent on the training examples."""
    make_state(tmp_path / "state", long_plan())
    status = msgspec.json.decode(cli("status", tmp_path / "state", "--json").out)
    plan = long_plan()
    assert (status["model"], status["profile"], status["round"], status["phase"]) == ("tiny", "tight", 0, 1)
    assert (status["phase_rounds_left"], status["rearms"]) == (plan.phases[0].rounds, 0)
    assert status["delta_spent"] == pytest.approx(plan.declared * plan.phases[0].delta)


def test_status_of_a_served_state(cli, served):
    """It tells the newest snapshot's round, phase and what was spent; no key is needed."""
    (served / "state" / "key").unlink()
    result = cli("status", served / "state", "--json")
    status = msgspec.json.decode(result.out)
    answered = [line for line in (served / "out.jsonl").read_bytes().splitlines() if b'"label"' in line]
    assert status["round"] == len(answered)
    assert "position" not in status  # it would tell how long the messages are
    plan, left = long_plan(), len(answered)
    spent = plan.declared * plan.phases[0].delta
    for phase in plan.phases:
        if left < phase.rounds:
            assert (status["phase"], status["phase_rounds_left"]) == (phase.phase, phase.rounds - left)
            assert status["delta"] == phase.delta
            spent += left * phase.delta
            break
        spent += phase.rounds * phase.delta
        left -= phase.rounds
    assert status["phase"] > 3
    assert status["delta_spent"] == pytest.approx(spent)
    (snapshot,) = (served / "state").glob("*.perp")
    assert status["snapshot_bytes"] == snapshot.stat().st_size
    assert status["snapshot_age_seconds"] >= 0


def test_status_in_words(cli, served):
    """Each fact is a line; they are the facts of the JSON object, of a predictor whose sides are armed afresh."""
    facts = msgspec.json.decode(cli("status", served / "state", "--json").out)
    lines = _facts(cli("status", served / "state").out.splitlines())
    del facts["promise"]
    assert [line.split("  ")[0].strip() for line in lines] == [name.replace("_", " ") for name in facts]
    assert any(line.split() == ["round", f"{facts['round']:,}"] for line in lines)


def _facts(lines):
    """Return the lines before the promise."""
    return lines[: lines.index("")]


def _lines(text):
    return dict(re.split(r"  +", line.strip(), maxsplit=1) for line in _facts(text.splitlines()))


@pytest.mark.parametrize(
    ("predictor", "absent", "present"),
    [
        ("rectangles", set(), {"phase": "3", "rearms": "2", "protects queries": "yes"}),
        ("stumps", set(), {"phase": "3", "protects queries": "yes"}),
        (
            "classical",
            {"phase", "phases", "phase rounds left", "rearms", "delta"},
            {"delta limit": "0", "rounds left": "4,368"},
        ),
        ("bisection", {"rearms"}, {"phase": "2, recalls", "protects queries": "no"}),
    ],
)
def test_each_predictor_has_the_words_that_make_sense_for_it(cli, tmp_path, predictor, absent, present):
    """A released box has no phases, bisection arms no side; the JSON object has the same names for all."""
    make_state(tmp_path / "state", long_plan(predictor))
    write_log(tmp_path, 200)
    first = _lines(cli("status", tmp_path / "state").out)
    assert first.get("phase") == {"classical": None, "bisection": "1, learns"}.get(predictor, "1")
    assert cli("serve", write_config(tmp_path)).code == 0
    lines = _lines(cli("status", tmp_path / "state").out)
    assert lines["predictor"] == predictor
    assert present.items() <= lines.items()
    assert not absent & lines.keys()
    facts = msgspec.json.decode(cli("status", tmp_path / "state", "--json").out)
    assert {"predictor", "phase", "phase_rounds_left", "rearms", "delta"} <= facts.keys()
    assert {name.replace("_", " ") for name in facts} - {"promise"} - lines.keys() == absent


def test_rests_of_an_ensemble_are_told(cli, tmp_path):
    """As many rounds rested as got no answer, and so many will: in JSON, in words, of a shard and of several."""
    folder = tmp_path / "two"
    folder.mkdir(mode=0o700)
    begin_shards(folder, 2)
    for number in range(2):
        make_state(folder / f"shard-000{number}", resting_plan(), bytes([number]) * 32)
    finish_shards(folder)
    state = folder / "shard-0001"
    facts = msgspec.json.decode(cli("status", state, "--json").out)
    assert (facts["rested"], facts["rest_left"]) == (0, 0)
    asked = bodies(resting_plan().rounds)
    while not facts["rest_left"]:
        with (tmp_path / "q.jsonl").open("ab") as log:
            log.writelines(body + b"\n" for body in asked[facts["round"] : facts["round"] + 20])
        assert cli("serve", write_config(tmp_path, state={"folder": str(state)})).code == 0
        facts = msgspec.json.decode(cli("status", state, "--json").out)
    answers = (tmp_path / "out.jsonl").read_bytes().splitlines()
    assert facts["rested"] == sum(b'"resting"' in answer for answer in answers) > 0
    lines = _lines(cli("status", state).out)
    assert (lines["rounds rested"], lines["rounds to rest now"]) == (str(facts["rested"]), str(facts["rest_left"]))
    both = cli("status", folder).out.splitlines()
    assert both[0].endswith("rounds rested  rounds to rest now")
    assert [line.split()[-2:] for line in both[1:3]] == [["0", "0"], [str(facts["rested"]), str(facts["rest_left"])]]
    assert any(line.startswith("rests ") for line in both)


@pytest.mark.parametrize("predictor", ["rectangles", "stumps", "classical", "bisection"])
def test_the_promise_is_printed_whole(cli, tmp_path, predictor):
    """Bound, whose it is beyond, probability, kind, basis and every condition; and what the terms mean."""
    make_state(tmp_path / "state", long_plan(predictor))
    promise = promise_of(long_plan(predictor))
    facts = msgspec.json.decode(cli("status", tmp_path / "state", "--json").out)
    assert msgspec.convert(facts["promise"], type(promise)) == promise
    assert facts["alpha"] == long_plan(predictor).alpha
    text = cli("status", tmp_path / "state").out
    missed = () if promise.missed is None else (f"probability {promise.missed:g}",)
    for told in (f"at most {promise.bound:.4f}", promise.beyond, promise.basis, *missed, *promise.conditions):
        assert told in text
    assert ("re-armed" in text) == (predictor in {"rectangles", "stumps"})
    assert "forks         other logs answered from this state" in text
    assert ("phase " in text) == (predictor != "classical")
    assert f"predictor {predictor}" in re.sub(" +", " ", text)


@pytest.mark.parametrize("predictor", ["classical", "bisection"])
def test_shards_have_the_words_of_their_predictor(cli, tmp_path, predictor):
    """In the table's columns and in the totals; whether queries are protected is among these."""
    folder = tmp_path / "sharded"
    folder.mkdir(mode=0o700)
    begin_shards(folder, 2)
    for number in range(2):
        make_state(folder / f"shard-000{number}", long_plan(predictor), bytes([number]) * 32)
    finish_shards(folder)
    lines = cli("status", folder).out.splitlines()
    headings = re.split(r"  +", lines[0].strip())
    if predictor == "classical":
        assert headings[:4] == ["shard", "round", "rounds left", "delta spent"]
    else:
        assert headings[:5] == ["shard", "round", "phase", "phase rounds left", "delta spent"]
        assert "1, learns" in lines[1]
    totals = _lines("\n".join(lines[4:]))
    assert totals["protects queries"] == ("no" if predictor == "bisection" else "yes")
    assert "rearms" not in totals


@pytest.mark.parametrize("there", [True, False])
def test_no_state(refused, tmp_path, there):
    """An empty or missing folder: the message says what makes a state."""
    folder = tmp_path / "none"
    if there:
        folder.mkdir()
    assert refused(3, "status", folder) == f"{folder}: holds no state; make one with `perpetua init`"


@pytest.mark.parametrize("damage", ["cut", "changed", "not one"])
def test_damaged_snapshot(refused, served, damage):
    """A damaged header is told, not shown."""
    (snapshot,) = (served / "state").glob("*.perp")
    data = snapshot.read_bytes()
    changed = {"cut": data[:50], "changed": data[:40] + bytes([data[40] ^ 1]) + data[41:], "not one": b"nonsense" * 50}
    snapshot.write_bytes(changed[damage])
    assert refused(3, "status", served / "state").startswith("snapshot: ")


def test_status_of_shards(cli, sharded):
    """Each shard's facts are those of its folder; the totals add up, and epsilon does not: a record is in one shard."""
    for key in sharded.glob("*/key"):
        key.unlink()
    status = msgspec.json.decode(cli("status", sharded, "--json").out)
    assert (status["model"], status["profile"], status["proved"]) == ("tiny", "tight", True)
    shards = status["shards"]
    for number, shard in enumerate(shards):
        alone = msgspec.json.decode(cli("status", sharded / f"shard-000{number}", "--json").out)
        assert alone.pop("snapshot_age_seconds") >= shard.pop("snapshot_age_seconds")
        assert alone == shard
    assert [shard["round"] for shard in shards] == [0, status["rounds"], 0]
    assert status["rounds"] > 200
    for name in ("rearms", "delta_spent", "delta_limit", "forks", "delta_of_forks", "snapshot_bytes"):
        assert status[name] == pytest.approx(sum(shard[name] for shard in shards)), name
    assert status["delta_limit"] == pytest.approx(3 * long_plan().delta)
    assert (status["epsilon"], status["epsilon_with_forks"]) == (long_plan().epsilon, long_plan().epsilon)


def test_forks_of_one_shard(cli, sharded, tmp_path):
    """Its records pay for it and no others do: the largest epsilon is told, and the deltas are added up."""
    command = ["fork", tmp_path / "q.jsonl", "--from", sharded / "shard-0002", "--accept-cost", "--out"]
    for name in ("one.jsonl", "two.jsonl"):
        assert cli(*command, tmp_path / name).code == 0
    status = msgspec.json.decode(cli("status", sharded, "--json").out)
    assert status["forks"] == 2
    assert status["epsilon_with_forks"] == pytest.approx(3 * long_plan().epsilon)
    assert status["delta_of_forks"] == pytest.approx(status["shards"][2]["delta_of_forks"]) != 0.0


def test_shards_in_words(cli, sharded):
    """A table with a line a shard, then each of the totals on a line."""
    facts = msgspec.json.decode(cli("status", sharded, "--json").out)
    lines = cli("status", sharded).out.splitlines()
    assert lines[0].split()[:3] == ["shard", "round", "phase"]
    assert [line.split()[:2] for line in lines[1:4]] == [
        [str(number), f"{shard['round']:,}"] for number, shard in enumerate(facts.pop("shards"))
    ]
    del facts["promise"]
    assert [line.split("  ")[0].strip() for line in _facts(lines[5:])] == [name.replace("_", " ") for name in facts]


def test_a_shard_is_missing(refused, sharded):
    """Status says so, and does not add up the rest."""
    (sharded / "shard-0001").rename(sharded / "gone")
    assert refused(3, "status", sharded) == f"{sharded}: shards.json says 3 shards, and shard-0001 is missing"
