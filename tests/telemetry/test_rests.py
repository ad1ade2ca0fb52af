"""What an operator sees of an ensemble that rests: its record, the log, metrics, and what a ready process says."""

import io
import json
from dataclasses import replace
from itertools import pairwise

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from oracle.predictors.base import PublicFacts
from oracle.telemetry.health import Health
from oracle.telemetry.log import PublicLog
from oracle.telemetry.metrics import Metrics, encode, format_for
from oracle.telemetry.registry import Registry
from tests.predictors.ensemble.test_ensemble import resting_plan
from tests.support.memory_bus import MemoryLog, MemorySink
from tests.support.shards import bodies, daemon_over, new_store, run_daemon, small_plan

_NAMES = {"perpetua_resting", "perpetua_rest_rounds_left", "perpetua_rested_rounds_total"}


class _Watched:
    """An ensemble whose lives are spent early, over memory, and all that one process tells of it."""

    def __init__(self, plan=None):
        self.plan = plan or resting_plan()
        self.output = io.StringIO()
        self.registry = Registry(self.plan, PublicLog(self.output, "json", "tiny"), version="1.2")

    def serve(self, log, store, batch_rows=1):
        reporter = self.registry.shard(0)
        sink = MemorySink(log)
        run_daemon(daemon_over(log, store, sink, plan=self.plan, batch_rows=batch_rows, reporter=reporter))
        return self.registry.telemetry.shards[0]

    def lines(self, *events):
        lines = map(json.loads, self.output.getvalue().splitlines())
        return [line for line in lines if line["event"] in events]

    def samples(self):
        body = encode(Metrics(self.registry, unready=frozenset, now=lambda: 5000.0).collector(), format_for(""))
        found = [sample for family in parse(body.decode()) for sample in family.samples]
        return {sample.name: sample.value for sample in found if sample.name in _NAMES}


def _rested(log):
    """Return of each round whether its query was told that the model rests."""
    return [json.loads(reply.body).get("error") == "resting" for reply in log.replies]


@pytest.fixture(scope="module")
def run():
    """Return the log of a whole run, each query in a batch of its own, and what was told of it."""
    watched = _Watched()
    log = MemoryLog.of(bodies(watched.plan.rounds))
    record = watched.serve(log, new_store(watched.plan))
    return log, watched, record


def test_each_rest_is_logged_when_it_begins_and_when_it_ends(run):
    """A warning with the rounds that it will last, an incident, and a line at its end, each at its very round."""
    log, watched, record = run
    rested = _rested(log)
    assert record.rested == sum(rested) > 0
    changes = [(now, number) for number, (was, now) in enumerate(pairwise([False, *rested, False])) if was != now]
    expected = [("rest.started" if began else "rest.ended", number + began) for began, number in changes]
    assert len(expected) > 4
    told = watched.lines("rest.started", "rest.ended")
    assert [(line["event"], line["round"]) for line in told] == expected[: len(told)]
    assert len(expected) - len(told) <= 1  # where the plan ends in a rest, that has no end
    assert all(line["rested"] == sum(rested[: line["round"]]) for line in told)
    for started, ended in zip(told[::2], told[1::2], strict=False):
        assert (started["level"], ended["level"]) == ("warning", "info")
        assert ended["round"] - started["round"] == started["rest_left"]
    assert max(line["rest_left"] for line in told[::2]) > 10
    incidents = [one for one in watched.registry.telemetry.incidents if one.event == "rest.started"]
    assert len(incidents) == len(told[::2])
    assert "queries get no answer" in incidents[0].text


@pytest.mark.parametrize("rows", [7, 64, 400])
def test_rests_are_told_whatever_the_batches(run, rows):
    """Each rest is told of as often, but for those that begin and end in one batch, which are told as one."""
    log, single, record = run
    watched, again = _Watched(), MemoryLog.of(bodies(single.plan.rounds))
    found = watched.serve(again, new_store(watched.plan), rows)
    assert [reply.body for reply in again.replies] == [reply.body for reply in log.replies]
    assert (found.rested, found.rest_left) == (record.rested, record.rest_left)
    events = [line["event"] for line in watched.lines("rest.started", "rest.ended")]
    assert events == ["rest.started", "rest.ended"] * (len(events) // 2) + ["rest.started"] * (len(events) % 2)
    if rows < 10:
        assert len(events) == len(single.lines("rest.started", "rest.ended"))


def test_a_restart_within_a_rest_tells_the_same(run):
    """From the newest snapshot, and from the first by re-execution: what is left is shown, and no rest begins anew."""
    whole, _, _ = run
    rested, plan = _rested(whole), resting_plan()
    inside = rested.index(True) + 4
    log, store = MemoryLog.of(bodies(inside)), new_store(plan)
    before = _Watched()
    left = before.serve(log, store).rest_left
    assert left > 0
    for snapshot in (store, new_store(plan)):
        after = _Watched()
        found = after.serve(log, snapshot)
        assert (found.rested, found.rest_left) == (4, left)
        assert after.lines("rest.started", "rest.ended") == []
        (serving,) = after.lines("daemon.serving")
        assert serving["rest_left"] == left
        assert after.samples() == {
            "perpetua_resting": 1,
            "perpetua_rest_rounds_left": left,
            "perpetua_rested_rounds_total": 4,
        }
    after = _Watched()
    for body in bodies(plan.rounds)[inside : inside + left + 1]:
        log.append(body)
    found = after.serve(log, store)
    assert (found.rested, found.rest_left) == (4 + left, 0)
    assert [line["event"] for line in after.lines("rest.started", "rest.ended")] == ["rest.ended"]
    assert "rest_left" not in before.lines("daemon.serving")[0]
    assert after.samples()["perpetua_resting"] == 0


def test_metrics_about_rests_are_there_where_there_may_be_some():
    """Of an ensemble, at 0 while nothing rests, once it is restored; of others not even their names."""
    boxes, ensemble = _Watched(small_plan()), _Watched()
    boxes.registry.shard(0).restored(PublicFacts(0, 1, 0, 1, 0), 0, 0.1)
    assert boxes.samples() == {}
    reporter = ensemble.registry.shard(0)
    assert ensemble.samples() == {}
    reporter.restored(PublicFacts(0, 1, 0, 150, 0), 0, 0.1)
    assert ensemble.samples() == dict.fromkeys(_NAMES, 0)


def test_a_rest_that_is_followed_by_another_in_one_batch_has_ended():
    """The end of the one, the beginning of the other."""
    watched = _Watched()
    facts = PublicFacts(10, 1, 10, 150, 0, rested=5, rest_left=3)
    reporter = watched.registry.shard(0)
    reporter.restored(facts, 0, 0.1)
    reporter.committed(replace(facts, round=40, rested=12, rest_left=9), (), phase_ended=False)
    assert [line["event"] for line in watched.lines("rest.started", "rest.ended")] == ["rest.ended", "rest.started"]


def test_a_process_that_rests_is_ready_and_says_so(tmp_path):
    """It is as it should be, and its rounds go on; whoever asks whether it is ready is told which shards rest."""
    watched = _Watched()
    health = Health(watched.registry, lambda _shard: tmp_path, 60.0)
    reporter = watched.registry.shard(0)
    for left, said in ((1200, "serving 1 shard; shard 0 rests for 1,200 rounds more"), (0, "serving 1 shard")):
        reporter.restored(PublicFacts(10, 1, 10, 150, 0, rested=5, rest_left=left), 0, 0.1)
        reporter.serving()
        assert health.summary() == said
        assert health.not_ready() == ()
