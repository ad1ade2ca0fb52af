"""What every scenario needs: a launcher, a folder, a seeded generator, and where to say how far it is."""

import itertools
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from oracle.planning.plan import Plan
from tests.predictors.plans import tiny_bisection_plan
from tests.storms.files.ground import SNAPSHOT_ROUNDS, Ground, Kind, Workspace
from tests.storms.files.processes import Launcher, Running, Violation
from tests.support.folders import long_plan

_STOPS = (2, 3, 4)


@dataclass
class Row:
    """What came of one scenario.

    Attributes:
        scenario: Its name.
        kills: Processes that died by SIGKILL.
        served: Of these, how many had given answers.
        tries: Other things done to it: full disks, files set back, signals.
        identical: Runs whose output was, byte for byte, the uninterrupted run's in the end.
        stops: Clear stops: one line that says why, and an exit code that says who must act.
        note: What else was counted.
        seconds: How long it took.
        predictor: What answered.
    """

    scenario: str
    kills: int = 0
    served: int = 0
    tries: int = 0
    identical: int = 0
    stops: int = 0
    note: str = ""
    seconds: float = 0.0
    predictor: str = ""


@dataclass
class Grounds:
    """The logs and their uninterrupted runs, each made once.

    Attributes:
        messages: How long the logs are.
        predictor: What answers them.
        made: By kind and by how often a snapshot is taken.
    """

    messages: int
    predictor: str
    made: dict[tuple[Kind, int], Ground] = field(default_factory=dict)


@dataclass
class Arena:
    """One scenario's means.

    Attributes:
        folder: For everything it makes.
        launcher: Starts the processes.
        rng: Moments and choices, never noise.
        grounds: The logs and their uninterrupted runs.
        on_done: Called with how many kills and tries are done.
    """

    folder: Path
    launcher: Launcher
    rng: random.Random
    grounds: Grounds
    on_done: Callable[[int], None] = lambda _done: None
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def ground(self, kind: Kind, snapshot_rounds: int = SNAPSHOT_ROUNDS) -> Ground:
        """Return a log with its uninterrupted run; it is made once."""
        key = (kind, snapshot_rounds)
        made = self.grounds.made
        if key not in made:
            folder = self.folder.parent / f"ground-{kind}-{snapshot_rounds}"
            made[key] = Ground(
                folder,
                kind,
                self.launcher,
                snapshot_rounds,
                messages=self.grounds.messages,
                plan=_plan(self.grounds.predictor),
            )
        return made[key]

    def workspace(self, ground: Ground) -> Workspace:
        """Make a fresh workspace with a name of its own."""
        return ground.workspace(f"{self.folder.name}-{next(self._numbers)}")

    def new_folder(self) -> Path:
        """Make a folder."""
        folder = self.folder / f"folder-{next(self._numbers)}"
        folder.mkdir()
        return folder


def _plan(predictor: str) -> Plan:
    """Return `long_plan`; of bisection one that learns, and so draws noise, in half of its rounds."""
    plan = long_plan(predictor)
    if predictor != "bisection":
        return plan
    learning = plan.rounds // 2
    return tiny_bisection_plan(learning, plan.rounds - learning)


@contextmanager
def timed(row: Row) -> Iterator[Row]:
    """Note how long the scenario took."""
    started = time.monotonic()
    yield row
    row.seconds += time.monotonic() - started


def expect_clear_stop(code: int, running: Running, codes: tuple[int, ...] = _STOPS) -> str:
    """Check that a process stopped with one clear line, and return the line.

    Raises:
        Violation: It did not.
    """
    errors = running.errors()
    lines = [line for line in errors.splitlines() if line.startswith("perpetua: ")]
    if code not in codes or len(lines) != 1 or "Traceback" in errors or "internal error" in errors:
        raise Violation(f"no clear stop (exit code {code}, not of {codes}): {errors[-800:]}")
    return lines[0]
