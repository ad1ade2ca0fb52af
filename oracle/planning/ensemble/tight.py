"""The planner of ensembles: the fewest rows for which noise changes few answers (PRIVACY.md, Estimate 28).

T, K and e go together: more teachers stand more noise, less noise takes fewer paid answers, and how many are paid for
follows from both and from what is declared of the queries.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET

from oracle.errors import PlanError
from oracle.planning.ensemble.guarantees import table_delta
from oracle.planning.ensemble.memory import kept_rows, phase_bytes
from oracle.planning.ensemble.model import ControlPlan, EnsembleModel, EnsemblePhase, EnsemblePlan
from oracle.planning.ensemble.sizes import (
    UNANIMOUS,
    Crowd,
    Need,
    Sized,
    Terms,
    changed,
    crowd_of,
    most_changed,
    questions_of,
    size_life,
    unanimous,
)
from oracle.planning.ensemble.verification import FEWEST_PHASES, verify_ensemble
from oracle.planning.guarantees import noise_delta
from oracle.planning.model import promises_of
from oracle.planning.plan import StopperPlan
from oracle.planning.sizes import CAP_SHARE, NOISE_SHARE

__all__ = ["plan_ensemble", "quick_ensemble_examples", "quick_terms", "rows_of_class", "too_rare"]

_GROWTH: Final = 3
"""t_p / t_(p-1): few generations of teachers, each fitted to more rows than the one before."""

_LONGEST: Final = 1 << 49
"""Rounds of all phases together, at most."""

_FIRST: Final = 1.2
"""Rounds of the first phase for each training row: its teachers label more rows than they had."""

_LATER_UNANIMOUS: Final = 0.2
"""The same of later lives, whose rows are free, so that they bear more noise on labels."""

_PUBLIC: Final = 0.03
"""Part of epsilon that noisy counts of classes take: of the training rows, and of each block's answers."""

_ENOUGH: Final = 8.0
"""Largest eps_S (nats)."""

_SAFE: Final = 1.0 - 1e-9
"""Keeps the sum of the deltas below delta, however it is rounded."""

_MOST: Final = 1 << 48
"""Examples that a model may declare at most."""

_MOST_TEACHERS: Final = 600_000
"""Teachers at most: the votes of more want wider noise than there are tables of (`_within_reach` of sizes)."""

_PRECISION: Final = 1.002
"""Steps in which the least number of examples is looked for."""

_GAIN: Final = 0.4
_LEAK: Final = 0.02
"""Both of a block. A leak of a twentieth of the gain: who is to be answered as often as he is there errs more often."""

_BLOCKS: Final = 64
"""Blocks of the first phase, after each of which thresholds are moved."""

_SHORTER: Final = 1.25
"""Steps in which the longest life is looked for."""

_TEACHER_LAG: Final = 256
"""Rounds for each of the next teachers to be fitted in: at 50,000 a second 5 ms, ten times what a small tree takes."""

_MOST_LAG: Final = 1 << 18
"""Rounds of that at most: more teachers are asked more slowly, too."""

_LAG, _LATER_LAG = 20, 3
"""Part of a phase that may be for fitting: of the first, and of the others, which have rows to spare."""


class _Draft(NamedTuple):
    """A sized run: rounds, deltas and sizes of each phase."""

    rounds: tuple[int, ...]
    deltas: tuple[float, ...]
    lives: tuple[int, ...]
    sizes: tuple[Sized, ...]


def plan_ensemble(model: EnsembleModel, _progress: Callable[[int], None] = lambda _step: None) -> EnsemblePlan:
    """Plan an ensemble, as if just enough examples were declared where the model declares too few.

    Formal guarantees:
        * Every (epsilon, delta) in the plan was handed to the accountant and holds (`verify_ensemble`).
        * The sum of delta over the declared examples and all rounds is at most `model.delta`.
        * Nothing but the model file enters.

    Raises:
        PlanError: A size is out of range, or a class is too rare for teachers of so few rows.
    """
    if model.shares is not None:
        _refuse_rare(model, model.shares)
    least = _least(model)
    model = msgspec.structs.replace(model, examples=max(model.examples, least))
    _refuse_many(model)
    plan = _write(model, _draft(model), least)
    verify_ensemble(plan)
    return plan


def quick_ensemble_examples(model: EnsembleModel) -> int:
    """Return the least number of examples; `plan_ensemble` takes longer only as it writes every phase down."""
    if model.shares is not None:
        _refuse_rare(model, model.shares)
    return _least(model)


def quick_terms(model: EnsembleModel) -> Terms:
    """Return about what the plan of a model rests on, for as many examples as suffice.

    Raises:
        PlanError: There is none.
    """
    draft = _draft(model, ends=True)
    if _short_of(model, draft):
        model = msgspec.structs.replace(model, examples=max(_least(model), model.examples))
        draft = _draft(model, ends=True)
    teachers = model.examples // model.teacher_rows
    crowds = crowd_of(model, teachers, first=True), crowd_of(model, teachers, first=False)
    return Terms.made_of(crowds, draft.sizes, _least_rounds(draft), model.beta / len(draft.rounds))


def rows_of_class(plan: EnsemblePlan) -> int:
    """Return the rows that a class has at least: about one for each teacher."""
    return -(-plan.declared // plan.teacher_rows)


def too_rare(plan: EnsemblePlan, beyond: int) -> str:
    """Return what is wrong with a class that has too few rows, and what it would take.

    Args:
        plan: The plan.
        beyond: By how many rows it exceeds what it needs, below 0, by a noisy count, so it is public.
    """
    fields = {name: getattr(plan, name) for name in EnsembleModel.__struct_fields__ if hasattr(plan, name)}
    model = EnsembleModel(**fields | {"examples": plan.declared, "shares": None, "data": None})
    share = (rows_of_class(plan) + beyond) / plan.declared
    return _rare(model, share, "the rarest class, counted with noise,")


def _refuse_rare(model: EnsembleModel, shares: Sequence[float]) -> None:
    share, name = min(zip(shares, model.classes, strict=True), key=lambda one: one[0])
    if share * model.teacher_rows < 1.0:
        raise PlanError(_rare(model, share, f"class {name!r}"))


def _refuse_many(model: EnsembleModel) -> None:
    teachers = model.examples // model.teacher_rows
    if teachers > _MOST_TEACHERS:
        rows = math.ceil(model.examples / _MOST_TEACHERS)
        raise PlanError(
            f"model.teacher_rows = {model.teacher_rows}: {teachers:,} teachers are more than there can be, "
            f"{_MOST_TEACHERS:,}; take teacher_rows = {rows:,} or more, or declare fewer examples"
        )


def _rare(model: EnsembleModel, share: float, name: str) -> str:
    """Return that a class is too rare, and which teachers and how many examples it would take."""
    said = f"{name} is {max(share, 0.0):.3g} of the rows, so most teachers of {model.teacher_rows} have none"
    where = f"model.teacher_rows = {model.teacher_rows}"
    if share <= 0.0:
        return f"{where}: {said}; leave it out of model.classes"
    rows = math.ceil(1.0 / share)
    try:
        needed = f" and {_least(msgspec.structs.replace(model, teacher_rows=rows)):,} examples"
    except PlanError:
        needed = ", for which no number of examples is enough"
    return f"{where}: {said}; it takes teacher_rows = {rows:,}{needed}"


def _public(model: EnsembleModel) -> float:
    return _PUBLIC * model.epsilon


def _stopper(model: EnsembleModel) -> float:
    """Return eps_S: all that the counts leave, or as much as makes its slack a few queries."""
    return min((model.epsilon - _public(model)) * (1.0 - 1e-12), _ENOUGH)


def _lengths(model: EnsembleModel) -> tuple[int, ...]:
    """Return t_1 = 1.2 n and t_p = 3 t_(p-1): phases of at most 2^49 rounds together, as far as noise is fine enough.

    Raises:
        PlanError: It is not fine enough for two.
    """
    rounds = [math.ceil(_FIRST * model.examples)]
    while sum(rounds) + _GROWTH * rounds[-1] <= _LONGEST:
        rounds.append(_GROWTH * rounds[-1])
    while len(rounds) >= FEWEST_PHASES:
        if _is_fine(model, rounds):
            return tuple(rounds)
        rounds.pop()
    raise PlanError(f"model.delta = {model.delta!r}: a second phase would be longer than noise of 128 bits allows")


def _is_fine(model: EnsembleModel, rounds: Sequence[int]) -> bool:
    """Return whether the distance of tables from their laws costs all phases a small part of delta."""
    public, stopper = _public(model), _stopper(model)
    lives = [sum(rounds[number : number + 2]) for number in range(len(rounds))]
    return all(
        noise_delta(stopper, life, 1) + 2.0 * noise_delta(public, 0, 1) <= NOISE_SHARE * delta
        for life, delta in zip(lives, _deltas(model, rounds), strict=True)
    )


def _deltas(model: EnsembleModel, rounds: Sequence[int]) -> tuple[float, ...]:
    """Return delta_p: half of delta for the training rows and phase 1, and the rest in equal parts."""
    first = model.delta / (2.0 * (model.examples + rounds[0])) * _SAFE
    return (first, *(model.delta / (2.0 * (len(rounds) - 1) * length) * _SAFE for length in rounds[1:]))


def _need(model: EnsembleModel, delta: float, rounds: int, phases: int) -> Need:
    public = _public(model)
    return Need(
        epsilon=model.epsilon,
        rho=public * public / 2.0 * (1.0 + 1e-11),
        stopper=_stopper(model),
        delta=delta,
        rounds=rounds,
        beta=model.beta / phases,
    )


def _life(model: EnsembleModel, crowd: Crowd, need: Need, wanted: float) -> tuple[int, Sized]:
    """Return the longest life, up to the rounds needed, that bears no more noise than wanted; or else the first's."""
    rounds = need.rounds
    while True:
        sized = size_life(crowd, replace(need, rounds=rounds))
        least = math.ceil(_FIRST * model.examples)
        if sized.slope >= wanted or rounds <= least:
            return rounds, sized
        rounds = max(math.floor(rounds / _SHORTER), least)


def _draft(model: EnsembleModel, *, ends: bool = False) -> _Draft:
    """Size all phases; or only the first and the last, whose delta is the least, by lives as long as the first's."""
    rounds = _lengths(model)
    deltas = _deltas(model, rounds)
    teachers = max(model.examples // model.teacher_rows, 1)
    life, first = _life(
        model, crowd_of(model, teachers, first=True), _need(model, deltas[0], rounds[0], len(rounds)), 0.0
    )
    later = crowd_of(model, teachers, first=False)
    lives, sizes = [life], [first]
    for length, delta in list(zip(rounds, deltas, strict=True))[-1 if ends else 1 :]:
        most = rounds[0] if ends else min(length, _GROWTH * life)
        life, sized = _life(model, later, _need(model, delta, most, len(rounds)), first.slope)
        lives.append(life)
        sizes.append(sized)
    return _Draft(rounds, deltas, tuple(lives), tuple(sizes))


def _short_of(model: EnsembleModel, draft: _Draft) -> bool:
    """Return whether noise changes too many answers of a draft."""
    teachers = max(model.examples // model.teacher_rows, 1)
    for number, sized in enumerate(draft.sizes):
        crowd = crowd_of(model, teachers, first=number == 0)
        share = _LATER_UNANIMOUS if number else UNANIMOUS
        if changed(crowd, sized.slope) > model.alpha or unanimous(crowd, sized.slope) > share * model.alpha:
            return True
    return False


def _lacks(model: EnsembleModel) -> bool:
    try:
        return _short_of(model, _draft(model, ends=True))
    except PlanError:
        return True


def _least(model: EnsembleModel) -> int:
    """Return about the least number of examples for which noise changes few enough answers.

    Raises:
        PlanError: None is enough.
    """

    def lacks(examples: int) -> bool:
        return _lacks(msgspec.structs.replace(model, examples=examples))

    low, high = model.teacher_rows, 64 * model.teacher_rows
    while lacks(high):
        low, high = high, 2 * high
        if high > _MOST:
            raise PlanError(_hopeless(model))
    while high > _PRECISION * low and high - low > model.teacher_rows:
        middle = (low + high) // 2
        low, high = (middle, high) if lacks(middle) else (low, middle)
    return -(-high // model.teacher_rows) * model.teacher_rows


def _hopeless(model: EnsembleModel) -> str:
    return (
        f"model.alpha = {model.alpha!r}: no number of examples is enough at epsilon = {model.epsilon:g} and "
        f"teacher_rows = {model.teacher_rows:,}; "
        "take a larger alpha or epsilon, fewer teacher_rows, or a gamma nearer to 1"
    )


def _write(model: EnsembleModel, draft: _Draft, least: int) -> EnsemblePlan:
    teachers = model.examples // model.teacher_rows
    phases = tuple(_write_phase(model, draft, index) for index in range(len(draft.rounds)))
    plan = EnsemblePlan(
        **promises_of(model),
        profile=model.profile,
        learner=model.learner,
        parameters=model.parameters,
        preprocessing=model.preprocessing,
        classes=model.classes,
        shares=UNSET if model.shares is None else model.shares,
        teachers=teachers,
        teacher_rows=model.teacher_rows,
        contested=model.contested,
        questions=questions_of(model),
        examples=least,
        declared=model.examples,
        share_slope=_public(model) if model.shares is None else UNSET,
        control=ControlPlan(
            block_rounds=max(math.ceil(draft.rounds[0] / _BLOCKS), _BLOCKS),
            epsilon=_public(model),
            gain=_GAIN,
            leak=_LEAK,
        ),
        changed=0.0,
        phases=phases,
        memory_bytes=0,
    )
    phases = tuple(
        msgspec.structs.replace(phase, delta_noise=table_delta(plan, index), memory_bytes=phase_bytes(plan, index))
        for index, phase in enumerate(phases)
    )
    return msgspec.structs.replace(
        plan,
        changed=most_changed(plan),
        phases=phases,
        memory_bytes=max(phase.memory_bytes for phase in phases),
    )


def _write_phase(model: EnsembleModel, draft: _Draft, index: int) -> EnsemblePhase:
    sized, rounds = draft.sizes[index], draft.rounds[index]
    stopper = StopperPlan(
        epsilon=_stopper(model),
        threshold=sized.threshold,
        cap=sized.cap,
        delta_cap=draft.deltas[index] * CAP_SHARE,
    )
    kept = min(kept_rows(model.features, model.examples, draft.rounds[0]), rounds)
    return EnsemblePhase(
        phase=index + 1,
        rounds=rounds,
        delta=draft.deltas[index],
        delta_noise=0.0,
        slope=sized.slope,
        gap=sized.gap,
        paid=questions_of(model) * sized.cap,
        stopper=stopper,
        least_rounds=_least_rounds(draft),
        kept_rows=kept,
        keep=_keep(kept, draft.lives[index]),
        lag=_lag(model.examples // model.teacher_rows, rounds, index),
        memory_bytes=0,
    )


def _least_rounds(draft: _Draft) -> int:
    return math.ceil(draft.rounds[0] / 2.0)


def _lag(teachers: int, rounds: int, index: int) -> int:
    """Return the rounds at a phase's end in which the next teachers are fitted beside answering."""
    part = rounds // (_LATER_LAG if index else _LAG)
    return max(min(part, _TEACHER_LAG * teachers, _MOST_LAG), 1)


def _keep(kept: int, life: int) -> float:
    """Return the probability at which the rounds of a life of the length expected take no more slots than there are."""
    return 1.0 if life <= kept else max(kept - 6.0 * math.sqrt(kept), 1.0) / life
