"""Games through the real daemon, killed with SIGKILL between and within rounds and started again.

Each game is played by `perpetua serve` processes over files. What all of them together show must be, byte for byte,
what one uninterrupted shard would have shown: else a round was answered with a second noise. And what the adversary
sees is counted like any other game.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from connectors.base import Delivery
from oracle.audit.bounds import epsilon_bound
from oracle.audit.dice import Dice
from oracle.audit.findings import Check, Finding, finite
from oracle.audit.plans import TARGETS, small_plan, thresholds_of
from oracle.audit.policies import worst_depth
from oracle.errors import StateError
from oracle.planning.plan import BoxPlan
from oracle.predictors.kinds import new_trainer
from oracle.service.shard import Shard
from oracle.state.folder import FolderStore
from oracle.state.format import Snapshot
from oracle.state.keys import create_key_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SERVE", "play_daemon"]

SERVE: Final = (sys.executable, "-m", "oracle.cli", "serve")
"""The command that serves; the configuration comes behind it."""

_EPSILON, _DELTA = 4.0, 0.01
_KILLS: Final = 3
_PATIENCE: Final = 120.0
_POLL: Final = 0.002
_ROUNDS: Final = 240


class _Place:
    """A folder with a state of its own, and the log that is answered from it."""

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
        """Return the whole lines of answers that can be seen."""
        try:
            return (self._folder / "out.jsonl").read_bytes().split(b"\n")[:-1]
        except FileNotFoundError:
            return []

    def start(self, command: Sequence[str], *, follow: bool) -> "subprocess.Popen[bytes]":
        """Start a daemon."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PERPETUA_")}
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(  # noqa: S603 -- our own command, on a configuration of our own
                [*command, str(self.configure(follow=follow))],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
            )

    def last_words(self) -> str:
        """Return the end of what the daemons logged; of a made-up model, so nothing of it is private."""
        return (self._folder / "log").read_text(errors="replace")[-400:]


def _serve_and_kill(place: _Place, command: Sequence[str], answers: int) -> None:
    """Serve until so many answers are seen, and kill it there."""
    process = place.start(command, follow=True)
    deadline = time.monotonic() + _PATIENCE
    try:
        while len(place.answers()) < answers:
            if process.poll() is not None or time.monotonic() > deadline:
                msg = f"audited daemon: it does not get on: {place.last_words()}"
                raise StateError(msg)
            time.sleep(_POLL)
    finally:
        process.kill()
        process.wait()


def _serve_to_the_end(place: _Place, command: Sequence[str]) -> None:
    process = place.start(command, follow=False)
    try:
        code = process.wait(_PATIENCE)
    finally:
        process.kill()
        process.wait()
    if code != 0:
        msg = f"audited daemon: it ended with {code}: {place.last_words()}"
        raise StateError(msg)


def _snapshot(plan: BoxPlan, secret: bytes, *, present: bool) -> Snapshot:
    """Return the first snapshot: known rows at 1, 2, ..., and the hidden one further out than all."""
    points = plan.phases[0].start.points
    rows, labels = np.zeros(plan.declared), np.zeros(plan.declared, dtype=np.bool_)
    rows[:points], labels[:points] = np.arange(1.0, points + 1.0), True
    if present:
        rows[points], labels[points] = 0.5, True
    trainer = new_trainer(plan, secret)
    trainer.add(rows[:, None], labels)
    return Snapshot(
        plan_digest=plan.digest,
        generation=1,
        position=0,
        round=0,
        phase=1,
        rearms=0,
        tag=bytes(16),
        arrays=trainer.finish().export(),
    )


def _uninterrupted(plan: BoxPlan, snapshot: Snapshot, bodies: Sequence[bytes]) -> list[bytes]:
    outcome = Shard(plan, snapshot).process(
        [Delivery(place, body, "application/json") for place, body in enumerate(bodies, 1)]
    )
    return [reply.body for reply in outcome.commit.replies]


def _play(folder: Path, command: Sequence[str], plan: BoxPlan, secret: bytes, *, present: bool) -> tuple[float, bool]:
    """Play one game; return how many labels were 1, and whether every answer is the uninterrupted shard's."""
    instance, cap = plan.phases[0].start, plan.phases[0].stopper.cap
    query = worst_depth(thresholds_of(instance), cap, _ROUNDS) + 0.5
    bodies = [b'{"id":"%d","x":[%r]}' % (number, query) for number in range(_ROUNDS)]
    snapshot = _snapshot(plan, secret, present=present)
    place = _Place(folder, plan, snapshot)
    part = _ROUNDS // (_KILLS + 1)
    seen: list[list[bytes]] = []
    for number in range(_KILLS):
        place.feed(bodies[number * part : (number + 1) * part])
        _serve_and_kill(place, command, number * part + part // 2 + 7 * number)  # within a part, or at its end
        seen.append(place.answers())
    place.feed(bodies[_KILLS * part :])
    _serve_to_the_end(place, command)
    answers, expected = place.answers(), _uninterrupted(plan, snapshot, bodies)
    same = answers == expected and all(lines == expected[: len(lines)] for lines in seen)
    shutil.rmtree(folder)
    return float(sum(b'"label":1' in line for line in answers)), same


def play_daemon(
    folder: Path, seed: bytes, miss: float, *, games: int, command: Sequence[str] = SERVE
) -> tuple[Finding, Check]:
    """Play games in both worlds through daemons that are killed three times each.

    Args:
        folder: An empty folder to work in.
        seed: Of the auditor's dice.
        miss: Probability of a false alarm.
        games: In each world.
        command: What serves.

    Raises:
        StateError: A daemon does not start, or ends by itself.
    """
    started = time.monotonic()
    plan = small_plan(TARGETS[0], _EPSILON, _DELTA)
    ones: list[list[float]] = [[], []]
    same = 0
    for number in range(games):
        for world in (0, 1):
            secret = Dice(seed, f"daemon|{world}").secret(number)
            count, equal = _play(folder / f"{number}-{world}", command, plan, secret, present=bool(world))
            ones[world].append(count)
            same += equal
    views: list[NDArray[np.float64]] = [np.array(world)[:, None] for world in ones]
    bound = epsilon_bound(views[0], views[1], _DELTA, miss)
    seconds = time.monotonic() - started
    finding = Finding(
        cell="daemon|games",
        level="daemon",
        target="serve, killed and restarted",
        adversary="training row, extreme",
        record="training row",
        epsilon=_EPSILON,
        delta=_DELTA,
        nominal=False,
        games=bound.games,
        likelier=bound.likelier,
        rarer=bound.rarer,
        lowest=bound.lowest,
        estimate=finite(bound.estimate),
        highest=finite(bound.highest),
        miss=miss,
        seconds=seconds,
    )
    says = f"{2 * games} games, {2 * games * _KILLS} kills: {same} games byte for byte as without a kill"
    check = Check(
        cell="daemon|noise",
        target="serve, killed and restarted",
        name="no round has a second noise",
        passed=same == 2 * games,
        says=says,
        seconds=seconds,
    )
    return finding, check
