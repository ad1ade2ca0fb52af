"""Thresholds: where they start, how they are steered, and how far."""

import msgspec
import numpy as np
import pytest

from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.mechanisms.keys import PhaseKey
from oracle.planning.ensemble.model import EnsemblePlan
from oracle.predictors.ensemble.control import Control
from tests.predictors.plans import feature, tiny_ensemble_plan

_SHARE = 0.2
_BLOCK = 500


def _plan(teachers: int = 1000, slope: float = 0.05, **control: float) -> EnsemblePlan:
    """Return a plan with many teachers, and counts almost without noise."""
    plan = tiny_ensemble_plan((feature("a"),))
    steered = msgspec.structs.replace(plan.control, **{"block_rounds": _BLOCK, "epsilon": 8.0, **control})
    phases = tuple(msgspec.structs.replace(phase, slope=slope) for phase in plan.phases)
    return msgspec.structs.replace(plan, teachers=teachers, control=steered, phases=phases, alpha=0.05)


def _control(plan: EnsemblePlan, shares: tuple[float, ...]) -> Control:
    """Return what steers in a first life."""
    return Control(plan, shares, plan.phases[0].slope)


def _words(number: int, classes: int = 2) -> np.ndarray:
    """Return uniform bits."""
    addresses = Addresses(PhaseKey(bytes(32)), 1)
    one = np.array([number], dtype=np.uint64)
    return addresses.words(Purpose.CHOICE, one, np.arange(classes, dtype=np.uint64), None)[:, 0]


def _block(control: Control, positives: int, number: int = 0, rounds: int = _BLOCK) -> None:
    """Answer a block, of which so many get class 1."""
    control.count((np.arange(rounds) < positives).astype(np.int8), _BLOCK)
    control.close(_words(number))


def test_a_threshold_starts_halfway_between_the_share_and_the_middle_in_log_odds() -> None:
    """With odds of 1 to 4, at 1 to 2: a third."""
    assert _control(_plan(), (1.0 - _SHARE, _SHARE)).thresholds == pytest.approx([1.0 / 3.0])


@pytest.mark.parametrize(("positives", "sign"), [(0, -1.0), (60, -1.0), (140, 1.0), (_BLOCK, 1.0)])
def test_a_class_that_is_answered_too_often_is_made_harder_to_reach(positives: int, sign: float) -> None:
    """And one that is answered too seldom easier."""
    control = _control(_plan(), (1.0 - _SHARE, _SHARE))
    before = control.thresholds.copy()
    _block(control, positives)
    assert sign * (control.thresholds - before) > 0.0


def test_a_step_is_never_longer_than_the_gain() -> None:
    """Whatever is answered."""
    plan = _plan(gain=0.3, leak=0.0)
    control = _control(plan, (1.0 - _SHARE, _SHARE))
    _block(control, _BLOCK)
    assert np.log(control.thresholds / (1.0 - control.thresholds)) == pytest.approx(np.log(0.5) + 0.3)


def test_a_block_without_queries_draws_the_threshold_back_only() -> None:
    """As nothing is known of it."""
    control = _control(_plan(gain=0.3, leak=0.5), (1.0 - _SHARE, _SHARE))
    _block(control, _BLOCK)
    far = np.log(control.thresholds / (1.0 - control.thresholds)) - np.log(0.5)
    _block(control, 0, rounds=0)
    near = np.log(control.thresholds / (1.0 - control.thresholds)) - np.log(0.5)
    assert near == pytest.approx(far / 2.0, abs=0.01)


@pytest.mark.parametrize("share", [0.01, _SHARE, 0.5])
@pytest.mark.parametrize("positives", [0, _BLOCK])
def test_noise_changes_few_unanimous_answers_wherever_a_threshold_is_steered(share: float, positives: int) -> None:
    """At most alpha times the class's share, however long it is steered one way."""
    plan = _plan(leak=0.0)
    control = _control(plan, (1.0 - share, share))
    for number in range(100):
        _block(control, positives, number)
    distance = np.minimum(control.thresholds, 1.0 - control.thresholds) * plan.phases[0].slope * plan.teachers
    assert np.exp(-distance) <= plan.alpha * share * (1.0 + 1e-9)
    assert 1.0 / (1.0 + np.exp(distance)) >= 0.5 * plan.alpha * share  # it went as far as it may


def test_where_noise_is_wide_a_threshold_stays_in_the_middle() -> None:
    """There is nowhere else for it."""
    control = _control(_plan(slope=0.001), (0.9, 0.1))
    for number in range(5):
        _block(control, 0, number)
    assert control.thresholds == pytest.approx([0.5])


@pytest.mark.parametrize("share", [0.06, _SHARE, 0.45])
@pytest.mark.parametrize("strength", [3.0, 30.0])
def test_answers_come_near_the_share_though_teachers_lean_to_one_side(share: float, strength: float) -> None:
    """Teachers who know little, and such as agree, whose votes are too few by a third."""
    random = np.random.default_rng(7)
    plan = _plan(gain=0.4, leak=0.02)
    control = _control(plan, (1.0 - share, share))
    said: list[float] = []
    for number in range(128):
        likely = random.random(_BLOCK) < share
        votes = random.beta(0.66 * strength * np.where(likely, 0.8, 0.2), strength * np.where(likely, 0.2, 0.8))
        yes = votes > control.thresholds[0]
        said.append(float(yes.mean()))
        _block(control, int(yes.sum()), number)
    assert np.mean(said[64:]) == pytest.approx(share, rel=0.1)


def test_a_class_that_nobody_had_has_a_threshold() -> None:
    """Noisy counts may be 0, or less."""
    control = _control(_plan(), (1.0, 0.0))
    _block(control, 0)
    assert np.isfinite(control.thresholds).all()


def test_a_life_of_less_noise_lets_thresholds_go_further() -> None:
    """And one of more draws them in at once; what was restored is where it was."""
    plan = _plan(leak=0.0)
    control = _control(plan, (1.0 - _SHARE, _SHARE))
    control.arm(0.02)
    for number in range(40):
        _block(control, 0, number)
    near = control.thresholds.copy()
    assert near == pytest.approx([-np.log(plan.alpha * _SHARE) / 20.0])
    control.arm(0.04)
    assert (control.thresholds == near).all()
    for number in range(40):
        _block(control, 0, number)
    assert control.thresholds == pytest.approx(near / 2.0)
    far = control.thresholds.copy()
    control.bear(0.02)
    assert (control.thresholds == far).all()
    control.arm(0.02)
    assert (control.thresholds == near).all()
