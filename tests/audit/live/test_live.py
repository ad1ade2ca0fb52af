"""What answers is what is due: the real thing passes, and a law, a choice or a draw that is off is found."""

import numpy as np
import pytest
from msgspec.structs import replace

from oracle.audit.due.live import due_parts
from oracle.audit.games.learners import LEARNERS
from oracle.audit.games.plans import TARGETS, small_plan
from oracle.audit.live import checks
from oracle.audit.runs.served import Served
from oracle.audit.runs.steering import Steered
from oracle.audit.structure.checks import run_check, structure_names
from oracle.mechanisms.choice import exponential, stripes
from oracle.mechanisms.noise import tables
from oracle.mechanisms.thresholds import paid, stopper
from oracle.predictors import classical, rectangles, sides, stumps
from oracle.predictors.ensemble import predictor, trainer
from oracle.predictors.statistics import predictor as statistics
from tests.audit.planted.mutants import forgetting

SEED = bytes(range(32, 48))
_LAWFUL = "thresholds and noise are the plan's, exactly"
_SETTLED = "noise behind a restart has the law that is due"
_CHOSEN = "private choices have the law that is due"
_PLAIN = "answers are those of a plain re-implementation"

_QUICK = {
    ("boxes, learned edges", _CHOSEN),
    ("boxes, paper", _SETTLED),
    ("classical stump", _CHOSEN),
    ("boxes, learned edges", _LAWFUL),
    ("bisection, paper", _LAWFUL),
    ("distribution", _LAWFUL),
    ("sparse vector, few", _LAWFUL),
    ("statistics, three attributes", _LAWFUL),
    ("stumps, paper", _LAWFUL),
}
_ALL = [one for one in dict.fromkeys(structure_names()) if one[1] in {_LAWFUL, _SETTLED, _CHOSEN}]


@pytest.mark.parametrize(
    ("target", "name"), [one if one in _QUICK else pytest.param(*one, marks=pytest.mark.slow) for one in _ALL]
)
def test_the_real_thing_passes(target, name):
    """Of every predictor: nothing is said against what is as due."""
    found = run_check(target, name, SEED)
    assert found.passed, found.says


def _later_only(patch):
    """Sides of later phases have a little less noise."""
    real = sides.SideBank.__dict__["begin"].__func__
    less = lambda one: replace(one, scale=1.1 * one.scale)  # noqa: E731 -- one that stands for its name

    def begin(cls, phase, *rest):
        return real(cls, phase if phase.phase == 1 else replace(phase, rearmed=less(phase.rearmed)), *rest)

    patch.setattr(sides.SideBank, "begin", classmethod(begin))


def _short_tails(patch):
    """Noise has no tails: beyond 30 nats it never is."""
    real = tables.tail_reach
    patch.setattr(tables, "tail_reach", lambda scale: min(real(scale), int(30.0 / scale)))
    tables.edges.cache_clear()


def _louder(module, factor):
    def plant(patch):
        patch.setattr(module, "edges", lambda law, scale, *rest: tables.edges(law, factor * scale, *rest))

    return plant


def _choices(factor):
    def plant(patch):
        exactly, once, draw = exponential.choose_exactly, exponential.choose, tables.sample
        for module in (classical, stripes):
            patch.setattr(module, "choose_exactly", lambda scale, *rest: exactly(factor * scale, *rest))
        patch.setattr(stumps, "choose", lambda scale, *rest: once(factor * scale, *rest))
        for module in (rectangles, stumps, trainer):
            patch.setattr(module, "sample", lambda law, scale, words: draw(law, factor * scale, words))

    return plant


def _one_draw(patch):
    """Both questions about a table have one draw."""
    patch.setattr(statistics, "_SIDES", np.zeros(2, dtype=np.uint64))


def _in_phase(number, change):
    """A number of one phase is another one, and of no other."""

    def plant(patch):
        real = sides.SideBank.__dict__["begin"].__func__

        def begin(cls, phase, *rest):
            return real(cls, change(phase) if phase.phase == number else phase, *rest)

        patch.setattr(sides.SideBank, "begin", classmethod(begin))

    return plant


def _less_again(phase):
    return replace(phase, rearmed=replace(phase.rearmed, scale=2.0 * phase.rearmed.scale))


def _narrower_again(phase):
    return replace(phase, rearmed=replace(phase.rearmed, high=phase.rearmed.high - 1))


def _narrower_start(phase):
    return replace(phase, start=replace(phase.start, low=phase.start.low + 1))


def _other_stopper(phase):
    return replace(phase, stopper=replace(phase.stopper, epsilon=2.0 * phase.stopper.epsilon))


def _later_stopper(phase):
    return replace(phase, stopper=replace(phase.stopper, threshold=phase.stopper.threshold + 1))


def _life_with(number, change, *, before=False):
    """An ensemble's life has another number, where it was armed within a phase, or in the one before."""

    def plant(patch):
        real = vars(predictor.Ensemble)["_life_phase"].fget

        def life_phase(self):
            old = self._armed_in < self._phase
            mine = old if before else not old and self._armed
            return change(real(self)) if self._phase == number and mine else real(self)

        patch.setattr(predictor.Ensemble, "_life_phase", property(life_phase))

    return plant


def _sharper(phase):
    return replace(phase, slope=2.0 * phase.slope)


def _as_at_the_start(patch):
    """A side that was armed again has its start's thresholds behind a restart."""
    real = rectangles.RectanglesPERP._restore_bank

    def restore_bank(self, arrays):
        real(self, {**arrays, "fresh": np.zeros_like(arrays["fresh"])})

    patch.setattr(rectangles.RectanglesPERP, "_restore_bank", restore_bank)


_FOUND = (
    (_in_phase(3, _less_again), "boxes, one side", _LAWFUL),
    (_in_phase(2, _narrower_again), "boxes, faces", _LAWFUL),
    (_in_phase(3, _narrower_again), "stumps", _LAWFUL),
    (_in_phase(2, _narrower_start), "boxes, sequential", _LAWFUL),
    (_in_phase(3, _other_stopper), "boxes, learned edges", _LAWFUL),
    (_in_phase(3, _later_stopper), "stumps", _LAWFUL),
    (_in_phase(3, _less_again), "stumps, paper", _LAWFUL),
    (_life_with(3, _sharper), "ensemble", _LAWFUL),
    (_life_with(3, _other_stopper), "ensemble", _LAWFUL),
    (_life_with(2, _sharper, before=True), "ensemble", _LAWFUL),
    (_as_at_the_start, "boxes, one side", _LAWFUL),
    (_later_only, "boxes, one side", _LAWFUL),
    (_later_only, "stumps, paper", _LAWFUL),
    (_short_tails, "boxes, paper", _LAWFUL),
    (_short_tails, "sparse vector", _LAWFUL),
    (_louder(paid, 1.25), "boxes, one side", _SETTLED),
    (_louder(stopper, 2.0), "stumps, paper", _SETTLED),
    (_louder(stopper, 0.5), "stumps", _SETTLED),
    (_choices(2.0), "classical stump", _CHOSEN),
    (_choices(2.0), "stumps", _CHOSEN),
    (_one_draw, "statistics", _PLAIN),
    *(
        pytest.param(_choices(2.0), target, _CHOSEN, marks=pytest.mark.slow)
        for target, name in _ALL
        if name == _CHOSEN and target not in {"classical stump", "stumps"}
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize(("plant", "target", "name"), _FOUND)
def test_what_is_off_is_found(monkeypatch, plant, target, name):
    """Less noise in later phases or in tails, choices at twice the epsilon, one draw for two: each is named."""
    with forgetting(), monkeypatch.context() as patch:
        plant(patch)
        found = run_check(target, name, SEED)
    assert not found.passed


def _nobody_asks(run, *_):
    return Steered(run._replace(messages=[None for message in run.messages if message != ()]), [])


@pytest.mark.slow
def test_a_side_that_was_not_armed_again_is_named(monkeypatch):
    """Where nobody asks, what is due of sides that are armed again was not heard, and so nothing is said for it."""
    monkeypatch.setattr(checks, "steered", _nobody_asks)
    found = run_check("boxes, one side", _LAWFUL, SEED)
    assert not found.passed
    assert "phase 1: Stoppers of lives that are armed within the phase" in found.says
    assert "phase 1: depths of lives that are armed within the phase" in found.says


@pytest.mark.slow
@pytest.mark.parametrize("target", ["boxes, one side", "distribution"])
def test_what_was_not_heard_behind_a_restart_is_named(monkeypatch, target):
    """Without restarts the same mechanisms are heard, and it shows that none was behind one."""
    real = Served.restart

    def only_in_phase_1(self):
        if self._shard.facts().phase == 1 and target != "distribution":
            real(self)

    monkeypatch.setattr(Served, "restart", only_in_phase_1)
    monkeypatch.setattr(
        checks, "_played", _first_entered(checks._played) if target == "distribution" else checks._played
    )
    found = run_check(target, _LAWFUL, SEED)
    assert not found.passed
    assert "heard in no run" in found.says
    assert "behind a restart" in found.says


def _first_entered(played):
    """Return a run whose first state counts as none that was taken back."""

    def play(plan, randomness, number, found):
        found.taken_back = lambda _sides: found.armed()
        return played(plan, randomness, number, found)

    return play


@pytest.mark.slow
def test_a_life_that_did_not_come_is_named(monkeypatch):
    """Where only such runs are played whose lives end with phases, none was heard to go on in the next."""
    monkeypatch.setattr(checks, "_RUNS", 1)
    found = run_check("ensemble", _LAWFUL, SEED)
    assert not found.passed
    assert found.says.startswith(
        "due, and heard in no run: phase 2: Stoppers of lives that were armed in the phase before"
    )


def test_what_a_phase_cannot_draw_is_not_due():
    """No slice is cut behind the last phase, what is learned in phase 1 is not chosen again, nor is a bit asked for."""
    boxes = due_parts(small_plan(next(one for one in TARGETS if one.name == "boxes, paper"), 4.0, 0.01))
    assert [part.name for part in boxes[2] if "slices" in part.name] == []
    assert len([part for part in boxes[1] if "slices" in part.name]) == 2
    bisection = due_parts(next(one for one in LEARNERS if one.predictor == "bisection").plan(4.0))
    assert [len(bisection[phase]) for phase in (1, 2)] == [1, 0]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("target", ["boxes, faces", "stumps, paper", "ensemble"])
@pytest.mark.slow
def test_all_that_is_due_is_heard_by_other_seeds(target, seed):
    """Runs reach it by what is asked, and not by luck."""
    found = run_check(target, _LAWFUL, bytes([seed] * 16))
    assert found.passed, found.says
