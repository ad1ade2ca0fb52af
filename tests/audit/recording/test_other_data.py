"""Runs on other rows with outputs frozen: the real thing does and tells the same, and what spares noise is found."""

import inspect
import textwrap

import numpy as np
import pytest

from oracle.audit.recording.work import Work, worked_on
from oracle.audit.structure.checks import run_check, structure_names
from oracle.mechanisms.thresholds import paid
from oracle.mechanisms.thresholds.paid import BetweenThresholds
from oracle.predictors import stumps
from oracle.predictors.statistics.predictor import Statistics
from oracle.predictors.stumps import StumpsTrainer

SEED = bytes(range(64, 80))
_FOLLOWS = "all else follows from what mechanisms say"
_QUICK = {"boxes, learned edges", "stumps", "classical box, faces", "statistics", "distribution"}
_ALL = [target for target, name in structure_names() if name == _FOLLOWS]


@pytest.mark.parametrize(
    "target", [one if one in _QUICK else pytest.param(one, marks=pytest.mark.slow) for one in _ALL]
)
def test_the_real_thing_passes(target):
    """Of every predictor: whatever the rows are, nothing follows from them alone."""
    found = run_check(target, _FOLLOWS, SEED)
    assert found.passed, found.says


def _clear_winner(patch):
    """A stump that is far better than all others is taken as it is."""
    _written_anew(
        patch,
        stumps,
        StumpsTrainer._choose,
        "        return allowed[choose(",
        "        best = mine.argsort()\n"
        "        if mine[best[1]] > mine[best[0]] + 20:\n"
        "            return allowed[best[0]]\n"
        "        return allowed[choose(",
    )


def _quickly(patch):
    """Depths that are all 0 have a line of their own."""
    _written_anew(
        patch,
        paid,
        BetweenThresholds.answers,
        "        return _compared(self._edges, depths",
        "        if not depths.any():\n"
        "            depths = np.zeros_like(depths)\n"
        "        return _compared(self._edges, depths",
    )


def _written_anew(patch, module, method, before, after):
    """Put a method in its place whose text is another one, as a line of the module's."""
    text = inspect.getsource(method)
    assert before in text
    made: dict[str, object] = {}
    exec(textwrap.dedent(text.replace(before, after)), vars(module), made)  # noqa: S102 -- the fault is a text
    owner = vars(module)[method.__qualname__.partition(".")[0]]
    patch.setattr(owner, method.__name__, made[method.__name__])


def _cells(patch):
    """What `init` says of other categories follows from the rows."""
    patch.setattr(Statistics, "others", lambda self: [("a", float(np.mean(self._cells == 0)))])


@pytest.mark.parametrize(
    ("plant", "target"),
    [
        (_clear_winner, "stumps"),
        (_cells, "statistics"),
        (_quickly, "boxes, learned edges"),
    ],
)
def test_what_follows_from_the_rows_is_found(monkeypatch, plant, target):
    """A choice without noise where it is clear, an exact count that is shown, and work that is spared."""
    plant(monkeypatch)
    assert not run_check(target, _FOLLOWS, SEED).passed


def test_work_is_told_by_lines_and_by_shapes():
    """One line more, or a longer array, of Perpetua's own code: the audit's does not count."""
    one, two = np.array([3]), np.array([3, 4])
    instance = BetweenThresholds("logistic", 1.0, 2, 4, 6)
    works: list[Work] = []
    instance.answers(one, np.zeros((1, 2), dtype=np.uint64))  # its table is made
    for depths in (one, one, two):
        work = Work()
        with worked_on(work):
            instance.answers(depths, np.zeros((len(depths), 2), dtype=np.uint64))
        works.append(work)
    assert works[1].unlike(works[0]) is None
    assert works[2].unlike(works[1]) is not None
