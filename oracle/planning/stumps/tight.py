"""The `tight` planner of stumps: eps_sel + eps_cut for the stump, the rest for one side; the least n over all shares.

Sources: Stemmer (2024), Algorithm 7; PRIVACY.md, Theorem 10. A training record pays
eps_sel + eps_cut + (the rest, for its instance of phase 1); a query pays eps_S and the instance it may sit in later.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.errors import PlanError
from oracle.planning.boxes.drafts import Task, count_allowed, count_phases, draft_error, draft_phases, write_phases
from oracle.planning.boxes.model import BoxModel, side_names
from oracle.planning.boxes.tight import FEW_PHASES, SEARCH_STEPS, verify_in_steps, with_slack
from oracle.planning.features import stand_in
from oracle.planning.model import promises_of
from oracle.planning.search import first_enough, least_in_box
from oracle.planning.sizes import Shares
from oracle.planning.stumps.model import SelectionPlan, StumpsModel, StumpsPlan

__all__ = ["plan_stumps", "quick_stump_examples", "selection_error"]

_LOWEST: Final = np.array([0.3, 0.3, 0.01, 0.3, 0.002])
_HIGHEST: Final = np.array([0.95, 10.0, 0.6, 0.97, 0.3])
_FIRST_GUESS: Final = np.array([0.9, 3.0, 0.1, 0.8, 0.04])

_RELEASED: Final = (0.1, 0.25)
"""Further parts of epsilon for the choice, beside the first guess's, where nothing is searched for."""

_USUAL: Final = 2**20
"""Examples for which eps_sel + eps_cut is split; any others need about the same split."""

_MOST: Final = 0.6
"""Part of alpha that the choice of the stump may take at most."""

_FEWEST: Final = 512
"""Examples below which no stump is chosen."""

_PRECISION: Final = 1.002
"""Steps in which the least number of examples is looked for."""

_LARGEST: Final = 2**48
"""Examples that a model may declare at most."""

_CONFIDENCE: Final = 8.0
"""Each of four bounds on the choice's error is missed with probability beta / 8."""


class _Split(NamedTuple):
    """The searched numbers.

    Attributes:
        shares: Of the phases.
        released: (eps_sel + eps_cut) / epsilon.
    """

    shares: Shares
    released: float


def _epsilons(model: StumpsModel, released: float) -> tuple[float, float]:
    """Return (eps_sel, eps_cut): of all splits of their sum the one with the least sum of their errors' bounds."""
    weights = [math.sqrt(weight) for weight in _logs(model, len(side_names(model)), _USUAL)]
    whole = released * model.epsilon
    return whole * weights[0] / sum(weights), whole * weights[1] / sum(weights)


def _logs(model: StumpsModel, candidates: int, rows: int) -> tuple[float, float]:
    """Return n eps times what either choice loses: a candidate x worse than the best has weight exp(-e x) of its."""
    miss = model.beta / _CONFIDENCE
    return math.log(candidates / miss), 2.0 * math.log((rows + 1) / miss)


def selection_error(model: StumpsModel, epsilons: tuple[float, float], rows: int) -> float:
    """Return a bound on what the chosen stump errs more than the best one, missed with probability at most beta / 2.

    * The choices: with probability 1 - beta/8 each, ln(8 K/beta)/eps_sel and 2 ln(8 (n + 1)/beta)/eps_cut examples.
    * The sample, for the chosen one: its error is the sum of two sub-distribution functions at its threshold, each
      within sqrt(ln(16 K/beta)/(2n)) of the sample's for all thresholds of all K pairs (Massart, 1990, one-sided;
      there are 2K of them), but with probability beta/8.
    * The sample, for the best one: Hoeffding's inequality, but with probability beta/8.

    This takes it that few examples are equal in the chosen feature. Where many are, a cut may part them, which no stump
    does; as ties go by a coin (`choice.stumps.ranking`), such a cut gets about as many wrong as one at either end, or
    more, and the side's depth decides for all of them alike: an estimate that experiments support.

    Args:
        model: The model.
        epsilons: (eps_sel, eps_cut).
        rows: n.
    """
    candidates, miss = len(side_names(model)), model.beta / _CONFIDENCE
    chosen = sum(log / epsilon for log, epsilon in zip(_logs(model, candidates, rows), epsilons, strict=True)) / rows
    sample = 2.0 * math.sqrt(math.log(2.0 * candidates / miss) / (2.0 * rows))
    return chosen + sample + math.sqrt(math.log(1.0 / miss) / (2.0 * rows))


def _task(model: StumpsModel, split: _Split, rows: int) -> Task | None:
    """Return the task of the one side that is left, or None where n is too small for any."""
    error = selection_error(model, _epsilons(model, split.released), rows)
    if error > _MOST * model.alpha:
        return None
    rest = {"features": (stand_in(model.features, "lower"),), "alpha": model.alpha - error, "beta": model.beta / 2.0}
    side = BoxModel(**promises_of(model) | rest, examples=rows, first_share=model.first_share)
    return Task(side, 1, 1.0, split.released * model.epsilon)


def _needed(model: StumpsModel, split: _Split, rows: int) -> int:
    """Return the n that two phases need if the choice is made among `rows`; more than `rows` where these are few."""
    task = _task(model, split, rows)
    return 2 * rows if task is None else draft_phases(task, split.shares, 2, None).examples


def _least(model: StumpsModel, split: _Split) -> int:
    """Return about the least n of which two phases need no more than n."""
    low, high = _FEWEST, 2 * _FEWEST
    while _needed(model, split, high) > high:
        low, high = high, 2 * high
        if high > _LARGEST:
            raise PlanError(f"model.alpha = {model.alpha!r}: no number of examples suffices")
    while high > low * _PRECISION:
        middle = (low + high) // 2
        if _needed(model, split, middle) > middle:
            low = middle
        else:
            high = middle
    return high


def _enough(model: StumpsModel, split: _Split, count: int) -> int:
    """Return about the least n that suffices for all phases when it is declared (delta_1 depends on it)."""
    rows = _least(model, split)
    while not _suffices(model, split, count, rows):
        rows = math.ceil(rows * _PRECISION)
    return rows


def _suffices(model: StumpsModel, split: _Split, count: int, rows: int) -> bool:
    task = _task(model, split, rows)
    return task is not None and draft_phases(task, split.shares, count, rows).examples <= rows


def _split_at(model: StumpsModel, point: NDArray[np.float64]) -> _Split:
    contamination, gap, stopper, first, released = (float(value) for value in point)
    return _Split(Shares(contamination, gap, stopper, model.first_share or first), released)


def _search(model: StumpsModel, progress: Callable[[int], None]) -> _Split:
    """Minimise n over all shares; two phases stand for all."""
    near = _least(model, _split_at(model, _FIRST_GUESS))

    def objective(point: NDArray[np.float64]) -> float:
        return math.log(_needed(model, _split_at(model, point), near))

    found = least_in_box(objective, _LOWEST, _HIGHEST, _FIRST_GUESS, steps=SEARCH_STEPS, progress=progress)
    return _split_at(model, found)


def _first_splits(model: StumpsModel) -> list[_Split]:
    """Return the shares that are tried without a search; few rows, or a large epsilon, want more for the choice."""
    first = _split_at(model, _FIRST_GUESS)
    return [first, *(first._replace(released=released) for released in _RELEASED)]


def quick_stump_examples(model: StumpsModel) -> int:
    """Return how many examples the best of a few shares wants (see `tight.quick_examples`).

    Raises:
        PlanError: A size is out of range, or the declared examples are too few to choose a stump by.
    """
    wanted: list[int] = []
    refusals: list[PlanError] = []
    for split in _first_splits(model):
        try:
            wanted.append(_quick(model, split))
        except PlanError as exc:
            refusals.append(exc)
    if not wanted:
        raise refusals[0]
    return min(wanted)


def _quick(model: StumpsModel, split: _Split) -> int:
    task = _task(model, split, model.examples)
    if task is None:
        raise _too_few(model.examples)
    draft = draft_phases(task, split.shares, FEW_PHASES, model.examples)
    count_allowed(task, draft)
    return with_slack(draft.examples)


def _too_few(rows: int) -> PlanError:
    return PlanError(f"model.examples = {rows}: too few to choose a stump by")


def plan_stumps(model: StumpsModel, progress: Callable[[int], None]) -> StumpsPlan:
    """Plan a run, as if just enough examples were declared where the model declares too few.

    Formal guarantees:
        * Every (epsilon, delta) in the plan was handed to the accountant and holds (`guarantees.verify`).
        * The sum of delta over the declared examples and all rounds is at most `model.delta`.
        * Nothing but the model file enters.

    Args:
        model: The model.
        progress: Called after each of at most `PLAN_STEPS` steps.

    Raises:
        PlanError: A size is out of range.
    """
    rows = model.examples
    split, count = _settle(model, progress)
    if not _suffices(model, split, count, rows):
        rows = max(_enough(model, split, count), rows + 1)
    plan = _write(model, split, count, rows)
    verify_in_steps(plan, progress)
    return plan


def _settle(model: StumpsModel, progress: Callable[[int], None]) -> tuple[_Split, int]:
    """Return the shares that are found, or the first ones where only these do (see `tight`), and how many phases."""

    def counted(split: _Split) -> tuple[_Split, int]:
        rows = model.examples
        task = _task(model, split, rows) or _task(model, split, _least(model, split))
        if task is None:
            raise _too_few(rows)
        return split, count_phases(task, split.shares, rows)

    return first_enough(
        lambda: counted(_search(model, progress)),
        *(partial(counted, split) for split in _first_splits(model)),
        enough=lambda found: _suffices(model, *found, model.examples),
    )


def _write(model: StumpsModel, split: _Split, count: int, rows: int) -> StumpsPlan:
    task = _task(model, split, rows)
    if task is None:
        raise _too_few(rows)
    draft = draft_phases(task, split.shares, count, rows)
    phases = write_phases(task, draft)
    error, deep = draft_error(task, split.shares, draft)
    chosen, cut = _epsilons(model, split.released)
    selection = selection_error(model, (chosen, cut), rows)
    return StumpsPlan(
        **promises_of(model),
        profile=model.profile,
        sides=("stump:edge",),
        slicing="faces",
        coin=0.0,
        share=1.0,
        examples=min(draft.examples, rows),
        declared=rows,
        expected_error=error + selection,
        deep_error=deep,
        stopper_share=split.shares.stopper,
        first_share=split.shares.first,
        contamination=split.shares.contamination,
        phases=phases,
        memory_bytes=max(phase.memory_bytes for phase in phases),
        selection=SelectionPlan(
            candidates=len(side_names(model)),
            scale=chosen,
            epsilon=chosen,
            cut_law="choice",
            cut_scale=cut / 2.0,
            cut_epsilon=cut,
            error=selection,
        ),
    )
