"""What a source has read and a sink commits, without a broker."""

from connectors.kafka.offset_metadata import OffsetMetadata
from connectors.kafka.progress import Progress
from connectors.kafka.record_batches import Record


def _progress(*batches):
    """Return what has read batches of records at these offsets; each has the time 1000 more than its offset."""
    progress = Progress()
    for offsets in batches:
        progress.read([Record(offset, 1000 + offset, 0, None, b"%d" % offset, []) for offset in offsets])
        progress.reached = offsets[-1] + 1
    return progress


def test_a_commit_holds_the_time_of_its_last_record_and_how_far_nothing_is_behind():
    """Within a batch, at its end, before a gap, and at the same place again; then all was looked at up to there."""
    progress = _progress([0, 1, 4], [5, 9])
    progress.reached = 12
    taken = [progress.take(position, b"m") for position in (1, 2, 5, 6, 10, 10)]
    assert [(one.timestamp, one.looked) for one in taken] == [
        (1000, 0),
        (1001, 4),
        (1004, 0),
        (1005, 9),
        (1009, 12),
        (1009, 12),
    ]
    progress.forget()
    assert progress.take(10, b"m") == OffsetMetadata(b"m", 1009)
    assert progress.take(11, b"m").timestamp == -1


def test_queries_of_a_commit_are_known_when_it_is_taken():
    """Those that are not are told by the offset -1: answers to records that were read before a restart."""
    progress = _progress([0, 1], [2])
    assert progress.queries(3, 2)() == [(1, b"1"), (2, b"2")]
    before = progress.queries(2, 3)
    progress.take(2, b"m")
    assert before() == [(-1, None), (0, b"0"), (1, b"1")]
    assert progress.queries(3, 2)() == [(-1, None), (2, b"2")]


def test_the_oldest_record_stays_until_its_commit_is_durable():
    """What is being committed is not answered yet."""
    progress = _progress([0, 1], [2])
    offsets = []
    for step in (lambda: None, lambda: progress.take(2, b"m"), progress.committed, lambda: progress.take(3, b"m")):
        step()
        oldest = progress.oldest()
        offsets.append(None if oldest is None else oldest.offset)
    progress.committed()
    assert (offsets, progress.oldest()) == ([0, 0, 2, 2], None)


def test_what_was_committed_before_is_kept_by_the_next_commit():
    """The beginning and the time stay where nothing was read since."""
    progress = Progress()
    progress.expect(7, OffsetMetadata(b"m", 17, 9, begun=5))
    assert (progress.expected, progress.looked) == ((7, 17), 9)
    assert progress.take(7, b"n") == OffsetMetadata(b"n", 17, begun=5)
