"""Games through the real daemon, killed with SIGKILL between and within rounds, and restarted.

Each game is played by `perpetua serve` processes over files. What all of them together show must be, byte for byte,
what one uninterrupted shard would have shown: else a round was answered with a second noise. And what the adversary
sees is counted like any other game. Processes are forked from one that has imported everything already, so that some
hundreds of games take minutes.
"""

import multiprocessing
import os
import runpy
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from connectors.base import Deliveries, Delivery
from oracle.accounting.ledger import SideRearmed
from oracle.audit.findings import Check, Finding, finite
from oracle.audit.games.game import Game
from oracle.audit.games.hammers import hammer, hammer_view, train_for_hammer
from oracle.audit.games.plans import TARGETS, small_plan, thresholds_of
from oracle.audit.games.policies import worst_depth
from oracle.audit.games.wealth import Wealth, ceiling, count_of
from oracle.audit.randomness import Randomness
from oracle.errors import StateError
from oracle.planning.plan import BoxPlan
from oracle.receipts.ledgers import read_ledger
from oracle.runtime.shard import Shard
from oracle.state.folder import FolderStore
from oracle.state.format import Snapshot
from oracle.state.keys import create_key_file

__all__ = ["Played", "Serve", "ServedFolder", "play_daemon", "play_game", "serve", "serve_and_kill", "serve_to_the_end"]

Serve = Callable[[str], None]
"""Serves the configuration at this path, in a process of its own."""

_EPSILON, _DELTA = 4.0, 0.01
_TARGET: Final = "serve, killed and restarted"
_KILLS: Final = 2
_STALL_SECONDS: Final = 120.0
"""Seconds without a new answer, or to a clean end, after which a daemon counts as stuck."""

_POLL: Final = 0.002
_ROUNDS: Final = 240
_REHEARSED: Final = 1_000
"""Games without a daemon, which choose what is bet on."""

_CONTEXT: Final = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["oracle.cli.main", "oracle.cli.serve.command", "oracle.hosting.files", __name__])

Floats = NDArray[np.float64]


def serve(configuration: str) -> None:
    """Be `python -m oracle.cli serve CONFIG.toml`."""
    sys.argv = ["perpetua", "serve", configuration]
    runpy.run_module("oracle.cli", run_name="__main__")


def _child(serve_it: Serve, configuration: str, log: str) -> None:
    """Run a daemon whose output goes to a file."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for standard in (1, 2):
        os.dup2(descriptor, standard)
    os.close(descriptor)
    for name in [name for name in os.environ if name.startswith("PERPETUA_")]:
        del os.environ[name]
    serve_it(configuration)


class ServedFolder:
    """A folder with a state and the log that is answered from it.

    Args:
        folder: A new one.
        plan: The plan.
        snapshot: The first.
    """

    def __init__(self, folder: Path, plan: BoxPlan, snapshot: Snapshot) -> None:
        self._folder = folder
        folder.mkdir()
        (folder / "state").mkdir(mode=0o700)
        with FolderStore.open(folder / "state", create_key_file(folder / "state" / "key")) as store:
            store.write_plan(plan.encode())
            store.save(snapshot)

    def configure(self, *, follow: bool) -> Path:
        """Write the configuration and return it."""
        path = self._folder / "serve.toml"
        path.write_text(
            f'[state]\nfolder = "{self._folder}/state"\nsnapshot_rounds = 30\n'
            f'[source]\nkind = "jsonl"\npath = "{self._folder}/q.jsonl"\nfollow = {str(follow).lower()}\n'
            f'[sink]\nkind = "jsonl"\npath = "{self._folder}/out.jsonl"\nledger = "{self._folder}/ledger.jsonl"\n'
            "[service]\nbatch_rows = 7\n"
        )
        return path

    def feed(self, bodies: Sequence[bytes]) -> None:
        """Append messages to the log."""
        with (self._folder / "q.jsonl").open("ab") as file:
            file.write(b"".join(body + b"\n" for body in bodies))

    def answers(self) -> list[bytes]:
        """Return the complete lines of answers so far."""
        try:
            return (self._folder / "out.jsonl").read_bytes().split(b"\n")[:-1]
        except FileNotFoundError:
            return []

    def start(self, serve_it: Serve, *, follow: bool) -> BaseProcess:
        """Start a daemon."""
        process = _CONTEXT.Process(
            target=_child, args=(serve_it, str(self.configure(follow=follow)), str(self._folder / "log"))
        )
        process.start()
        return process

    def ledger(self) -> list[bytes]:
        """Return the complete lines of the ledger so far."""
        return (self._folder / "ledger.jsonl").read_bytes().split(b"\n")[:-1]

    def rearmed_after(self, start: int) -> int | None:
        """Return the first round from `start` on before which the ledger says that a side was armed afresh."""
        events = read_ledger(self._folder / "ledger.jsonl")
        rounds = [event.round for event in events if isinstance(event, SideRearmed) and event.round >= start]
        return min(rounds, default=None)

    def last_words(self) -> str:
        """Return the end of the daemons' log; the model is synthetic, so nothing in it is private."""
        return " ".join((self._folder / "log").read_text(errors="replace")[-400:].split())


def serve_and_kill(served: ServedFolder, serve_it: Serve, answers: int) -> None:
    """Serve until so many answers are there, then kill the daemon.

    Raises:
        StateError: It makes no progress.
    """
    process = served.start(serve_it, follow=True)
    most, deadline = -1, 0.0
    try:
        while (count := len(served.answers())) < answers:
            if count > most:
                most, deadline = count, time.monotonic() + _STALL_SECONDS
            if not process.is_alive() or time.monotonic() > deadline:
                msg = f"audited daemon: it makes no progress: {served.last_words()}"
                raise StateError(msg)
            time.sleep(_POLL)
    finally:
        process.kill()
        process.join()


def serve_to_the_end(served: ServedFolder, serve_it: Serve) -> None:
    """Serve all that is there.

    Raises:
        StateError: The daemon is stuck, or fails.
    """
    process = served.start(serve_it, follow=False)
    process.join(_STALL_SECONDS)
    code = process.exitcode
    if code is None:
        process.kill()
        process.join()
    if code != 0:
        msg = f"audited daemon: it exited with {code}: {served.last_words()}"
        raise StateError(msg)


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
        StateError: A daemon does not start, or ends by itself.
    """
    instance, depth = plan.phases[0].start, _depth(plan)
    bodies = [b'{"id":"%d","x":[%r]}' % (number, depth + 0.5) for number in range(_ROUNDS)]
    snapshot = _snapshot(plan, secret, present=present)
    served = ServedFolder(folder, plan, snapshot)
    part = _ROUNDS // (_KILLS + 1)
    seen: list[list[bytes]] = []
    for number in range(_KILLS):
        served.feed(bodies[number * part : (number + 1) * part])
        serve_and_kill(served, serve_it, number * part + (part if number % 2 else part // 2))
        seen.append(served.answers())
    served.feed(bodies[_KILLS * part :])
    serve_to_the_end(served, serve_it)
    answers, expected = served.answers(), _uninterrupted(plan, snapshot, bodies)
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
    plan = small_plan(TARGETS[0], _EPSILON, _DELTA)

    def play(number: int, world: int) -> Played | str:
        secret = Randomness(seed, f"daemon|{world}").secret(number)
        try:
            return play_game(folder / f"{number}-{world}", serve_it, plan, secret, present=bool(world))
        except StateError as exc:
            return str(exc)

    with ThreadPoolExecutor(beside) as pool:
        worlds = [list(pool.map(play, range(games), [world] * games)) for world in (0, 1)]
    ended = [one for world in worlds for one in world if isinstance(one, str)]
    views = [[one.view for one in world if isinstance(one, Played)] for world in worlds]
    check = _one_noise([one for world in worlds for one in world if isinstance(one, Played)], ended, 2 * games)
    rehearsed = (_uninterrupted_games(plan, seed, 0), _uninterrupted_games(plan, seed, 1))
    seconds = time.monotonic() - started
    check = msgspec.structs.replace(check, seconds=seconds)
    if ended:
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


def _one_noise(played: Sequence[Played], ended: Sequence[str], games: int) -> Check:
    """Check that every game went as without a kill; one whose daemon ended by itself did not."""
    same, struck = sum(one.same for one in played), sum(one.struck for one in played)
    says = (
        f"{len(played)} games, {len(played) * _KILLS} kills, {struck} of them while messages waited for answers: "
        f"{same} games byte for byte as without a kill"
    )
    if ended:
        says += f"; in {len(ended)} more a daemon ended by itself, first: {ended[0]}"
    return Check(
        cell="daemon|noise",
        target=_TARGET,
        name="no round has a second noise",
        passed=same == games,
        says=says,
        seconds=0.0,
    )
