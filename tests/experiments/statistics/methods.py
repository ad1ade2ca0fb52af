"""What is compared: each method's answers to the same questions."""

import itertools
import math
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracle.planning.statistics.model import StatisticsPlan
from tests.experiments.statistics.counts import noise
from tests.experiments.statistics.mwem import mwem
from tests.experiments.statistics.ours import DELTA, EPSILON, answered
from tests.experiments.statistics.questions import Questions, counted, shares
from tests.experiments.statistics.tables import Table
from tests.experiments.statistics.turbo import FORMS, Served, Turbo, serve
from tests.support.folders import environment

PEERS: Final = Path("build/statistics/peers/bin/python")
"""Has what `requirements.txt` says; `make statistics` puts it there."""


@dataclass(frozen=True)
class Outcome:
    """One run of one method.

    Attributes:
        name: The method.
        told: What it was told before it answered anything.
        errors: float64[k], absolute errors.
        paid: Paid answers; None where there are none.
        seconds: Of the processor (of the clock for `aim`).
        note: What else there is to say.
    """

    name: str
    told: str
    errors: NDArray[np.float64]
    paid: int | None
    seconds: float
    note: str = ""

    @property
    def largest(self) -> float:
        """The largest error."""
        return float(self.errors.max())

    @property
    def mean(self) -> float:
        """The mean error."""
        return float(self.errors.mean())


def ours(
    plan: StatisticsPlan, table: Table, questions: Questions, keys: Sequence[int], name: str = "Perpetua"
) -> Iterator[Outcome]:
    """Run Perpetua under some keys."""
    truth = shares(counted(table), questions)
    for key in keys:
        run = answered(plan, table, questions, key)
        errors = np.abs(run.values - truth)
        yield Outcome(name, "nothing", errors, int(run.paid[-1]), run.starting + run.answering)


def one_way(plan: StatisticsPlan) -> StatisticsPlan:
    """Return the plan with a start from one-way marginals, at the same cost in zCDP."""
    assert isinstance(plan.start_slope, float)
    start = tuple((number,) for number in range(len(plan.attributes)))
    slope = plan.start_slope * math.sqrt(len(plan.start) / len(start))
    return msgspec.structs.replace(plan, start=start, start_slope=slope)


def uniform(plan: StatisticsPlan) -> StatisticsPlan:
    """Return the plan with a uniform start; what it saves is not spent."""
    return msgspec.structs.replace(plan, start=(), start_slope=msgspec.UNSET)


def counts(table: Table, questions: Questions, scale: float) -> Outcome:
    """Draw a Gaussian count for each question."""
    begun = time.process_time()
    errors = np.abs(noise(scale, len(questions))) / len(table.cells)
    return Outcome("a Gaussian count each (OpenDP)", "how many questions", errors, None, time.process_time() - begun)


def mwem_of(table: Table, questions: Questions, scale: float, rounds: int) -> Outcome:
    """Run MWEM with what `scale` has of zCDP."""
    begun = time.process_time()
    errors = np.abs(mwem(table, questions, 0.5 / scale**2, rounds, 1) - shares(counted(table), questions))
    return Outcome(f"MWEM, {rounds} rounds", "all questions", errors, rounds, time.process_time() - begun)


def turbo_of(table: Table, questions: Questions, alpha: float, form: str, *, beyond: bool) -> Outcome:
    """Run a form of Turbo; its histogram answers what its budget does not allow.

    Args:
        table: The table.
        questions: What is asked.
        alpha: The error to keep to, a share of the rows.
        form: One of FORMS.
        beyond: See what it would take to answer all, too.
    """
    begun = time.process_time()
    served = serve(Turbo(table, questions, FORMS[form], alpha, 1), EPSILON, DELTA, beyond=beyond)
    errors = np.abs(served.values - shares(counted(table), questions))
    seconds = time.process_time() - begun
    note = _served(served, errors, len(table.cells))
    return Outcome(f"Turbo, {form}", "nothing", errors, served.spent.paid, seconds, note)


def _served(served: Served, errors: NDArray[np.float64], rows: int) -> str:
    first = errors[: served.within]
    budget = (
        f"{served.within:,} answers within its budget (largest error {first.max():.2%}, mean {first.mean():.3%}), "
        f"{served.spent.paid:,} of them paid and {served.spent.resets:,} sparse vectors begun"
    )
    if served.total is None:
        return f"{budget}."
    return (
        f"{budget}; all answers would cost epsilon = {served.total.epsilon(DELTA):.2f}, or want "
        f"{served.total.noise_for(EPSILON, DELTA) * rows:,.0f} rows ({served.total.paid:,} paid)."
    )


def aim(table: Table, questions: Questions, limits: tuple[float, float], folder: Path) -> Outcome | None:
    """Run AIM, once: what it found is kept. None where it takes too long, or is not installed.

    Args:
        table: The table.
        questions: What is asked.
        limits: MiB of its model, and seconds.
        folder: Where `aim-NAME.npz` is kept.
    """
    target = folder / f"aim-{table.name.split()[0]}.npz"
    if not target.exists() and not _fit_aim(table, limits, target):
        return None
    found = dict(np.load(target))
    sets = [about for size in (1, 2, 3) for about in itertools.combinations(range(len(table.attributes)), size)]
    marginals = {about: found["-".join(map(str, about))] for about in sets}
    errors = np.abs(shares(marginals.__getitem__, questions) - shares(counted(table), questions))
    return Outcome("AIM (smartnoise-synth)", "all marginals of three", errors, None, float(found["seconds"]))


def _fit_aim(table: Table, limits: tuple[float, float], target: Path) -> bool:
    if not PEERS.exists():
        return False
    with tempfile.TemporaryDirectory() as made:
        source, found = Path(made) / "in.npz", Path(made) / "out.npz"
        np.savez(source, cells=table.cells, shape=table.layout.shape)
        script, numbers = Path(__file__).with_name("aim.py"), (EPSILON, DELTA, limits[0], 1)
        try:
            subprocess.run(
                [PEERS, script, source, found, *map(str, numbers)],
                check=True,
                stdout=subprocess.DEVNULL,
                timeout=limits[1],
                env=environment(),
            )
        except subprocess.TimeoutExpired:
            return False
        shutil.copy(found, target)
    return True
