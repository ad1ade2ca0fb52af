"""What one transaction is made of."""

from aiokafka import TopicPartition

from connectors.kafka.client import close_quietly, make_producer
from connectors.kafka.marks import Claim, mark_record
from connectors.kafka.offset_metadata import Seal
from connectors.kafka.record_batches import FetchedBatches
from connectors.kafka.settings import KafkaSettings
from connectors.kafka.transactions import Part, _marks


def _part(number, marks="marks"):
    """Return what a model's only partition commits; every fifth model has another one."""
    query = TopicPartition(f"queries-{number}", int(number % 5 == 0))
    seal = Seal(b"secret", "g", query.topic, query.partition)
    return Part(query, Claim(number, "metadata"), seal, marks, ())


async def test_marks_of_one_partition_go_together():
    """In as few batches as they fit in, each of them once, in order; a batch of each would wait for the one before."""
    settings = KafkaSettings(
        servers=("127.0.0.1:1",), topic="q", answers="a", group="g", model="m", batch_bytes=4096, secret=b"secret"
    )
    producer = make_producer(settings, 0)
    parts = [_part(number) for number in range(100)]
    found, sizes = dict[int, list[tuple[bytes | None, bytes | None]]](), list[int]()
    for topic, partition, batch in _marks(producer, [*parts, _part(1, marks=None)]):
        assert topic == "marks"
        read = FetchedBatches(bytes(batch._build()))
        (records,) = list(read.next_batch() or [])
        found.setdefault(partition, []).extend((one.key, one.value) for one in records.records)
        sizes.append(len(records.records))
    await close_quietly(producer)
    for partition in (0, 1):
        its = [part for part in parts if part.query.partition == partition]
        assert found[partition] == [
            mark_record(part.seal or Seal(b"", "", "", 0), part.claim, (-1, -1)) for part in its
        ]
    assert sum(sizes) == 100
    assert max(sizes) > 5
    assert len(sizes) < 25
