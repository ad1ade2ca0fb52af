"""Daemons killed exactly where a side is armed afresh and where a phase ends."""

import msgspec
import pytest

from oracle.audit.crashes import boundaries
from oracle.audit.crashes.boundaries import strike_boundaries
from oracle.audit.games.plans import small_plan
from tests.audit.crashes.broken_serve import serve_and_say_well, serve_drawn_again


@pytest.mark.slow
def test_kills_at_boundaries_change_nothing(tmp_path):
    """With a hidden query and without it, whatever is shown is what one uninterrupted shard shows."""
    check = strike_boundaries(tmp_path, bytes(16))
    assert check.passed, check.says
    assert check.says.startswith(
        "22 kills in two worlds, where sides are armed afresh in each phase and where each one ends"
    )


def test_noise_that_is_drawn_again_is_found_at_the_first_boundary(tmp_path, monkeypatch):
    """A daemon whose processes have noise of their own does not pass."""
    monkeypatch.setattr(boundaries, "_at", lambda _whole: [20])
    check = strike_boundaries(tmp_path, bytes(16), serve_drawn_again)
    assert not check.passed


@pytest.mark.slow
def test_a_daemon_must_say_that_its_plan_has_ended(tmp_path, monkeypatch):
    """One that ends there as if its log had does not pass."""
    monkeypatch.setattr(boundaries, "_at", lambda whole: [len(whole.replies)])
    check = strike_boundaries(tmp_path, bytes(16), serve_and_say_well)
    assert not check.passed
    assert "behind the plan's last round it exited with 0" in check.says


def test_each_phase_must_have_come_to_a_side_that_is_armed_afresh(tmp_path, monkeypatch):
    """Else the check, which would not have looked at that, does not pass."""

    def played(*arguments):
        plan = small_plan(*arguments)
        first, second = plan.phases
        never = msgspec.structs.replace(second.stopper, threshold=10**6)
        return msgspec.structs.replace(plan, phases=(first, msgspec.structs.replace(second, stopper=never)))

    monkeypatch.setattr(boundaries, "small_plan", played)
    monkeypatch.setattr(boundaries, "_served", lambda *_: True)
    check = strike_boundaries(tmp_path, bytes(16))
    assert not check.passed
    assert "no side is armed afresh in phase 2" in check.says
