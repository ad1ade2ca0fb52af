"""Batches end where their messages or rows would be too many bytes, and no answer depends on where that is."""

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connectors.base import ARROW_STREAM, JSON, Deliveries, Delivery
from oracle.codec import cuts
from oracle.planning.serving import BATCH_BYTES, row_bytes
from tests.predictors.plans import tiny_plan
from tests.predictors.texts import text
from tests.support.shards import Run, arrow_body, new_shard, process_in_batches, same_state, state_of

_PLAN = tiny_plan([text("a", 60), text("b", 256)], slicing="sequential")
_ROW = row_bytes(_PLAN)


def _arrow(rows: int) -> bytes:
    return arrow_body(pa.table({name: pa.array([chr(97 + row % 26) for row in range(rows)]) for name in "ab"}))


_MESSAGES = st.one_of(
    st.sampled_from([b'{"x":["a","b"]}', b'{"x":["","zz"],"id":"q"}', b"{", b"", None]),
    st.integers(0, 40).map(_arrow),
    st.binary(max_size=40),
)
_HEADERS = st.sampled_from([(), (("correlation", b"x" * 3_000),)])


def _deliveries(contents: Sequence[tuple[bytes | None, tuple[tuple[str, bytes], ...]]]) -> list[Delivery]:
    kinds = [ARROW_STREAM if (body or b"").startswith(b"\xff\xff\xff\xff") else JSON for body, _ in contents]
    numbered = enumerate(zip(contents, kinds, strict=True), 1)
    return [Delivery(number, body, kind, headers) for number, ((body, headers), kind) in numbered]


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(contents=st.lists(st.tuples(_MESSAGES, _HEADERS), max_size=40), bound=st.integers(1, 40_000))
def test_no_answer_depends_on_the_cut(monkeypatch, contents, bound):
    """Whatever the bound, batches are within it but for single messages, and all bytes are those of one batch."""
    monkeypatch.setattr(cuts, "BATCH_BYTES", bound)
    deliveries = _deliveries(contents)
    whole, cut = new_shard(_PLAN), new_shard(_PLAN)
    expected = process_in_batches(whole, deliveries)
    commits, waiting = [], Deliveries.of(deliveries)
    while waiting:
        batch = cut.decode_leading(waiting)
        assert len(batch.deliveries) == 1 or _ROW * len(batch.features) <= max(bound, _ROW)
        commits.append(cut.process(batch).commit)
        waiting = waiting.part(len(batch.deliveries))
    replies = [reply.body for commit in commits for reply in commit.replies.rows()]
    events = [event for commit in commits for event in commit.ledger]
    assert Run(replies, events, cut.mark, cut.position) == expected
    assert same_state(state_of(cut), state_of(whole))


@pytest.mark.parametrize("rows", [1_000, 20_000])
def test_short_strings_are_counted_as_long_as_they_may_be(rows):
    """Messages of short strings, 32 MiB of rows each few, are not unpacked together."""
    deliveries = _deliveries([(_arrow(rows), ())] * 120)
    batch = new_shard(_PLAN).decode_leading(Deliveries.of(deliveries))
    assert len(batch.deliveries) == BATCH_BYTES // (rows * _ROW)
    assert len(batch.features) == rows * len(batch.deliveries)
