"""The journal: durable, encrypted, torn only at its end, and never damaged without a word."""

import itertools
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.journal.journal import Journal
from connectors.journal.sealing import HEADER_BYTES, RECORD_HEADER_BYTES
from oracle.errors import InputError, StorageError, WrongKeyError
from tests.connectors.journal.conftest import KEY, append, bodies_of, opened, reopened
from tests.faults import Faults, SimulatedCrash

_OVERHEAD = RECORD_HEADER_BYTES + 16
_LIMIT = 1 << 20
_GOLDEN = {
    "00000000000000000000.journal": """
        5045524a524e4c01a4f87e5abd666150b94a6a406939952f2afa0cfc4337826507d276ba3671149100000000000000000000000000000000
        7005448ec649438178f4869bf52ddea408051365504a72a701000000000000004c0000000000000013000000f7f3db09bfcf9940f7c0224d
        a2d96400ae176e37441641504a72a702000000000000004c00000000000000130000003dbe72a6695204cf310135dc95c42da78861eb3628
        1196""",
    "00000000000000000002.journal": """
        5045524a524e4c0178373815e344070d94ad6d0a4eb80e597b7888e7825cab801ce0e7ba776e2fc80200000000000000aa00000000000000
        d29c55d33b07826c3a26a87a84118431983bb05e504a72a703000000000000004c00000000000000130000007b8515c359aaff4d3b81429e
        d48b9b1750d5f76a3499b0504a72a704000000000000004c0000000000000013000000e8235122a2b391059618fd8614807c599a0f39a7ff
        3e77504a72a70500000000000000aa00000000000000140000001f86497dee0b7fcf7a630887241ac741f127ba13f1c45426""",
}
"""A journal that two processes of November 2026 wrote; the second appended twice."""

_GROUPS = st.lists(st.lists(st.binary(max_size=40), min_size=1, max_size=4), min_size=1, max_size=5)


def _journal(folder: Path, key: bytes = KEY, purpose: str = "test", limit: int = _LIMIT) -> Journal:
    return Journal(folder, key, purpose, limit=limit)


def _written(folder: Path, *groups: list[bytes]) -> Path:
    """Write groups of records by one process and return the only segment."""
    append(folder, *groups)
    (segment,) = folder.glob("*.journal")
    return segment


@settings(max_examples=40, deadline=None)
@given(runs=st.lists(_GROUPS, min_size=1, max_size=3), limit=st.integers(1, 5))
def test_what_was_appended_is_read(tmp_path_factory, runs, limit):
    """Whatever is appended in any groups by any number of processes is read, from any position, in any portions."""
    folder = tmp_path_factory.mktemp("journal") / "j"
    everything: list[bytes] = []
    for run in runs:
        journal = opened(folder)
        for group in run:
            everything += group
            assert journal.append(group) == len(everything)
        journal.close()
    journal = opened(folder)
    assert (journal.first, journal.end) == (0, len(everything))
    for position in range(len(everything) + 1):
        reader, read = journal.reader(position), []
        while reader.position < journal.end:
            found = reader.read(limit)
            assert len(found) <= limit
            read += found
        assert [record.body for record in read] == everything[position:]
    journal.close()


def test_crash_at_every_byte_of_the_tail(tmp_path):
    """Cut at any byte, what was durable before is there, what is left of the last group is whole, and all goes on."""
    groups = [[b"one", b"two"], [b"three", b"", b"five" * 9]]
    whole = _written(tmp_path / "whole", *groups)
    data = whole.read_bytes()
    durable = HEADER_BYTES + sum(len(body) + _OVERHEAD for body in groups[0])
    for length in range(len(data) + 1):
        folder = tmp_path / f"cut-{length}"
        folder.mkdir(mode=0o700)
        (folder / whole.name).write_bytes(data[:length])
        there = reopened(folder)
        assert there == [*groups[0], *groups[1]][: len(there)]
        assert len(there) >= 2 or length < durable
        append(folder, [b"more"])
        assert reopened(folder) == [*there, b"more"]


def test_any_garbage_behind_the_durable_part_is_cut(tmp_path):
    """A power failure may leave anything where a group was being written: holes, zeros, records out of order."""
    first, second = [b"one", b"two"], [b"three", b"four"]
    whole = _written(tmp_path / "whole", first, second)
    data = whole.read_bytes()
    durable = HEADER_BYTES + sum(len(body) + _OVERHEAD for body in first)
    hole = durable + _OVERHEAD + len(b"three")
    for name, tail in {
        "zeros": bytes(len(data) - durable),
        "noise": os.urandom(len(data) - durable),
        "a hole before a whole record": bytes(hole - durable) + data[hole:],
        "a longer hole": bytes(100_000),
    }.items():
        folder = tmp_path / name
        folder.mkdir(mode=0o700)
        (folder / whole.name).write_bytes(data[:durable] + tail)
        assert reopened(folder) == first, name


def test_damage_before_the_tail_is_an_error_at_every_byte(tmp_path):
    """A changed byte in what was durable before the last group is told, and nothing is cut."""
    whole = _written(tmp_path / "whole", [b"one", b"two"], [b"three"])
    data = whole.read_bytes()
    durable = HEADER_BYTES + sum(len(body) + _OVERHEAD for body in (b"one", b"two"))
    for offset in range(durable):
        folder = tmp_path / f"at-{offset}"
        folder.mkdir(mode=0o700)
        changed = bytearray(data)
        changed[offset] ^= 0x10
        (folder / whole.name).write_bytes(changed)
        with pytest.raises(StorageError, match="damaged"):
            _journal(folder).open()
        assert (folder / whole.name).read_bytes() == changed


def test_damage_in_an_older_segment_is_an_error(tmp_path):
    """What an earlier process wrote is never torn: damage to it is told, at the latest when it is read."""
    folder = tmp_path / "j"
    for body in (b"one", b"two", b"three"):
        append(folder, [body])
    oldest = min(folder.glob("*.journal"))
    data = oldest.read_bytes()
    for offset in range(len(data)):
        oldest.write_bytes(data[:offset] + bytes([data[offset] ^ 1]) + data[offset + 1 :])
        with pytest.raises((StorageError, WrongKeyError)):
            reopened(folder)
    for wrong in (data[:-1], data + b"\0", data[:HEADER_BYTES]):
        oldest.write_bytes(wrong)
        with pytest.raises(StorageError, match="not as long"):
            reopened(folder)
    oldest.write_bytes(data)
    assert reopened(folder) == [b"one", b"two", b"three"]


def test_records_cannot_change_places(tmp_path):
    """Records of equal length, exchanged, are damage: each is bound to its position."""
    segment = _written(tmp_path / "j", [b"AAAA", b"BBBB"], [b"CCCC"], [b"DDDD"])
    data, size = segment.read_bytes(), _OVERHEAD + 4
    first, second = (slice(HEADER_BYTES + index * size, HEADER_BYTES + (index + 1) * size) for index in (0, 1))
    segment.write_bytes(data[:HEADER_BYTES] + data[second] + data[first] + data[second.stop :])
    with pytest.raises(StorageError, match="damaged"):
        _journal(segment.parent).open()


@pytest.mark.parametrize(("key", "purpose"), [(bytes(32), "test"), (KEY, "other")])
def test_another_key_or_purpose_opens_nothing(tmp_path, key, purpose):
    """A journal of another key, or of the same key for another purpose, is refused and stays as it is."""
    segment = _written(tmp_path / "j", [b"one"])
    before = segment.read_bytes()
    with pytest.raises(WrongKeyError, match="another key"):
        _journal(segment.parent, key, purpose).open()
    assert segment.read_bytes() == before
    assert reopened(segment.parent) == [b"one"]


def test_nothing_of_a_body_is_readable_and_nobody_else_may_look(tmp_path):
    """Bodies are encrypted, equal ones differently; files are 0600 in a folder of 0700; an open folder is refused."""
    body = b"a body that would be found"
    segment = _written(tmp_path / "j", [body, body])
    data = segment.read_bytes()
    assert body[:8] not in data
    start = HEADER_BYTES + _OVERHEAD - 16
    size = _OVERHEAD + len(body)
    assert data[start : start + 16] != data[start + size : start + size + 16]
    assert segment.stat().st_mode & 0o777 == 0o600
    assert segment.parent.stat().st_mode & 0o777 == 0o700
    segment.parent.chmod(0o750)
    with pytest.raises(StorageError, match="chmod 700"):
        _journal(segment.parent).open()


def test_no_process_writes_where_another_one_was(tmp_path):
    """Every process begins a segment with a salt of its own, so that no nonce is used twice after a torn tail."""
    folder = tmp_path / "j"
    _written(folder, [b"one"], [b"torn"])
    (first,) = folder.glob("*.journal")
    first.write_bytes(first.read_bytes()[:-1])
    append(folder, [b"else"])
    headers = [path.read_bytes()[8:40] for path in folder.glob("*.journal")]
    assert len(headers) == len(set(headers)) == 2
    assert reopened(folder) == [b"one", b"else"]


def test_second_process_is_kept_off(tmp_path):
    """While one holds the journal no other opens it."""
    journal = opened(tmp_path / "j")
    with pytest.raises(StorageError, match="another process"):
        _journal(tmp_path / "j").open()
    journal.close()
    opened(tmp_path / "j").close()


def test_inspection_changes_nothing_and_reads_what_is_whole(tmp_path):
    """A torn journal that another process holds can be inspected and read; it is not cut."""
    segment = _written(tmp_path / "j", [b"one"], [b"two"])
    torn = segment.read_bytes()[:-1]
    segment.write_bytes(torn)
    journal = _journal(tmp_path / "j")
    journal.inspect()
    assert bodies_of(journal) == [b"one"]
    assert segment.read_bytes() == torn
    nothing = _journal(tmp_path / "nothing")
    nothing.inspect()
    assert nothing.end == 0
    assert not (tmp_path / "nothing").exists()


def test_forgetting_drops_whole_segments_only(tmp_path):
    """Segments wholly at or before the position go; the rest, and the last position, stay through a restart."""
    journal = opened(tmp_path / "j")
    for number in range(40):
        journal.append([b"%d" % number + bytes(20_000)])
    assert len(list((tmp_path / "j").glob("*.journal"))) > 5
    before = journal.size
    journal.forget(17)
    assert 0 < journal.first <= 17
    assert journal.size < before
    assert bodies_of(journal)[0].startswith(b"%d\0" % journal.first)
    with pytest.raises(StorageError, match="holds"):
        journal.reader(journal.first - 1)
    journal.forget(40)
    assert journal.end == 40
    journal.close()
    journal = opened(tmp_path / "j")
    assert journal.end == 40
    assert journal.append([b"next"]) == 41
    journal.forget(41)
    journal.close()
    journal = opened(tmp_path / "j")
    assert (journal.first, journal.end) == (40, 41)
    journal.close()


def test_segment_that_has_ended_can_be_dropped_when_another_begins(tmp_path):
    """`droppable` says so beforehand; what is in the segment being written stays."""
    journal = opened(tmp_path / "j")
    journal.append([b"small"])
    assert not journal.droppable(1)
    journal.append([bytes(3 << 20)])
    assert journal.full
    assert not journal.droppable(1)
    assert journal.droppable(2)
    journal.append([b"next"])
    journal.forget(2)
    assert (journal.first, journal.end, journal.full) == (2, 3, False)
    journal.close()


def test_reader_goes_on_while_segments_come_and_go(tmp_path):
    """A reader that is up to date reads on across new segments, and across the dropping of what it has read."""
    journal = opened(tmp_path / "j")
    reader = journal.reader(0)
    journal.append([b"first"])
    reader.read(1)
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(30):
        journal.append([b"%d" % number + bytes(20_000)])
        (record,) = reader.read(5)
        assert record.body.startswith(b"%d\0" % number)
        journal.forget(record.position)
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
    journal.close()


def test_full_is_told_and_room_comes_back(tmp_path):
    """A journal at its limit says so; after dropping segments it is full no more."""
    journal = opened(tmp_path / "j")
    count = 0
    while not journal.full:
        count = journal.append([bytes(50_000)])
    assert _LIMIT <= journal.size < _LIMIT + 60_000
    journal.forget(count - 2)
    assert not journal.full
    journal.close()


@pytest.mark.parametrize(
    ("limit", "segment"), [(1 << 20, 1 << 16), (1 << 28, 1 << 20), (1 << 30, 4 << 20), (1 << 40, 64 << 20)]
)
def test_little_stays_that_no_restart_needs(limit, segment):
    """A segment is a small part of the limit, so that what is answered does not lie on the disk for long."""
    assert _journal(Path("unused"), limit=limit).segment_bytes == segment


def test_limit_has_a_least_value():
    """A limit below 1 MiB is refused."""
    with pytest.raises(InputError, match=r"journal\.limit = 1000"):
        _journal(Path("unused"), limit=1000)


def test_key_of_another_length_is_refused(tmp_path):
    """A key must have 32 bytes."""
    journal = _journal(tmp_path / "j", key=b"short")
    journal.open()
    with pytest.raises(InputError, match=r"journal\.key = 5"):
        journal.append([b"x"])
    journal.close()


@pytest.mark.parametrize("crash", [True, False])
def test_crash_or_failure_at_every_call(tmp_path, crash):
    """Whatever call a process dies at, or fails once: what was appended is there, the rest whole or not at all."""
    groups = [[b"%d" % number + bytes(30_000), b"-%d" % number] for number in range(6)]
    for index in itertools.count():
        folder = tmp_path / str(index)
        folder.mkdir(mode=0o700)
        journal = _journal(folder)
        done: list[bytes] = []
        with Faults(**{"crash_at" if crash else "fail_at": index}) as faults:
            try:
                journal.open()
                for group in groups:
                    try:
                        journal.append(group)
                    except StorageError as exc:
                        if "opened (again)" not in str(exc):
                            journal.append(group)
                        else:
                            journal.open()
                            if journal.end == len(done):
                                journal.append(group)
                    done += group
                    journal.forget(len(done) - 4)
            except (SimulatedCrash, StorageError):
                pass
        journal.close()
        again = opened(folder)
        there = bodies_of(again)
        if not crash and len(done) == 12:
            assert again.end == 12
        assert again.end - len(done) in ({0, 1, 2} if crash else {0})
        assert there == list(itertools.chain.from_iterable(groups))[again.first : again.end]
        again.append([b"more"])
        again.close()
        if not faults.reached:
            break
    assert index > 15


def test_journals_of_earlier_versions_are_read(tmp_path):
    """Segments, byte for byte as they were written then, hold the records of then; so the format has not changed."""
    folder = tmp_path / "j"
    folder.mkdir(mode=0o700)
    for name, data in _GOLDEN.items():
        (folder / name).write_bytes(bytes.fromhex(data))
    journal = _journal(folder, purpose="golden")
    journal.open()
    assert bodies_of(journal) == [b"0-0", b"0-1", b"1-0", b"1-1", b"last"]
    journal.close()


def test_append_needs_open(tmp_path):
    """A journal that is not open takes nothing."""
    with pytest.raises(StorageError, match="opened"):
        _journal(tmp_path / "j").append([b"x"])
