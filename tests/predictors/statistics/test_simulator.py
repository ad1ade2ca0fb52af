"""All that answers about a table tell of the rows is in the ledger: the simulator writes every answer without them."""

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.audit.references import simulator
from oracle.audit.references.simulator import Simulator, Told
from oracle.planning.statistics.model import TablePlan
from oracle.predictors.statistics import hypothesis, public, released, repeats, thresholds
from oracle.runtime.shard import Shard
from oracle.state.format import Snapshot
from tests.predictors.plans import tiny_sparse_plan, tiny_statistics_plan
from tests.predictors.suite import train
from tests.predictors.tables import drawn_messages, random_rows
from tests.support.shards import deliveries_of, process_in_batches

_MESSAGES = 160
_SPENT = re.compile(rb'"value":[0-9][^{}]*"verified":false|budget-spent')
_PLANS = {
    "a start from marginals, soon spent": lambda: tiny_statistics_plan(2000, paid=6, margins=(2, 4)),
    "a start from marginals": lambda: tiny_statistics_plan(2000, paid=20, epsilon=8.0, margins=(8, 50)),
    "a uniform start": lambda: tiny_statistics_plan(2000, paid=None, margins=(100, 150)),
    "sparse vector": lambda: tiny_sparse_plan(2000, paid=5),
}


def _shard(plan: TablePlan, rows: int, secret: bytes) -> Shard:
    predictor = train(plan, *random_rows(plan, rows), secret)
    return Shard(plan, Snapshot.first(plan.digest, predictor.export()))


@pytest.mark.parametrize("name", _PLANS)
def test_the_ledger_tells_every_answer(name):
    """Questions, breakdowns, repeats, tombstones and rejects in any batches: every reply is the simulator's."""
    plan, paid, spent = _PLANS[name](), 0, False

    @settings(max_examples=8, deadline=None, derandomize=True, database=None)
    @given(
        seed=st.integers(0, 2**16),
        secret=st.binary(min_size=32, max_size=32),
        order=st.lists(st.integers(0, _MESSAGES - 1), min_size=1, max_size=_MESSAGES),
        silent=st.sets(st.integers(0, _MESSAGES), max_size=20),
        batches=st.tuples(*[st.lists(st.integers(1, _MESSAGES - 1), max_size=8)] * 2),
    )
    def check(seed, secret, order, silent, batches):
        nonlocal paid, spent
        messages = drawn_messages(plan, _MESSAGES, seed, by=11)
        bodies = [messages[number] for number in order] + messages
        contents = [None if number in silent else body for number, body in enumerate(bodies)]
        contents[3::17] = [b'{"where":{"a":["nobody"]}}'] * len(contents[3::17])
        deliveries = deliveries_of(contents)
        run = process_in_batches(_shard(plan, seed, secret), deliveries, batches[0])
        told_by = Simulator(plan, Told(run.ledger))
        bounds = sorted({0, *batches[1], len(deliveries)})
        told = [told_by.answer(deliveries[start:stop]) for start, stop in itertools.pairwise(bounds)]
        assert [body for bodies in told for body in bodies] == run.replies
        paid = max(paid, sum(b'"answer-paid"' in line for line in run.ledger))
        spent = spent or any(_SPENT.search(body) for body in run.replies)

    check()
    assert paid > 3
    assert spent == (name in {"a start from marginals, soon spent", "sparse vector"})


@pytest.mark.parametrize("name", _PLANS)
@pytest.mark.parametrize("change", ["an event is missing", "a count is another one", "a round is another one"])
def test_another_ledger_tells_other_answers(name, change):
    """What the ledger says is what decides: without an event, or with another count, the answers part."""
    plan = _PLANS[name]()
    deliveries = deliveries_of(drawn_messages(plan, _MESSAGES, 3, by=11))
    run = process_in_batches(_shard(plan, 3, bytes(32)), deliveries)
    lines = [line for line in run.ledger if b'"answer-paid"' in line]
    if change == "an event is missing":
        other = [line for line in run.ledger if line != lines[0]]
    elif change == "a count is another one":
        other = [re.sub(rb'"count":-?[0-9]+', b'"count":77', line) for line in run.ledger]
    else:
        other = [line.replace(b'"round":', b'"round":9') if line == lines[0] else line for line in run.ledger]
    assert Simulator(plan, Told(other)).answer(deliveries) != run.replies


def test_the_public_side_reads_no_row_and_no_key():
    """What the simulator is made of imports nothing that has rows, keys or noise."""
    for module in (simulator, public, hypothesis, released, repeats, thresholds):
        assert not {"Rows", "PhaseKey", "Addresses", "PaidQuestions", "paid_questions", "sample"} & set(vars(module))
