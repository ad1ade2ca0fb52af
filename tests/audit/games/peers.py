"""Compare the auditor's power with DP-Auditorium's and StatDP's: the same games, and who proves most of epsilon.

Neither is needed for anything else, nor among the locked dependencies. To run it, have `dp_auditorium` (with
TensorFlow) and `statdp` (with Numba) importable, and this project's run dependencies:

    PYTHONPATH=.:DP_AUDITORIUM:STATDP python -m tests.audit.games.peers

All are given the views of the same games. A test of one epsilon becomes a lower bound by bisection: the largest
epsilon that it rejects with a failure probability of 0.001. (Each of its steps is allowed that again; our bound has
it in all.) DP-Auditorium tests (epsilon, delta) for either order of the worlds, StatDP epsilon alone.
"""

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from oracle.audit.games.cells import Cell, arms_of
from oracle.audit.games.sequence import play_out
from oracle.audit.games.wealth import Wealth
from tests.audit.games.recorded import recorded

__all__ = ["main"]

Floats = NDArray[np.float64]
Rejects = Callable[[Floats, Floats, float, float], bool]
"""Views of both worlds, epsilon, delta: whether (epsilon, delta) is rejected."""

_MISS: Final = 1e-3
_SEED: Final = bytes(range(16))
_BINS: Final = 16
_AIMS: Final = {"hammer": 2}
"""At the depth that is the worst for the claimed noise."""
_STEPS: Final = 6

_CELLS: Final = (
    Cell("between-thresholds", "logistic", "dynamic program", 2.0, 0.01, 40_000),
    Cell("stopper", "discrete-laplace", "19 of 20 mediums held for 64 rounds", 1.0, 0.0, 40_000),
    Cell("predictor", "classical box, one side", "row at the edge", 2.0, 0.0, 6_000),
    Cell("predictor", "boxes, one side", "hammer", 4.0, 0.01, 6_000),
)


def _scores(absent: Floats, present: Floats) -> tuple[Floats, Floats]:
    """Return the first feature, which is the privacy loss where an adversary works one out."""
    return absent[:, 0], present[:, 0]


def histogram(absent: Floats, present: Floats, epsilon: float, delta: float) -> bool:
    """DP-Auditorium's tester of Gilbert and McMillan (2018), over bins of the first feature."""
    module = importlib.import_module("dp_auditorium.testers.histogram_tester")
    left, right = _scores(absent, present)
    edges = np.unique(np.quantile(np.concatenate([left, right]), np.linspace(0.0, 1.0, _BINS + 1)[1:-1]))
    binned = [np.searchsorted(edges, scores) for scores in (left, right)]
    config = _configs().HistogramPropertyTesterConfig(
        test_discrete_mechanism=True,
        histogram_size=len(edges) + 1,
        min_value=0,
        max_value=0,
        approximate_dp=_claim(epsilon, delta),
    )
    tester = module.HistogramTester(config)
    return any(
        tester.reject_property(tester.estimate_lower_bound(one, other, _MISS)) for one, other in _orders(*binned)
    )


def hockey_stick(absent: Floats, present: Floats, epsilon: float, delta: float) -> bool:
    """DP-Auditorium's tester with a neural network, given all features, as its defaults have it."""
    module = importlib.import_module("dp_auditorium.testers.hockey_stick_tester")
    whole = np.concatenate([absent, present])
    scale = np.maximum(whole.std(axis=0), 1e-9)
    worlds = [(world - whole.mean(axis=0)) / scale for world in (absent, present)]
    config = _configs().HockeyStickPropertyTesterConfig(
        training_config=module.make_default_hs_training_config(), approximate_dp=_claim(epsilon, delta)
    )
    tester = module.HockeyStickPropertyTester(config, module.make_default_hs_base_model())
    return any(
        tester.reject_property(tester.estimate_lower_bound(one, other, _MISS)) for one, other in _orders(*worlds)
    )


def statdp(absent: Floats, present: Floats, epsilon: float, delta: float) -> bool:
    """StatDP's own choice of an event on one half of the games, and its test on the other; for delta = 0."""
    del delta
    select = importlib.import_module("statdp.selectors").select_event
    test = importlib.import_module("statdp.hypotest").hypothesis_test
    worlds = _scores(absent, present)
    half = len(worlds[0]) // 2
    first = [_outputs(world[:half]) for world in worlds]
    one, other, keywords, event = select(_next, [(first[0], first[1], {})], epsilon, half - 1, _Here(), quiet=True)
    second = [_outputs(world[half:]) for world in worlds]
    del one, other
    chance = test(_next, second[0], second[1], keywords, event, epsilon, half - 1, _Here(), report_p2=False)
    return bool(chance <= _MISS)


class _Here:
    """A pool of processes that is this one."""

    _processes = 1

    def imap_unordered(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Apply a function to each."""
        return map(function, items)


def _outputs(values: Floats) -> Iterator[np.float64]:
    return iter(values)


def _next(_generator: object, outputs: Iterator[np.float64]) -> np.float64:
    """Be an algorithm: its next output."""
    return next(outputs)


def _orders(absent: NDArray[Any], present: NDArray[Any]) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    return [(present, absent), (absent, present)]


def _configs() -> Any:
    return importlib.import_module("dp_auditorium.configs.property_tester_config")


def _claim(epsilon: float, delta: float) -> Any:
    module = importlib.import_module("dp_auditorium.configs.privacy_property")
    return module.ApproximateDp(epsilon=epsilon, delta=delta)


def largest(rejects: Rejects, absent: Floats, present: Floats, most: float, delta: float) -> float:
    """Return about the largest epsilon that is rejected, up to `most`; 0 if none is."""
    low, high = 0.0, most
    if rejects(absent, present, high, delta):
        return high
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if rejects(absent, present, middle, delta) else (low, middle)
    return low


def _ours(cell: Cell, absent: Floats, present: Floats) -> float:
    wealth = Wealth(cell.epsilon, cell.delta, _MISS)
    play_out([recorded(absent, present)], wealth, cell.games)
    return wealth.lowest


@dataclass(frozen=True)
class _Peer:
    name: str
    rejects: Rejects
    pure: bool


_PEERS: Final = (
    _Peer("DP-Auditorium, histogram", histogram, pure=False),
    _Peer("DP-Auditorium, hockey stick", hockey_stick, pure=False),
    _Peer("StatDP", statdp, pure=True),
)


def _views(cell: Cell) -> tuple[Floats, Floats]:
    """Return all games, with one aim: the peers have no others."""
    arm = arms_of(cell, _SEED)[_AIMS.get(cell.adversary, 0)]
    return arm.play("0", cell.games, False), arm.play("1", cell.games, True)  # noqa: FBT003 -- the worlds


def main() -> int:
    """Print a table."""
    for cell in _CELLS:
        absent, present = _views(cell)
        ours = _ours(cell, absent, present)
        line = f"{cell.level}, {cell.target}, claimed {cell.epsilon:g}, delta {cell.delta:g}, {2 * cell.games:,} games"
        sys.stdout.write(f"{line}\n    {'this auditor':30} {ours:.2f}\n")
        for peer in _PEERS:
            if peer.pure and cell.delta > 0.0:
                sys.stdout.write(f"    {peer.name:30} -  (for delta = 0 only)\n")
                continue
            found = largest(peer.rejects, absent, present, 1.25 * cell.epsilon, cell.delta)
            sys.stdout.write(f"    {peer.name:30} {found:.2f}\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
