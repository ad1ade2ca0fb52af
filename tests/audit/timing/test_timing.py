"""The audit of time: what it sees, and that it does not pass where it could not have seen it."""

import itertools
import time
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import pytest

from oracle.audit import runner
from oracle.audit.findings import Check
from oracle.audit.timing import stopwatch
from oracle.audit.timing.checks import run_timing
from oracle.audit.timing.stopwatch import ALLOWED, PLANTED, Classes, Work, burn, measure
from tests.audit.planted.mutants import planted
from tests.audit.timing.workclock import counted_work

_SEED = bytes(range(16))
_STEP = 10


class Clock:
    """A clock that classes of work move on by 100 microseconds, more or less, and now and then by far more."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.now = 1_000_000_000

    def work(self, factor: float, after: Callable[[], object] = int) -> Work:
        """Return work that takes `factor` times 100 microseconds, as a busy machine would."""

        def ask() -> None:
            spread = 1.0 + 0.02 * abs(self.rng.normal()) + (0.5 if self.rng.random() < 0.15 else 0.0)
            self.now += int(100_000 * factor * spread)

        return Work(ask, after)

    def burn(self, steps: int) -> None:
        """Take 10 nanoseconds for each step."""
        self.now += _STEP * steps

    def classes(self, factors: Mapping[str, float]) -> Classes:
        """Return classes that take so many times 100 microseconds, and what the control is made of."""
        return Classes({name: self.work(one) for name, one in factors.items()}, self.work(1.0))


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that the audit takes for the processor's."""
    made = Clock(7)
    monkeypatch.setattr(time, "thread_time_ns", lambda: made.now)
    monkeypatch.setattr(stopwatch, "burn", made.burn)
    return made


def test_one_per_cent_is_seen(clock):
    """A class that takes 1 % longer is told from the others, long before the most epochs there may be."""
    found = measure(lambda _: clock.classes({"a": 1.0, "b": 1.0, "c": 1.01, "d": 1.0}), miss=1e-3)
    assert found.epochs <= 128
    assert found.differ
    assert found.worst.name == "c"
    assert [one.name for one in found.timings if one.shown > ALLOWED] == ["c"]


def test_equal_classes_are_shown_to_be_equal(clock):
    """Where all take the same time nothing is proved, no class can be 1 % off, and the control is seen to be."""
    found = measure(lambda _: clock.classes(dict.fromkeys("abcde", 1.0)), miss=1e-3)
    assert found.told
    assert not found.differ
    assert found.most < PLANTED
    assert ALLOWED < found.control.low < PLANTED < found.control.high


def test_where_a_state_lies_is_no_class_of_its_own(clock):
    """What makes one state a per cent slower while it lasts, and another one next time, proves nothing."""

    def make(_epoch):
        luck = clock.rng.choice([1.0, 1.01], 5)
        return clock.classes({name: float(one) for name, one in zip("abcde", luck, strict=True)})

    found = measure(make, miss=1e-3, looks=(48,))
    assert found.epochs == 48
    assert found.worst.shown < 0.002


def test_few_epochs_prove_nothing(clock):
    """A class that takes twice as long is not held against anyone after three epochs, nor is anything told."""
    found = measure(lambda _: clock.classes({"a": 1.0, "b": 2.0}), miss=1e-3, looks=(3,))
    assert found.epochs == 3
    assert [one.shown for one in found.timings] == [0.0, 0.0]
    assert (found.differ, found.told) == (False, False)


def test_what_comes_after_is_not_measured(clock):
    """Bookkeeping after an answer may take as long as it likes."""
    slow = clock.work(50.0).ask
    found = measure(lambda _: Classes({"a": clock.work(1.0), "b": clock.work(1.0, slow)}, clock.work(1.0)), miss=1e-3)
    assert found.told
    assert not found.differ


def test_what_came_before_is_no_class_of_its_own(clock):
    """Something that makes whatever comes behind it 5 % slower, itself included, is not taken for a difference."""
    before = [""]

    def work(name: str) -> Work:
        quick, slow = clock.work(1.0), clock.work(1.05)

        def ask() -> None:
            (slow if before[0] == "a" else quick).ask()
            before[0] = name

        return Work(ask, int)

    found = measure(lambda _: Classes({name: work(name) for name in "abcdefg"}, work("")), miss=1e-3)
    assert found.told
    assert not found.differ


def test_a_control_that_is_not_seen_lets_nothing_pass(clock, monkeypatch):
    """Narrow intervals about 0 tell nothing if 1 % more work is not seen in the same run."""
    monkeypatch.setattr(stopwatch, "burn", int)
    found = measure(lambda _: clock.classes(dict.fromkeys("abc", 1.0)), miss=1e-3, looks=(48, 96))
    assert found.epochs == 96
    assert found.most < PLANTED
    assert found.control.high < ALLOWED
    assert not found.told


def test_wide_intervals_let_nothing_pass(clock):
    """Where luck is a tenth of an answer, 50 epochs end with neither a difference nor the assurance of none."""

    def make(_epoch):
        luck = clock.rng.choice([1.0, 1.1], 3)
        return clock.classes({name: float(one) for name, one in zip("abc", luck, strict=True)})

    found = measure(make, miss=1e-3, looks=(50,))
    assert (found.differ, found.told) == (False, False)
    assert found.most > PLANTED


def test_each_look_has_its_share_of_the_miss(clock):
    """Looking more often, or with a smaller probability of a miss, makes every interval wider."""

    def width(miss: float, looks: tuple[int, ...]) -> float:
        clock.rng = np.random.default_rng(3)
        found = measure(lambda _: clock.classes({"a": 1.0, "b": 1.0}), miss=miss, looks=looks, turns=1)
        assert found.epochs == 24
        return min(one.high - one.low for one in (*found.timings, found.control))

    assert width(0.1, (24,)) < width(0.1, (1, 2, 3, 4, 24)) < width(0.0005, (1, 2, 3, 4, 24))


def test_the_check_fails_where_it_could_not_tell():
    """With a clock that does not see the control's work, the check of answers does not hold, and says why."""
    with counted_work() as patch:
        patch.setattr(stopwatch, "burn", int)
        found = run_timing("one message", _SEED, 1e-3, looks=(17,), turns=1)
    assert not found.passed
    assert found.unsure
    assert "inconclusive: the machine is too busy to have detected a difference of 1 %" in found.says
    assert "run it again on a quiet machine" in found.says


def test_the_check_holds_where_it_could_tell():
    """With a clock that counts work the control is seen to take 1 % more, and all answers take the same."""
    with counted_work():
        found = run_timing("one message", _SEED, 1e-3, looks=(17,), turns=1)
    assert found.passed
    assert "no class is more than 0.00 % of an answer away from the others" in found.says
    assert "was seen as 1.00 to 1.00 %" in found.says


def test_the_job_hands_on_its_miss(monkeypatch):
    """The measurement of a run has the run's share of the probability of a miss, and no other."""
    given = []

    def recorded(name, seed, miss):
        given.append((name, seed, miss))
        return Check(cell="c", target="t", name="n", passed=True, says="s", seconds=0.0)

    monkeypatch.setattr(runner, "run_timing", recorded)
    runner.timing_job("one message").run(_SEED, 3e-6)
    assert given == [("one message", _SEED, 3e-6)]


def test_a_tenth_more_work_is_seen_on_the_real_clock():
    """Of four loops the one that is a tenth longer is proved to be, by the processor's own clock."""
    steps = dict.fromkeys("abcd", 10_000) | {"d": 11_000}

    def make(_epoch):
        works = {name: Work(partial(burn, many), int) for name, many in steps.items()}
        return Classes(works, works["a"])

    found = measure(make, miss=1e-3, looks=(24, 48, 96, 192, 384, 768), turns=2)
    assert found.differ
    assert found.worst.name == "d"
    assert found.worst.low > ALLOWED


@pytest.mark.slow
def test_an_early_exit_is_seen_on_the_real_clock():
    """Sides left out behind the one that decided make answers some per cent quicker, which is proved."""
    with planted("early exit"):
        found = run_timing("one message", _SEED, 1e-3, looks=(24, 48, 96, 192, 384), turns=3)
    assert not found.passed
    assert "away from the others" in found.says
    assert "no class is" not in found.says


def test_each_comes_once_behind_each():
    """In every turn all pairs of classes, the control's and those of one class twice included, come one by one."""
    asked: list[str] = []
    works = {name: Work(partial(asked.append, name), int) for name in "abc"}
    measure(lambda _: Classes(works, Work(partial(asked.append, "control"), int)), miss=0.5, looks=(1,), turns=1)
    turns = [asked[:17], asked[-17:]]
    assert turns[0] != turns[1]
    for turn in turns:
        pairs = set(itertools.pairwise(turn))
        assert len(pairs) == 16
