"""Kafka's records byte by byte, also such as no client writes, and how to give them to a broker."""

import struct
import time
from collections.abc import Iterable, Sequence

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.codec import gzip_encode, lz4_encode, snappy_encode, zstd_encode
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.util import calc_crc32c

_HEADER = struct.Struct(">qiibIhiqqqhii")
_CRC = struct.Struct(">I")
_CODECS = {"gzip": (gzip_encode, 1), "snappy": (snappy_encode, 2), "lz4": (lz4_encode, 3), "zstd": (zstd_encode, 4)}
_CRC_AT, _SUMMED_FROM = 17, 21


def varint(value: int, *, bits: int = 32, size: int = 1, beyond: int = 0) -> bytes:
    """Return a number as Kafka writes it: in at least `size` bytes, with `beyond` in the bits that do not count."""
    raw = ((value << 1) ^ (value >> 63)) % (1 << bits) | beyond << bits
    found = bytearray()
    while raw >= 0x80 or len(found) + 1 < size:
        found.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*found, raw])


def record(  # noqa: PLR0913 -- what a record has
    delta: int,
    value: bytes | None,
    *,
    key: bytes | None = None,
    headers: Sequence[tuple[bytes, bytes | None]] = (),
    attributes: int = 0,
    time: int = 0,
    size: int = 1,
    beyond: int = 0,
) -> bytes:
    """Return a record; `size` and `beyond` are what `varint` takes, for all of its 32-bit numbers."""

    def number(value: int) -> bytes:
        return varint(value, size=size, beyond=beyond)

    def field(value: bytes | None) -> bytes:
        return number(-1) if value is None else number(len(value)) + value

    body = bytes([attributes]) + varint(time, bits=64) + number(delta) + field(key) + field(value)
    body += number(len(headers)) + b"".join(field(name) + field(content) for name, content in headers)
    return number(len(body)) + body


def batch(records: Sequence[bytes], *, first: int = 0, last: int | None = None, time: int = 1_700_000_000_000) -> bytes:
    """Return a batch: `first` is its first offset, `last` the last one's place in it, if there are gaps."""
    body = b"".join(records)
    size = _HEADER.size - 12 + len(body)
    last = len(records) - 1 if last is None else last
    return sealed(_HEADER.pack(first, size, -1, 2, 0, 0, last, time, time, -1, -1, -1, len(records)) + body)


def packed(codec: str, records: Sequence[bytes]) -> bytes:
    """Return a compressed batch with the time of now, as brokers keep it only where a topic may have such."""
    pack, kind = _CODECS[codec]
    data = bytearray(batch(records, time=int(time.time() * 1000))[: _HEADER.size])
    data += pack(b"".join(records))
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">h", data, _SUMMED_FROM, kind)
    return sealed(data)


def sealed(data: bytes | bytearray) -> bytes:
    """Return a batch with the checksum of its bytes."""
    found = bytearray(data)
    _CRC.pack_into(found, _CRC_AT, calc_crc32c(bytes(found[_SUMMED_FROM:])))
    return bytes(found)


async def produce(servers: str, topic: str, batches: Iterable[bytes]) -> list[int]:
    """Give batches to a broker as they are, for partition 0, and return its error codes: 0 for each that it takes."""
    producer = AIOKafkaProducer(bootstrap_servers=servers)
    await producer.start()
    try:
        client, codes = producer.client, []
        await client._wait_on_metadata(topic)
        node = client.cluster.leader_for_partition(TopicPartition(topic, 0))
        for data in batches:
            request = ProduceRequest(None, -1, 5000, [(topic, [(0, data)])])
            response = await client.send(node, request)
            codes.append(response.topics[0][1][0][1])
        return codes
    finally:
        await producer.stop()
