"""What an ensemble tells of its rests: how many rounds rested, and how many will."""

import dataclasses

import numpy as np
import pytest

from oracle.errors import CorruptSnapshotError
from oracle.predictors.base import PublicFacts
from oracle.predictors.ensemble.predictor import Ensemble
from oracle.runtime.shard import Shard
from tests.predictors.ensemble.test_ensemble import resting_plan, train, uniform
from tests.support.shards import first_snapshot

_OLD_COUNTERS = 16
"""How many a state had that did not count its rests."""


def _one_by_one(predictor, present):
    """Return which rounds rested, and the facts behind each."""
    features, rested, facts = uniform(len(present)), [], []
    for row in range(len(present)):
        answers = predictor.answer(features[row : row + 1], present[row : row + 1])
        rested.append(not answers.verified[0])
        facts.append(predictor.facts())
    return np.array(rested), facts


@pytest.fixture(scope="module")
def told():
    """Return the rounds that rested of a whole run, and the facts behind each round."""
    plan = resting_plan()
    return _one_by_one(train(plan), np.ones(plan.rounds, dtype=np.bool_))


def test_what_is_told_of_rests_is_what_the_answers_say(told):
    """Behind each round: as many rested as got no answer; and as many will as do, then there is an answer again."""
    rested, facts = told
    assert [one.rested for one in facts] == np.cumsum(rested).tolist()
    begins = np.flatnonzero(np.diff(rested.astype(int)) == 1)
    assert len(begins) > 2
    assert len({facts[row + 1].phase for row in begins}) > 1
    for row, fact in enumerate(facts):
        after = rested[row + 1 :]
        run = len(after) if after.all() else int(after.argmin())
        assert fact.rest_left == (run if rested[row] else 0) or row + 1 + fact.rest_left > len(rested)


def test_whether_there_is_a_query_in_a_rest_changes_nothing(told):
    """Rounds are counted, not queries: what is told of a rest says nothing of who asks in it."""
    rested, facts = told
    present = ~rested
    present[np.flatnonzero(np.diff(rested.astype(int)) == 1) + 1] = True  # some ask, most do not
    again, found = _one_by_one(train(resting_plan()), present)
    assert np.array_equal(again, rested)
    assert found == facts


def test_what_is_told_outlives_a_restart(told):
    """From a state within a rest, or between two, the same facts follow, in batches of any size."""
    rested, facts = told
    plan, features = resting_plan(), uniform(len(rested))
    inside = int(np.flatnonzero(rested)[5])
    for cut in (inside, inside + 30, int(np.flatnonzero(~rested)[-1])):
        first = train(plan)
        first.answer(features[:cut], np.ones(cut, dtype=np.bool_))
        second = Ensemble.restore(plan, first.export())
        assert second.facts() == first.facts() == facts[cut - 1]
        second.answer(features[cut : cut + 60], np.ones(len(features[cut : cut + 60]), dtype=np.bool_))
        assert second.facts() == facts[min(cut + 60, len(facts)) - 1]


def _within_a_rest(told):
    """Return a snapshot that was taken within a rest."""
    plan, row = resting_plan(), int(np.flatnonzero(told[0])[5])
    predictor = train(plan)
    predictor.answer(uniform(row), np.ones(row, dtype=np.bool_))
    facts = predictor.facts()
    assert facts.rest_left > 0
    told_so = {field.name: getattr(facts, field.name) for field in dataclasses.fields(PublicFacts)}
    stated = {name: told_so[name] for name in ("round", "phase", "rearms", "rested", "rest_left")}
    return plan, dataclasses.replace(first_snapshot(plan), arrays=predictor.export(), **stated)


def test_a_state_that_counted_no_rests_goes_on(told):
    """Rests before it are not known, the one that it is in is over when it is, and those to come are counted."""
    plan, snapshot = _within_a_rest(told)
    old = {**snapshot.arrays, "counters": snapshot.arrays["counters"][:_OLD_COUNTERS]}
    facts = Shard(plan, dataclasses.replace(snapshot, arrays=old, rested=0, rest_left=0)).facts()
    assert (facts.rested, facts.rest_left) == (0, snapshot.rest_left)


@pytest.mark.parametrize("change", [{"rested": 1}, {"rest_left": 0}, {"rest_left": 1}])
def test_a_header_that_tells_other_rests_is_refused(told, change):
    """What a snapshot's header says is what its state says."""
    plan, snapshot = _within_a_rest(told)
    assert Shard(plan, snapshot).facts().rested == snapshot.rested
    with pytest.raises(CorruptSnapshotError, match="its header and its state disagree"):
        Shard(plan, dataclasses.replace(snapshot, **change))
