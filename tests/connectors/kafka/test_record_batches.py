"""Batches that a broker takes and the client cannot read are read as the broker does."""

import contextlib
import struct

import pytest
from aiokafka.errors import CorruptRecordException, KafkaError
from hypothesis import given
from hypothesis import strategies as st

from connectors.kafka.record_batches import FetchedBatches, UnpackedBatchError
from tests.support.kafka_records import batch, packed, record, sealed, varint

_TIME = 1_700_000_000_000


def _read(data):
    """Return all records of some batches: offset, time, key, value, headers."""
    records = FetchedBatches(data)
    assert records.size_in_bytes() == len(data)
    found = []
    while records.has_next():
        part = records.next_batch()
        assert part is not None
        assert part.validate_crc()
        whole = [record for batch in part for record in batch.records]
        found += [(record.offset, record.timestamp, record.key, record.value, list(record.headers)) for record in whole]
    assert records.next_batch() is None
    return found


_small = st.binary(max_size=4)
_numbers = st.sampled_from([0, 0, 1, 2, -1, 2**31 - 1, -(2**31)]) | st.integers(-(2**31), 2**31 - 1)
_times = st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63)]) | st.integers(-(2**63), 2**63 - 1)


@st.composite
def _records(draw):
    """Draw the arguments of `record`: mostly what clients write, now and then what only brokers read."""
    hostile = draw(st.booleans())
    return {
        "delta": draw(_numbers) if hostile else 0,
        "value": draw(st.none() | _small),
        "key": draw(st.none() | _small),
        "headers": draw(st.lists(st.tuples(_small if hostile else st.just(b"name"), st.none() | _small), max_size=3)),
        "attributes": draw(st.sampled_from([0, 1, 0x7F, 0x80, 0x81, 0xFF])) if hostile else 0,
        "time": draw(_times) if hostile else 0,
        "size": draw(st.integers(1, 5)) if hostile else 1,
        "beyond": draw(st.integers(0, 7)) if hostile else 0,
    }


@given(st.lists(st.tuples(st.lists(_records(), min_size=1, max_size=4), st.booleans()), max_size=3))
def test_every_record_is_read_at_its_offset(batches):
    """Whatever its numbers, attributes, names and the offset it claims, each record is read, whole, in its turn."""
    data, expected = b"", []
    for number, (parts, true_offsets) in enumerate(batches):
        for index, part in enumerate(parts):
            if true_offsets:
                part["delta"] = index
            time = (_TIME + part["time"] + 2**63) % 2**64 - 2**63
            headers = [(name.decode(errors="surrogateescape"), value) for name, value in part["headers"]]
            expected.append((10 * number + index, time, part["key"], part["value"], headers))
        data += batch([record(**part) for part in parts], first=10 * number, time=_TIME)
    assert _read(data) == expected


def test_attributes_that_shift_the_fields_are_one_byte():
    """A record that makes sense with attributes of two bytes too, and another one, is read as brokers do."""
    data = batch([b"\x12\x80\0\0\0\2A\2\0\0"])  # length, attributes, time, offset, key "", value "A", one empty header
    assert _read(data) == [(0, _TIME, b"", b"A", [("", b"")])]


@pytest.mark.parametrize(
    ("deltas", "offsets"),
    [
        ([1, 2, 7], [101, 102, 107]),
        ([0, 1, 2], [100, 101, 102]),
        ([7], [107]),
        ([8, 9, 10], [100, 101, 102]),
        ([-1, 2, 3], [100, 101, 102]),
        ([2, 2, 3], [100, 101, 102]),
        ([2, 1, 3], [100, 101, 102]),
    ],
)
def test_offsets_of_a_compacted_batch_are_its_records_if_they_make_sense(deltas, offsets):
    """Where records were taken out, the others keep their offsets; those that do not rise in the batch are not used."""
    data = batch([record(delta, b"v") for delta in deltas], first=100, last=7)
    assert [offset for offset, *_ in _read(data)] == offsets


def test_brokers_own_times_are_kept():
    """A batch with the broker's time has it in its head, for all of its records."""
    data = bytearray(batch([record(0, b"v", time=5, attributes=0xFF), record(1, b"w", time=6)]))
    struct.pack_into(">h", data, 21, 8)
    struct.pack_into(">q", data, 35, 77)
    assert [time for _, time, *_ in _read(sealed(data))] == [77, 77]


_GOOD = record(0, b"v", headers=[(b"\xff", b"")])


_EDGES = [edge + step for edge in (2**31, 2**32, 2**62, 2**63 - 60, 2**63 - 2) for step in (-1, 0, 1)]


@pytest.mark.parametrize("part", ["length", "offset", "key", "value", "headers", "name", "content"])
@pytest.mark.parametrize("before", [0, 100])
def test_sizes_beyond_the_format(part, before):
    """Numbers of 64 bits where the format has 32 are nothing, or cut as brokers cut them, or an error by name."""
    for size in [*_EDGES, *(-edge for edge in _EDGES), -(2**63)]:
        usual = {"length": 0, "offset": 1, "key": -1, "value": 1, "headers": 1, "name": 1, "content": -1}
        number = {name: varint(size if name == part else one, bits=64) for name, one in usual.items()}
        body = b"\0\0" + number["offset"] + number["key"] + number["value"] + b"v" + number["headers"]
        body += number["name"] + b"n" + number["content"]
        length = number["length"] if part == "length" else varint(len(body))
        try:
            found = _read(batch([record(0, bytes(before)), length + body]))
        except CorruptRecordException:
            continue
        assert found[0] == (0, _TIME, None, bytes(before), [])
        assert found[1][:2] == (1, _TIME)
        assert part in {"offset", "key", "content"} or abs(size) <= 2**32 + 1


@given(
    st.lists(_records(), min_size=1, max_size=3),
    st.integers(0, 2**32),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from(["b", "h", "i", "q"]),
)
def test_any_bytes_are_records_or_an_error(parts, place, number, width):
    """A number of any width anywhere behind the batch's length gives records, or an error of the client's."""
    data = bytearray(batch([record(**part) for part in parts]))
    size = struct.calcsize(width)
    first = 16  # behind what says where the batch ends
    place = first + place % (len(data) - first - size + 1)
    struct.pack_into(f">{width}", data, place, (number + 2 ** (8 * size - 1)) % 2 ** (8 * size) - 2 ** (8 * size - 1))
    with contextlib.suppress(KafkaError):
        for offset, time, *_ in _read(sealed(data)):
            assert -(2**63) <= time < 2**63
            assert 0 <= offset < 2**31


@pytest.mark.parametrize("kind", [1, 2, 3, 4, 5, 7])
def test_what_cannot_be_unpacked_is_an_error(kind):
    """Bytes that are not compressed in the way that their batch says, or in one that there is not."""
    data = bytearray(batch([record(0, b"v" * 50)]))
    struct.pack_into(">h", data, 21, kind)
    with pytest.raises(KafkaError):
        _read(sealed(data))


@pytest.mark.parametrize(
    "records",
    [
        [_GOOD[:-1]],
        [_GOOD + b"\0"],
        [bytes([_GOOD[0] + 2]) + _GOOD[1:]],
        [bytes([_GOOD[0] + 2]) + _GOOD[1:] + b"\0"],
        [b"\x0e\0\0\0\1\1\2\1"],
        [b"\x0c\0\0\0\1\1\1"],
        [b"\x0a\0\0\0\1\x7e"],
        [b"\x80\x80\x80\x80\x80\0" + _GOOD[1:]],
        [b"\x01"],
        [b""],
    ],
)
def test_what_no_broker_takes_is_an_error(records):
    """Parts longer than their record, records longer than their parts, negative sizes, numbers without end."""
    with pytest.raises(CorruptRecordException):
        _read(batch(records))


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_a_batch_that_unpacks_to_far_more_than_there_is_room_is_an_error(codec):
    """Some kilobytes would be 300 MB; the error says which offsets, and what to do."""
    data = bytearray(packed(codec, [record(0, bytes(300 << 20))]))
    struct.pack_into(">q", data, 0, 7)
    with pytest.raises(UnpackedBatchError, match=r"offset 7 to 8 cannot .* more than 32 MiB; .* = 8$"):
        _read(bytes(data))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_of_every_codec_are_read(codec):
    """What is in them is what their producer put there, some megabytes of it too."""
    values = [b"v" * size for size in (0, 1, 5 << 20)]
    data = packed(codec, [record(index, value) for index, value in enumerate(values)])
    assert [value for _, _, _, value, _ in _read(data)] == values
