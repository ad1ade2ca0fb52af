"""Messages in columns: the same rows, however they are made, cut and joined."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.base import JSON, Commit, Deliveries, Delivery, Rejected, Replies, Reply
from oracle.errors import InputError

_DELIVERIES = [
    Delivery(3, b"a", "x/y", (("h", b"1"),), b"k"),
    Delivery(4, None),
    Delivery(9, b"c", JSON, (), b""),
    Delivery(12, b""),
]
_REPLIES = [Reply(b"a"), Reply(b"b", "x/y", (("h", b"1"),), b"k", Rejected("malformed", 4, b"?")), Reply(b"c")]


def test_rows_come_back():
    """Columns made of rows give the same rows again, and empty ones none."""
    assert list(Deliveries.of(_DELIVERIES).rows()) == _DELIVERIES
    assert list(Replies.of(_REPLIES).rows()) == _REPLIES
    assert list(Deliveries.of([]).rows()) == []
    assert list(Replies().rows()) == []
    assert (len(Deliveries.of(_DELIVERIES)), len(Replies())) == (4, 0)


@given(cuts=st.lists(st.integers(0, 4)))
def test_parts_join_to_the_whole(cuts):
    """Any cuts; empty parts too."""
    whole = Deliveries.of(_DELIVERIES)
    parts = [whole.part(start, stop) for start, stop in itertools.pairwise([0, *sorted(cuts), 4])]
    assert list(Deliveries.joined(parts).rows()) == _DELIVERIES


@pytest.mark.parametrize(("position", "count"), [(0, 0), (2, 0), (3, 1), (8, 2), (9, 3), (12, 4), (13, 4)])
def test_split_is_behind_a_position(position, count):
    """What ends there is before it."""
    before, behind = Deliveries.of(_DELIVERIES).split(position)
    assert (list(before.rows()), list(behind.rows())) == (_DELIVERIES[:count], _DELIVERIES[count:])


def test_columns_of_different_lengths_are_refused():
    """A connector's mistake is told, lest an answer goes to another asker."""
    with pytest.raises(InputError, match=r"Deliveries.*one length"):
        Deliveries([1, 2], [b"a", b"b"], [JSON, JSON], [(), ()], [None])
    with pytest.raises(InputError, match=r"Replies.*one length"):
        Replies([b"a"])


def test_commits_are_joined_in_order():
    """Replies and events of all, position and metadata of the last."""
    each = enumerate(_REPLIES)
    joined = Commit.joined([Commit(Replies.of([reply]), [b"%d" % at], at, b"m%d" % at) for at, reply in each])
    assert list(joined.replies.rows()) == _REPLIES
    assert joined[1:] == ([b"0", b"1", b"2"], 2, b"m2")
