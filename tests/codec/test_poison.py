"""Messages that nobody foresaw: rejected where that is safe, else named, passed over, and out of everybody's way."""

import asyncio
import io
import re
from functools import partial

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.base import METADATA_LIMIT, Deliveries, Delivery
from oracle.accounting.ledger import MessageSkipped, decode
from oracle.codec.batches import BatchCodec
from oracle.errors import (
    InputError,
    LogDivergedError,
    MessageError,
    ResourceError,
    StateError,
    StorageError,
)
from oracle.runtime.marks import CommitMark, Passed
from oracle.runtime.shard import Shard
from oracle.runtime.skip import skip_message
from tests.support.memory_bus import CrashError, Failure, MemoryLog, MemorySink, MemorySource
from tests.support.poisoned import FAILING, PoisonedCodec, body, restore_poisoned
from tests.support.shards import (
    bodies,
    daemon_over,
    deliveries_of,
    first_snapshot,
    mixed_bodies,
    new_shard,
    new_store,
    process,
    process_in_batches,
    run_daemon,
    same_state,
    small_plan,
    state_of,
)

_POSITION = re.compile(r"--partition 0 --position (\d+)")


def _poisoned_shard(codec=PoisonedCodec):
    return Shard(small_plan(), first_snapshot(), restore_poisoned, codec)


def _undecodable(number: int) -> bytes:
    return b'{"id":"undecodable%d","x":[0.5,0.5]}' % number


def _skip(log: MemoryLog, store, position: int, failures=None) -> None:
    asyncio.run(
        skip_message(store.load_latest(small_plan().digest), MemorySource(log), MemorySink(log, failures), position)
    )


def _reasons(replies) -> dict[int, str]:
    return {
        index: reply["error"]
        for index, reply in enumerate(map(msgspec.json.decode, replies), 1)
        if reply.get("error") in {"internal", "skipped"}
    }


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(
    undecodable=st.sets(st.integers(0, 119), max_size=6),
    unanswerable=st.sets(st.integers(0, 119), max_size=3),
    batch_rows=st.sampled_from([1, 5, 64, 1000]),
    failures=st.lists(st.dictionaries(st.integers(0, 9), st.sampled_from(Failure), max_size=2), max_size=6),
    snapshot_rounds=st.sampled_from([1, 29, 10**9]),
)
def test_poison_costs_its_asker_only(undecodable, unanswerable, batch_rows, failures, snapshot_rounds):
    """Through crashes of daemon and `skip`, all others are answered as if each poisoned message were no query."""
    contents = mixed_bodies(120)
    plain = list(contents)
    for index in undecodable | unanswerable:
        contents[index] = body(FAILING, 0.5) if index in unanswerable else _undecodable(index)
        plain[index] = b"?"
    expected = process_in_batches(new_shard(), deliveries_of(plain))
    log, store, scripts = MemoryLog.of(contents), new_store(), iter(failures)
    skipped: list[int] = []
    while True:
        daemon = daemon_over(
            log,
            store,
            MemorySink(log, next(scripts, {})),
            batch_rows=batch_rows,
            snapshot_rounds=snapshot_rounds,
            restore=restore_poisoned,
            codec=PoisonedCodec,
        )
        try:
            run_daemon(daemon)
            break
        except (CrashError, StorageError):
            continue
        except MessageError as exc:
            found = _POSITION.search(str(exc))
            assert found is not None
            skipped.append(int(found[1]))
            assert log.committed is None or log.committed.position == skipped[-1] - 1
        try:
            _skip(log, store, skipped[-1], next(scripts, {}))
        except (CrashError, StorageError):
            continue
    wrong = {index + 1 for index in undecodable | unanswerable}
    replies = [reply.body for reply in log.replies]
    assert [reply for index, reply in enumerate(replies, 1) if index not in wrong] == [
        reply for index, reply in enumerate(expected.replies, 1) if index not in wrong
    ]
    assert _reasons(replies) == {
        **{index + 1: "internal" for index in undecodable},
        **{index + 1: "skipped" for index in unanswerable},
    }
    events = [decode(line) for line in log.ledger]
    assert [event.position for event in events if isinstance(event, MessageSkipped)] == sorted(
        index + 1 for index in unanswerable
    )
    assert [line for line, event in zip(log.ledger, events, strict=True) if not isinstance(event, MessageSkipped)] == (
        expected.ledger
    )
    mark = CommitMark.unpack(log.commits[-1].metadata)
    assert mark[:2] == expected.mark[:2]
    assert {reply.rejected.position for reply in log.dead_letters if reply.rejected} >= wrong


@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(
    indices=st.sets(st.integers(0, 299), min_size=1, max_size=40),
    cuts=st.lists(st.integers(1, 299), max_size=6),
    skipped=st.sets(st.integers(0, 299), max_size=5),
)
def test_no_batch_cut_makes_a_difference(indices, cuts, skipped):
    """Replies, ledger, mark and state are the same for any cut, and re-execution ends in the same state."""
    contents = mixed_bodies(300)
    for index in indices:
        contents[index] = _undecodable(index)
    for index in skipped:
        contents[index] = body(FAILING, 0.5)
    deliveries = deliveries_of(contents)
    passed = Passed(skipped=tuple(sorted(index + 1 for index in skipped)))

    def run(these):
        shard = _poisoned_shard()
        shard.learn(passed)
        return process_in_batches(shard, deliveries, these), shard

    (whole, one), (pieces, other) = run([]), run(cuts)
    assert whole == pieces
    assert same_state(state_of(one), state_of(other))
    again = Shard(small_plan(), first_snapshot())  # whose codec can decode all of them, as a newer one may
    again.learn(CommitMark.unpack(whole.mark.pack()).passed)
    if len(indices) <= len(whole.mark.passed.internal):
        again.repeat(again.decode(Deliveries.of(deliveries)))
        again.check(whole.mark)
        assert again.mark == whole.mark
    else:
        again = _poisoned_shard()  # of what is too old for the list the same code finds the same
        again.learn(whole.mark.passed)
        again.repeat(again.decode(Deliveries.of(deliveries)))
        again.check(whole.mark)


def test_message_that_only_fails_in_company_is_answered():
    """Decoding it alone decides; its neighbours see nothing of it."""

    class Sociable(PoisonedCodec):
        def decode(self, deliveries):
            return BatchCodec(small_plan()).decode(deliveries) if len(deliveries) == 1 else super().decode(deliveries)

    contents = [*bodies(20), _undecodable(1), *bodies(5, seed=2)]
    run = process_in_batches(_poisoned_shard(Sociable), deliveries_of(contents))
    assert run == process_in_batches(new_shard(), deliveries_of(contents))


def test_message_that_fails_once_only_is_answered():
    """It is tried once more alone, lest chance decides what is a query."""
    errors = iter([ValueError()])

    class Once(PoisonedCodec):
        def _look(self, deliveries, _mark):
            if deliveries and (error := next(errors, None)) is not None:
                raise error

    contents = bodies(1)
    assert process_in_batches(_poisoned_shard(Once), deliveries_of(contents)).replies == (
        process_in_batches(new_shard(), deliveries_of(contents)).replies
    )


@pytest.mark.parametrize("kind", [MemoryError, OSError, partial(RuntimeError, "can't start new thread")])
@pytest.mark.parametrize("poison", [b"undecodable", b"unspeakable"])
def test_want_of_memory_rejects_nothing(kind, poison):
    """What is of the machine or the moment stops the shard with nothing committed, and says where."""
    contents = [*bodies(3), b'{"id":"%b","x":[0.5,0.5]}' % poison]
    log, store = MemoryLog.of(contents), new_store()
    short = daemon_over(log, store, MemorySink(log), codec=partial(PoisonedCodec, error=kind), batch_rows=2)
    with pytest.raises(ResourceError, match=r"partition 0, positions 3 to 4: .*(MemoryError|OSError|RuntimeError)"):
        run_daemon(short)
    assert all(reply.rejected is None for reply in log.replies)
    run_daemon(daemon_over(log, store, MemorySink(log)))
    assert [reply.body for reply in log.replies] == process_in_batches(new_shard(), deliveries_of(contents)).replies


@pytest.mark.parametrize("kind", [RecursionError, SystemError])
def test_what_depends_on_the_stack_is_named_and_not_rejected(kind):
    """It may be decoded in another place: the shard stops at the message, alone, and `skip` helps."""
    log, store = MemoryLog.of([*bodies(9), _undecodable(0), *bodies(5, seed=2)]), new_store()
    codec = partial(PoisonedCodec, error=kind)
    with pytest.raises(MessageError, match=r"partition 0, position 10: .* cannot be decoded .*--position 10"):
        run_daemon(daemon_over(log, store, MemorySink(log), codec=codec))
    assert log.committed is not None
    assert log.committed.position == 9
    _skip(log, store, 10)
    run_daemon(daemon_over(log, store, MemorySink(log), codec=codec))
    assert _reasons([reply.body for reply in log.replies]) == {10: "skipped"}


def test_answer_that_cannot_be_encoded_keeps_its_round():
    """The round stands, so all others are answered as ever, and its asker is told of an internal error."""
    contents = [*bodies(40), b'{"id":"unspeakable","x":[0.5,0.5]}', *bodies(40, seed=2), b"?"]
    clean = process_in_batches(new_shard(), deliveries_of(contents))
    shard = _poisoned_shard()
    outcome = process(shard, deliveries_of(contents))
    replies = list(outcome.commit.replies.bodies)
    assert msgspec.json.decode(replies.pop(40))["error"] == "internal"
    assert replies == [reply for index, reply in enumerate(clean.replies) if index != 40]
    assert (shard.mark, outcome.failures) == (clean.mark, [(41, "KeyError")])
    rejected = outcome.commit.replies.rejected[40]
    assert rejected is not None
    assert (rejected.reason, rejected.position, rejected.body) == ("internal", 41, contents[40])
    assert outcome.rejections == ["internal", "malformed"]


def test_whether_an_answer_can_be_encoded_does_not_tell_the_label():
    """A codec that fails on one label only fails for the message whatever its label is."""

    class Telling(PoisonedCodec):
        def encode(self, batch, answers):
            if (answers.labels == 1).any() and any(b"q3" in body for body in batch.deliveries.bodies):
                raise ValueError
            return BatchCodec(small_plan()).encode(batch, answers)

    def refused(point: str) -> bool:
        shard = _poisoned_shard(Telling)
        contents = [b'{"id":"q3","x":[%b]}' % point.encode(), b'{"id":"x","x":[0.5,0.5]}']
        return process(shard, deliveries_of(contents)).commit.replies.rejected[0] is not None

    assert refused("0.5,0.5") == refused("-9,-9")


def test_operator_is_told_and_nothing_private_is_said():
    """The log has the position and the error's class, at level ERROR; no text of the error."""
    output, log = io.StringIO(), MemoryLog.of([*bodies(3), _undecodable(0)])
    run_daemon(daemon_over(log, new_store(), MemorySink(log), codec=PoisonedCodec, output=output))
    lines = [msgspec.json.decode(line) for line in output.getvalue().splitlines()]
    (line,) = [line for line in lines if line["event"] == "message.failed"]
    assert (line["level"], line["position"], line["error"], line["count"]) == ("error", 4, "KeyError", 1)
    assert "private" not in output.getvalue()


def test_skip_refuses_what_is_not_the_next_message():
    """Answered, further on, not there, passed over: the error says which, and where the shard stands."""
    log, store = MemoryLog.of([*bodies(5), body(FAILING, 0.5), *bodies(2)]), new_store()
    with pytest.raises(MessageError):
        run_daemon(daemon_over(log, store, MemorySink(log), restore=restore_poisoned))
    before = list(log.commits)
    with pytest.raises(InputError, match=r"position = 5: must be above 5: .* answered cannot be passed over"):
        _skip(log, store, 5)
    for position in (7, 99):
        with pytest.raises(InputError, match=f"position = {position}: .* stands at position 5, .* ends at 6"):
            _skip(log, store, position)
    assert log.commits == before
    _skip(log, store, 6)
    run_daemon(daemon_over(log, store, MemorySink(log), restore=restore_poisoned))
    with pytest.raises(InputError, match=r"position = 6: that message was passed over before"):
        _skip(log, store, 6)
    with pytest.raises(InputError, match=r"position = 9: .* stands at position 8, and there is no message after it"):
        _skip(log, store, 9)


def test_mark_with_passed_messages_fits_and_comes_back():
    """Up to 32 skipped ones, the newest internal ones; one more is a clear error; a mark of none is as it ever was."""
    mark = CommitMark(7, bytes(range(16)))
    assert mark.pack() == b"PER1" + (7).to_bytes(8, "little") + bytes(range(16))
    passed = Passed()
    for number in range(32):
        passed = passed.and_skipped(2**62 + number)
    assert passed.and_skipped(2**62) == passed
    with pytest.raises(StateError, match="32 messages of this shard were passed over already"):
        passed.and_skipped(1)
    passed = passed.and_internal(range(1000))
    packed = mark._replace(passed=passed).pack()
    assert len(packed) <= METADATA_LIMIT
    assert CommitMark.unpack(packed) == (7, bytes(range(16)), passed)
    assert passed.internal[-1] == 999
    for wrong in (b"", b"PER1", packed[:-1], packed + b"\0", b"PER3" + packed[4:]):
        with pytest.raises(LogDivergedError, match="not written by Perpetua"):
            CommitMark.unpack(wrong)


def test_bookkeeping_that_fails_cannot_be_passed_over():
    """What was answered took its round; the error says so, and offers no skip."""

    class Sour(type(restore_poisoned(small_plan(), first_snapshot().arrays))):  # type: ignore[misc]
        def settle(self):
            raise ValueError("private")

    def restore(plan, arrays):
        return Sour(restore_poisoned(plan, arrays).inner)  # type: ignore[attr-defined]

    log = MemoryLog.of(bodies(3))
    with pytest.raises(MessageError, match=r"cannot be brought into the state .* cannot be passed over") as caught:
        run_daemon(daemon_over(log, new_store(), MemorySink(log), restore=restore))
    assert "perpetua skip" not in str(caught.value)
    assert len(log.replies) <= 3


def test_delivery_behind_a_skip_is_not_looked_at_in_vain():
    """A tombstone and a rejection can be passed over like any other message."""
    shard = new_shard()
    shard.learn(Passed(skipped=(1, 2)))
    outcome = process(shard, [Delivery(1, None), Delivery(2, b"?"), Delivery(3, None)])
    assert outcome.rounds == 1
    assert _reasons(list(outcome.commit.replies.bodies)) == {1: "skipped", 2: "skipped"}
    assert [decode(line) for line in outcome.commit.ledger][:2] == [MessageSkipped(0, 1), MessageSkipped(0, 2)]
