"""The audit of time, on a clock of its own: what it would see, and that it sees nothing where there is nothing."""

import time
from collections.abc import Callable

import numpy as np
import pytest

from oracle.audit.timing import measure


class Clock:
    """A clock that classes of work move on by 100 microseconds, more or less, and now and then by far more."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self.now = 1_000_000_000

    def work(self, factor: float) -> Callable[[], object]:
        """Return work that takes `factor` times 100 microseconds, as a busy machine would."""

        def ask() -> None:
            spread = 1.0 + 0.02 * abs(self._rng.normal()) + (0.5 if self._rng.random() < 0.15 else 0.0)
            self.now += int(100_000 * factor * spread)

        return ask


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that the audit takes for the processor's."""
    made = Clock(7)
    monkeypatch.setattr(time, "thread_time_ns", lambda: made.now)
    return made


def test_one_per_cent_is_seen(clock):
    """A class that takes 1 % longer is told from the others, long before the most epochs there may be."""
    factors = {"a": 1.0, "b": 1.0, "c": 1.01, "d": 1.0}
    found, epochs = measure(lambda _: {name: (clock.work(one), int) for name, one in factors.items()}, miss=1e-3)
    assert epochs < 100
    by_name = {one.name: one for one in found}
    assert by_name["c"].shown > 0.004
    assert max(by_name[name].shown for name in "abd") < 0.004


def test_equal_classes_are_equal(clock):
    """Where all take the same time, no difference of 0.4 % is proved, and the intervals are narrow."""
    found, _ = measure(lambda _: {name: (clock.work(1.0), int) for name in "abcde"}, miss=1e-3)
    assert max(one.shown for one in found) < 0.004
    assert all(one.high - one.low <= 0.006 for one in found)


def test_where_a_state_lies_is_no_class_of_its_own(clock):
    """What makes one state a per cent slower while it lasts, and another one next time, proves nothing."""

    def make(_epoch):
        luck = clock._rng.choice([1.0, 1.01], 5)
        return {name: (clock.work(float(one)), int) for name, one in zip("abcde", luck, strict=True)}

    found, epochs = measure(make, miss=1e-3, epochs=40)
    assert epochs == 40
    assert max(one.shown for one in found) < 0.002


def test_few_epochs_prove_nothing(clock):
    """A class that takes twice as long is not held against anyone after three epochs."""
    found, epochs = measure(lambda _: {"a": (clock.work(1.0), int), "b": (clock.work(2.0), int)}, miss=1e-3, epochs=3)
    assert epochs == 3
    assert [one.shown for one in found] == [0.0, 0.0]


def test_what_comes_after_is_not_measured(clock):
    """Bookkeeping after an answer may take as long as it likes."""
    classes: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "a": (clock.work(1.0), int),
        "b": (clock.work(1.0), clock.work(50.0)),
    }
    found, _ = measure(lambda _: classes, miss=1e-3)
    assert max(one.shown for one in found) < 0.004
