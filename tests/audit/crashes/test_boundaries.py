"""Daemons killed exactly where a side is armed afresh and where a phase ends."""

import pytest

from oracle.audit.crashes import boundaries
from oracle.audit.crashes.boundaries import strike_boundaries
from tests.audit.crashes.broken_serve import serve_drawn_again


@pytest.mark.slow
def test_kills_at_boundaries_change_nothing(tmp_path):
    """With a hidden query and without it, whatever is shown is what one uninterrupted shard shows."""
    check = strike_boundaries(tmp_path, bytes(16))
    assert check.passed, check.says
    assert check.says.startswith("15 kills")  # in one world no side is armed in phase 2


def test_noise_that_is_drawn_again_is_found_at_the_first_boundary(tmp_path, monkeypatch):
    """A daemon whose processes have noise of their own does not pass."""
    monkeypatch.setattr(boundaries, "_at", lambda _whole: [20])
    check = strike_boundaries(tmp_path, bytes(16), serve_drawn_again)
    assert not check.passed
