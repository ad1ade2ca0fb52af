import dataclasses
import hashlib
import struct
import zlib
from typing import Any, Final

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.errors import (
    CorruptSnapshotError,
    ForeignPlanError,
    InputError,
    KeyFileError,
    NewerVersionError,
    StateError,
    TruncatedSnapshotError,
    WrongKeyError,
)
from oracle.state.blobs import decode_payload, encode_payload
from oracle.state.format import Snapshot, decode, encode, peek
from oracle.state.header import HEADER_BYTES, VERSION
from tests.state.suite import DIGEST, KEY, OTHER_PLAN, assert_same, make_snapshot

DTYPES = ["?", "i1", "<i2", ">i4", "<i8", "u1", "<u2", "<u4", ">u8", "<f4", "<f8", ">f8"]
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
ARRAYS = st.dictionaries(
    st.text(min_size=1, max_size=8).filter(lambda name: name.isprintable()),
    st.sampled_from(DTYPES).flatmap(lambda dtype: hnp.arrays(np.dtype(dtype), SHAPES)),
    max_size=4,
)
WORDS = st.integers(0, 2**64 - 1)
COUNTS: Final[tuple[dict[str, int], ...]] = ({}, {"paid": 7}, {"rested": 7}, {"rested": 7, "rest_left": 3})
"""Of headers of version 2, 3 and 4."""


@given(arrays=ARRAYS, words=st.tuples(*[WORDS] * 8), tag=st.binary(min_size=16, max_size=16))
def test_round_trip(arrays, words, tag):
    """Every field and every bit of every array comes back, NaN payloads and zero-dimensional arrays too."""
    generation, position, rounds, phase, rearms, paid, rested, rest_left = words
    snapshot = dataclasses.replace(
        make_snapshot(),
        generation=generation,
        position=position,
        round=rounds,
        phase=phase,
        rearms=rearms,
        tag=tag,
        arrays=arrays,
        paid=paid,
        rested=rested,
        rest_left=rest_left,
    )
    decoded = decode(encode(snapshot, KEY), KEY, DIGEST)
    assert_same(decoded, snapshot)
    for array in decoded.arrays.values():
        assert array.flags.writeable
        assert array.flags.aligned


def test_first_snapshot_stands_before_the_first_round():
    """It is of phase 1, of no round and no place in the stream, and fits the format."""
    first = Snapshot.first(DIGEST, {"points": np.zeros(3)})
    assert (first.plan_digest, first.generation, first.phase) == (DIGEST, 1, 1)
    assert (first.position, first.round, first.rearms, first.tag) == (0, 0, 0, bytes(16))
    assert_same(decode(encode(first, KEY), KEY, DIGEST), first)


@given(data=st.data())
def test_size_does_not_depend_on_values(data):
    """Two states of one shape have snapshots of one size, whatever their values and counters."""
    dtype = np.dtype(data.draw(st.sampled_from(DTYPES)))
    shape = data.draw(SHAPES)
    sizes = set()
    for _ in range(2):
        snapshot = dataclasses.replace(
            make_snapshot(),
            round=data.draw(WORDS),
            position=data.draw(WORDS),
            tag=data.draw(st.binary(min_size=16, max_size=16)),
            arrays={"points": data.draw(hnp.arrays(dtype, shape)), "count": np.array(data.draw(WORDS), np.uint64)},
        )
        sizes.add(len(encode(snapshot, KEY)))
    assert len(sizes) == 1


def test_payload_is_deterministic_and_sorted():
    """The order in which arrays are given does not show."""
    first, second = np.arange(3), np.zeros((2, 2), np.float32)
    assert encode_payload(bytes(16), {"a": first, "b": second}) == encode_payload(bytes(16), {"b": second, "a": first})


def test_non_contiguous_arrays_are_written_in_order():
    """A transposed or strided view is stored as what it shows."""
    array = np.arange(24, dtype=np.int64).reshape(4, 6)[::2, ::3].T
    _tag, arrays = decode_payload(encode_payload(bytes(16), {"view": array}))
    np.testing.assert_array_equal(arrays["view"], array)


def test_ciphertext_is_fresh_and_hides_the_payload():
    """Two snapshots of one state share no ciphertext, and no array or tag stands in the clear."""
    snapshot = make_snapshot()
    first, second = encode(snapshot, KEY), encode(snapshot, KEY)
    length = peek(first).header_bytes
    assert first[length:] != second[length:]
    assert snapshot.tag not in first
    for name, array in snapshot.arrays.items():
        assert name.encode() not in first
        assert array.tobytes() not in first


@pytest.mark.parametrize("counts", COUNTS)
def test_every_flipped_bit_is_found(counts):
    """No flipped bit anywhere passes; each is called corruption, of which truncation is a kind."""
    data = encode(make_snapshot(**counts), KEY)
    for index in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[index] ^= 1 << bit
            with pytest.raises(CorruptSnapshotError):
                decode(bytes(flipped), KEY, DIGEST)


@pytest.mark.parametrize("counts", COUNTS)
def test_every_flipped_header_bit_is_found_without_the_key(counts):
    """`peek` finds every flipped bit of the header."""
    data = encode(make_snapshot(**counts), KEY)
    for index in range(peek(data).header_bytes):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[index] ^= 1 << bit
            with pytest.raises(CorruptSnapshotError):
                peek(bytes(flipped))


@pytest.mark.parametrize("counts", COUNTS)
def test_every_truncation_is_found(counts):
    """Every proper beginning is called truncated, the empty one too."""
    data = encode(make_snapshot(**counts), KEY)
    for length in range(len(data)):
        with pytest.raises(TruncatedSnapshotError):
            decode(data[:length], KEY, DIGEST)


def test_trailing_bytes_are_found():
    """Bytes behind the end are corruption."""
    with pytest.raises(CorruptSnapshotError):
        decode(encode(make_snapshot(), KEY) + b"\0", KEY, DIGEST)


@given(data=st.binary(max_size=400))
def test_garbage_is_never_a_snapshot(data):
    """Arbitrary bytes raise a named error."""
    with pytest.raises(CorruptSnapshotError):
        decode(data, KEY, DIGEST)


def test_wrong_key_is_told_apart():
    """A wrong key is not reported as damage."""
    with pytest.raises(WrongKeyError):
        decode(encode(make_snapshot(), KEY), bytes(32), DIGEST)


def test_foreign_plan_is_told_apart():
    """A snapshot of another plan is reported as such, before the key is looked at."""
    with pytest.raises(ForeignPlanError):
        decode(encode(make_snapshot(), KEY), bytes(32), hashlib.sha256(OTHER_PLAN).digest())


def test_exchanged_header_fields_are_found():
    """A header with a right checksum but another round does not authenticate."""
    changes: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
        ({}, {"round": 901 + 1}),
        ({"paid": 7}, {"paid": 6}),
        ({"paid": 7}, {"paid": 0}),
        ({}, {"paid": 7}),
        ({"rested": 7}, {"rested": 6}),
        ({"rested": 7}, {"rested": 0}),
        ({"rested": 7, "rest_left": 3}, {"rest_left": 0}),
        ({}, {"rested": 7}),
    )
    for counts, change in changes:
        data = encode(make_snapshot(**counts), KEY)
        forged = dataclasses.replace(peek(data), **change)
        with pytest.raises(CorruptSnapshotError):
            decode(forged.pack() + data[peek(data).header_bytes :], KEY, DIGEST)


def test_paid_answers_lengthen_the_header_and_nothing_else():
    """Without any the file is what it always was (version 2); with some it is of version 3, bound to a shard or not."""
    plain, paying = encode(make_snapshot(), KEY), encode(make_snapshot(paid=7), KEY)
    assert (plain[8:10], paying[8:10]) == (b"\x02\0", b"\x03\0")
    assert len(paying) == len(plain) + 8
    assert (peek(plain).paid, peek(paying).paid) == (0, 7)
    assert len(paying) == peek(paying).total_bytes
    unbound = dataclasses.replace(make_snapshot(paid=7), origin=None)
    decoded = decode(encode(unbound, KEY), KEY, DIGEST)
    assert (decoded.origin, decoded.paid) == (None, 7)


@pytest.mark.parametrize("origin", [make_snapshot().origin, None])
def test_rests_lengthen_the_header_and_nothing_else(origin):
    """Where rounds rested the file is of version 4, bound to a shard or not, with what was paid before."""
    plain = encode(make_snapshot(), KEY)
    given: tuple[dict[str, Any], ...] = ({"rested": 7}, {"rest_left": 3}, {"rested": 7, "rest_left": 3, "paid": 5})
    for counts in given:
        resting = encode(dataclasses.replace(make_snapshot(**counts), origin=origin), KEY)
        assert (plain[8:10], resting[8:10]) == (b"\x02\0", b"\x04\0")
        assert len(resting) == len(plain) + 24 == peek(resting).total_bytes
        decoded = decode(resting, KEY, DIGEST)
        assert decoded.origin == origin
        assert {name: getattr(decoded, name) for name in counts} == counts


def test_declared_length_is_not_believed():
    """A huge declared length is refused by comparing it with what is there."""
    forged = dataclasses.replace(peek(encode(make_snapshot(), KEY)), payload_bytes=2**63)
    with pytest.raises(TruncatedSnapshotError):
        decode(forged.pack(), KEY, DIGEST)


def test_payload_lengths_are_not_believed():
    """A payload whose inner lengths lie is refused without allocating by them."""
    payload = encode_payload(bytes(16), {"points": np.zeros(4)})
    shape = struct.pack("<Q", 4)
    assert payload.count(shape) == 1
    for size in (3, 5, 2**40, 2**64 - 1):
        with pytest.raises(CorruptSnapshotError):
            decode_payload(payload.replace(shape, struct.pack("<Q", size)))
    with pytest.raises(CorruptSnapshotError):
        decode_payload(payload[:16] + struct.pack("<I", 2**32 - 1) + payload[20:])
    with pytest.raises(CorruptSnapshotError):
        decode_payload(payload + b"\0")
    twice = payload[20:]
    with pytest.raises(CorruptSnapshotError):
        decode_payload(payload[:16] + struct.pack("<I", 2) + twice + twice)


@settings(max_examples=300)
@given(data=st.data())
def test_damaged_payloads_raise_named_errors(data):
    """Even an authenticated payload with any byte changed gives arrays or a named error, never another exception."""
    payload = bytearray(encode_payload(bytes(16), {"points": np.zeros((2, 2)), "key": np.zeros(4, np.uint8)}))
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode_payload(bytes(payload))
    except StateError as exc:
        assert isinstance(exc, CorruptSnapshotError)  # noqa: PT017  # both outcomes are right


@pytest.mark.parametrize("length", [0, 148, 2000])
def test_newer_version_is_told_before_anything_else(length):
    """A newer version is named whatever its header's length and content are."""
    prefix = struct.pack("<8sHH", b"PERPSNAP", VERSION + 1, length)
    data = prefix + struct.pack("<I", zlib.crc32(prefix)) + b"?" * 50
    with pytest.raises(NewerVersionError, match=f"version = {VERSION + 1}"):
        decode(data, b"no key at all", b"")
    with pytest.raises(NewerVersionError):
        peek(data[:16])


def test_version_zero_is_corruption():
    """No Perpetua ever wrote version 0."""
    prefix = struct.pack("<8sHH", b"PERPSNAP", 0, HEADER_BYTES)
    with pytest.raises(CorruptSnapshotError):
        peek(prefix + struct.pack("<I", zlib.crc32(prefix)) + bytes(HEADER_BYTES))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("generation", -1),
        ("position", 2**64),
        ("paid", 2**64),
        ("rested", 2**64),
        ("rest_left", -1),
        ("plan_digest", b"short"),
        ("tag", bytes(15)),
        ("arrays", {"text": np.array(["a"])}),
        ("arrays", {"objects": np.array([None])}),
        ("arrays", {"complex": np.zeros(1, complex)}),
        ("arrays", {"": np.zeros(1)}),
    ],
)
def test_what_does_not_fit_is_refused(field, value):
    """Fields outside the format are refused when writing, by name."""
    with pytest.raises(InputError, match=field):
        encode(dataclasses.replace(make_snapshot(), **{field: value}), KEY)


@pytest.mark.parametrize("key", [b"", bytes(31), bytes(33)])
def test_keys_have_one_length(key):
    """A key of another length is refused, and not shown."""
    with pytest.raises(KeyFileError, match="32 bytes"):
        encode(make_snapshot(), key)
