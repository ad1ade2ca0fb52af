"""Games through the real daemon, killed with SIGKILL between and within rounds, and restarted.

Each game is played by `perpetua serve` processes over files. What all of them together show must be, byte for byte,
what one uninterrupted shard would have shown: else a round was answered with a second noise. And what the adversary
sees is counted like any other game. Processes are forked from one that has imported everything already, so that some
hundreds of games take minutes.

A daemon that the machine ends is started again, which is one kill more. Where it cannot be kept running, the game is
not looked at, and nothing is said against it; a daemon that refuses to go on did not go on as without a kill.
"""

import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from connectors.base import Deliveries, Delivery
from oracle.audit.crashes.folders import Serve, ServedFolder, serve, serve_and_kill, serve_to_the_end
from oracle.audit.findings import Check, Finding, finite
from oracle.audit.games.game import Game
from oracle.audit.games.hammers import hammer, hammer_view, train_for_hammer
from oracle.audit.games.plans import TARGETS, small_plan, thresholds_of
from oracle.audit.games.policies import worst_depth
from oracle.audit.games.wealth import Wealth, ceiling, count_of
from oracle.audit.randomness import Randomness
from oracle.errors import ResourceError, StateError, StorageError
from oracle.planning.plan import BoxPlan
from oracle.runtime.shard import Shard
from oracle.state.format import Snapshot

__all__ = ["Played", "play_daemon", "play_game"]

_EPSILON, _DELTA = 4.0, 0.01
_TARGET: Final = "serve, killed and restarted"
_KILLS: Final = 2
_ROUNDS: Final = 240
_REHEARSED: Final = 1_000
"""Games without a daemon, which choose what is bet on."""


Floats = NDArray[np.float64]


def _snapshot(plan: BoxPlan, secret: bytes, *, present: bool) -> Snapshot:
    """Return the first snapshot of a game of `hammer`."""
    game = Game(plan, secret, present=present)
    train_for_hammer(game)
    return Snapshot.first(plan.digest, game.predictor.export())


def _uninterrupted(plan: BoxPlan, snapshot: Snapshot, bodies: Sequence[bytes]) -> list[bytes]:
    shard = Shard(plan, snapshot)
    batch = shard.decode(Deliveries.of(Delivery(position, body) for position, body in enumerate(bodies, 1)))
    return list(shard.process(batch).commit.replies.bodies)


class Played(NamedTuple):
    """One game.

    Attributes:
        view: float64[k], of it.
        same: Whether every answer is the uninterrupted shard's.
        struck: Kills that fell while messages waited for their answers.
    """

    view: Floats
    same: bool
    struck: int


def _depth(plan: BoxPlan) -> int:
    return worst_depth(thresholds_of(plan.phases[0].start), plan.phases[0].stopper.cap, _ROUNDS)


def play_game(folder: Path, serve_it: Serve, plan: BoxPlan, secret: bytes, *, present: bool) -> Played:
    """Play one game.

    The first kill comes when half of the messages that are there are answered, the second one when all are.

    Args:
        folder: A new folder for it.
        serve_it: What serves.
        plan: The plan.
        secret: The genesis key.
        present: Which world.

    Raises:
        StateError: A daemon refuses to go on.
        ResourceError: It cannot be kept running, and all that it has shown is as without a kill.
    """
    instance, depth = plan.phases[0].start, _depth(plan)
    bodies = [b'{"id":"%d","x":[%r]}' % (number, depth + 0.5) for number in range(_ROUNDS)]
    snapshot = _snapshot(plan, secret, present=present)
    expected, seen = _uninterrupted(plan, snapshot, bodies), list[list[bytes]]()
    served = ServedFolder(folder, plan, snapshot)
    part = _ROUNDS // (_KILLS + 1)
    try:
        for number in range(_KILLS):
            served.feed(bodies[number * part : (number + 1) * part])
            serve_and_kill(served, serve_it, number * part + (part if number % 2 else part // 2))
            seen.append(served.answers())
        served.feed(bodies[_KILLS * part :])
        serve_to_the_end(served, serve_it)
    except ResourceError:
        if served.answers() == expected[: len(served.answers())]:
            raise
    answers = served.answers()
    same = answers == expected and all(lines == expected[: len(lines)] for lines in seen)
    labels = np.array([b'"label":1' in line for line in answers], dtype=np.int8)
    view = hammer_view(labels, served.rearmed_after(1), instance, depth)
    struck = sum(len(lines) < (number + 1) * part for number, lines in enumerate(seen))
    shutil.rmtree(folder)
    return Played(np.array(view), same, struck)


def _uninterrupted_games(plan: BoxPlan, seed: bytes, world: int) -> Floats:
    """Return views of games without a daemon, to choose the event on."""
    depth = _depth(plan)
    randomness = Randomness(seed, f"daemon, rehearsed|{world}")
    games = (Game(plan, randomness.secret(number), present=bool(world)) for number in range(_REHEARSED))
    return np.array([hammer(game, depth, _ROUNDS) for game in games])


def play_daemon(  # noqa: PLR0913 -- each is a setting of its own
    folder: Path, seed: bytes, miss: float, *, games: int, beside: int, serve_it: Serve = serve
) -> tuple[Finding | Check, ...]:
    """Play games in both worlds through daemons that are killed twice each.

    Args:
        folder: An empty folder to work in.
        seed: Of the audit's randomness.
        miss: Probability of a false alarm.
        games: In each world.
        beside: Games at a time.
        serve_it: What serves.

    Returns:
        What the games proved, if all could be played to their end; and whether every answer had one noise.
    """
    started = time.monotonic()
    unplayed: list[str] = []
    plan = small_plan(TARGETS[0], _EPSILON, _DELTA)

    def play(number: int, world: int) -> Played | str | None:
        if unplayed:
            return None
        secret = Randomness(seed, f"daemon|{world}").secret(number)
        try:
            return play_game(folder / f"{number}-{world}", serve_it, plan, secret, present=bool(world))
        except StateError as exc:
            return str(exc)
        except (ResourceError, StorageError, OSError) as exc:
            unplayed.append(str(exc))
            return None

    with ThreadPoolExecutor(beside) as pool:
        worlds = [list(pool.map(play, range(games), [world] * games)) for world in (0, 1)]
    ended = [one for world in worlds for one in world if isinstance(one, str)]
    views = [[one.view for one in world if isinstance(one, Played)] for world in worlds]
    check = _one_noise(
        [one for world in worlds for one in world if isinstance(one, Played)], ended, unplayed, 2 * games
    )
    rehearsed = (_uninterrupted_games(plan, seed, 0), _uninterrupted_games(plan, seed, 1))
    seconds = time.monotonic() - started
    check = msgspec.structs.replace(check, seconds=seconds)
    if ended or unplayed:
        return (check,)
    wealth = Wealth(_EPSILON, _DELTA, miss)
    wealth.show(*rehearsed)
    wealth.show(np.array(views[0]), np.array(views[1]))
    best = wealth.best()
    estimate, highest = count_of(best.pairs, best.likelier, best.rarer, _DELTA, miss)
    finding = Finding(
        cell="daemon|games",
        level="daemon",
        target=_TARGET,
        adversary="hammer",
        record="training row",
        epsilon=_EPSILON,
        delta=_DELTA,
        nominal=False,
        games=games,
        aims=1,
        aim="claimed noise",
        likelier=best.likelier,
        rarer=best.rarer,
        lowest=wealth.lowest,
        estimate=finite(estimate),
        highest=finite(highest),
        ceiling=ceiling(games, _DELTA, miss),
        limit=None,
        miss=miss,
        seconds=seconds,
    )
    return finding, check


def _one_noise(played: Sequence[Played], ended: Sequence[str], unplayed: Sequence[str], games: int) -> Check:
    """Check that every game went as without a kill; one whose daemon refused to go on did not."""
    same, struck = sum(one.same for one in played), sum(one.struck for one in played)
    says = (
        f"{len(played)} games, {len(played) * _KILLS} kills, {struck} of them while messages waited for answers: "
        f"{same} games byte for byte as without a kill"
    )
    if ended:
        says += f"; in {len(ended)} more a daemon ended by itself, first: {ended[0]}"
    if unplayed:
        left = games - len(played) - len(ended)
        says += f"; {left} more were not looked at, as the machine did not let a daemon run: {unplayed[0]}"
    return Check(
        cell="daemon|noise",
        target=_TARGET,
        name="no round has a second noise",
        passed=same == games,
        unsure=bool(unplayed) and not ended and same == len(played),
        says=says,
        seconds=0.0,
    )
