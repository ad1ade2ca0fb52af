import msgspec
import pytest

from tests.support.folders import long_plan, make_state


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
    """Each fact is a line; they are the facts of the JSON object."""
    facts = msgspec.json.decode(cli("status", served / "state", "--json").out)
    lines = cli("status", served / "state").out.splitlines()
    assert [line.split("  ")[0].strip() for line in lines] == [name.replace("_", " ") for name in facts]
    assert any(line.split() == ["round", f"{facts['round']:,}"] for line in lines)


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
