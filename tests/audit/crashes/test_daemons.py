"""Games through real daemons that are killed: the real one keeps its noise, a broken one is found out."""

from oracle.audit.crashes import daemons
from oracle.audit.crashes.daemons import Played, play_daemon, play_game
from oracle.audit.crashes.folders import serve
from oracle.audit.findings import Check, Finding
from oracle.audit.games.game import Game
from oracle.audit.games.hammers import hammer
from oracle.audit.games.plans import TARGETS, small_plan
from tests.audit.crashes.broken_serve import serve_drawn_again, serve_never, serve_once_killed

SECRET = bytes(range(32))


def test_games_through_daemons_are_counted(tmp_path, monkeypatch):
    """All of them are counted in, as the event is chosen on games without a daemon; one that differs fails the check.

    Here a game is played without its processes, but for the worlds' views.
    """

    def play(folder, _serve, plan, secret, *, present):
        return Played(hammer(Game(plan, secret, present=present), daemons._depth(plan), 240), folder.name != "3-1", 1)

    monkeypatch.setattr(daemons, "play_game", play)
    finding, check = daemons.play_daemon(tmp_path, bytes(16), 1e-2, games=300, beside=2)
    assert isinstance(finding, Finding)
    assert isinstance(check, Check)
    assert finding.games == 300
    assert 0.2 < finding.lowest <= finding.epsilon
    assert check.says == (
        "600 games, 1200 kills, 600 of them while messages waited for answers: "
        "599 games byte for byte as without a kill"
    )
    assert not check.passed


def test_a_game_through_a_daemon_is_seen(tmp_path):
    """The view of a game has answers of both labels, and ends where the ledger says that the side was armed afresh."""
    plan = small_plan(TARGETS[0], 4.0, 0.01)
    played = play_game(tmp_path / "game", serve, plan, SECRET, present=True)
    loss, ones, zeros, rounds = played.view
    assert played.same
    assert ones + zeros == rounds <= 240
    assert min(ones, zeros) > 0
    assert loss != 0.0


def test_noise_that_is_drawn_again_is_found(tmp_path):
    """A daemon whose processes have noise of their own notices, and stops: no game ends as it would without a kill.

    The audit does not break off: the check fails, and says what the daemon said.
    """
    (check,) = play_daemon(tmp_path, bytes(16), 1e-2, games=1, beside=2, serve_it=serve_drawn_again)
    assert isinstance(check, Check)
    assert not check.passed
    assert check.says.startswith("0 games, 0 kills")
    assert "in 2 more a daemon ended by itself, first: " in check.says
    assert "diverged" in check.says


def test_what_the_machine_ends_is_not_looked_at(tmp_path):
    """Where daemons cannot be kept running nothing is said against what they show, and no other game is begun."""
    (check,) = play_daemon(tmp_path, bytes(16), 1e-2, games=3, beside=1, serve_it=serve_never)
    assert isinstance(check, Check)
    assert (check.passed, check.unsure) == (False, True)
    assert check.says.startswith("0 games, 0 kills")
    assert "; 6 more were not looked at, as the machine did not let a daemon run: " in check.says
    assert "exited with -9, 3 times" in check.says


def test_a_daemon_that_somebody_else_ends_is_started_again(tmp_path):
    """A game goes on behind a daemon that was killed, and behind one that was stopped, as behind its own kills."""
    plan = small_plan(TARGETS[0], 4.0, 0.01)
    assert play_game(tmp_path / "game", serve_once_killed, plan, SECRET, present=True).same


def test_kills_fall_within_batches(tmp_path):
    """Of a few games' kills some strike while messages wait for their answers; no answer has another noise for it."""
    plan = small_plan(TARGETS[0], 4.0, 0.01)
    games = [play_game(tmp_path / f"{number}", serve, plan, bytes([number] * 32), present=False) for number in range(3)]
    assert all(played.same for played in games)
    assert sum(played.struck for played in games) > 0
