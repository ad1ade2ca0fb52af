"""How long an answer takes, from the producer's clock to when a reader of committed records may have it."""

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from aiokafka import AIOKafkaProducer
from aiokafka.producer.message_accumulator import BatchBuilder
from confluent_kafka import Consumer, TopicPartition

from tests.benchmarks.kafka_trial import Service, Trial

_TICK: Final = 0.005
_LOOK: Final = 0.001
_WARM: Final = 200
_LEFT_OUT: Final = 0.25
"""Share of the queries at the beginning that are not counted."""


@dataclass(frozen=True)
class Delays:
    """Seconds that half, and 99 of 100, of the answers did not exceed."""

    p50: float
    p99: float


@dataclass
class _OffsetReader:
    """Notes when the answer topic's last stable offset was seen to move: what lies before it is readable."""

    trial: Trial
    seen: list[tuple[float, int]] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Look until it is over."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.trial.broker.servers,
                "group.id": "watch",
                "isolation.level": "read_committed",
            }
        )
        part = TopicPartition(self.trial.answers, 0)
        while not self.ended.is_set():
            _, stable = consumer.get_watermark_offsets(part, timeout=5.0, cached=False)
            if not self.seen or stable > self.seen[-1][1]:
                self.seen.append((time.time(), stable))
            time.sleep(_LOOK)
        consumer.close()


def delays(trial: Trial, service: Service, bodies: Sequence[bytes], rate: float) -> Delays:
    """Produce queries to partition 0 at an even rate, and time their answers.

    Args:
        trial: Fresh.
        service: Not running.
        bodies: The queries, one a record.
        rate: Queries a second.
    """
    warm = min(_WARM, len(bodies))
    reader = _OffsetReader(trial)
    thread = threading.Thread(target=reader.run, daemon=True)
    with trial, service.running(trial) as processes:
        trial.send(trial.producer(), bodies[:warm], 0)
        trial.wait(warm, processes)
        thread.start()
        made = asyncio.run(_produce(trial, bodies, rate))
        trial.wait(warm + len(bodies), processes)
        time.sleep(10 * _LOOK)
        reader.ended.set()
        thread.join()
        answers = trial.read(0, warm + len(bodies))[warm:]
    offsets = np.array([answer.offset() for answer in answers])
    times, stable = (np.array(column) for column in zip(*reader.seen, strict=True))
    readable = times[np.searchsorted(stable, offsets, side="right")]
    taken = (readable - made)[int(len(made) * _LEFT_OUT) :]
    return Delays(float(np.percentile(taken, 50)), float(np.percentile(taken, 99)))


async def _produce(trial: Trial, bodies: Sequence[bytes], rate: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Produce in small steps, whose batches were built before; return when each query was handed to the producer.

    A producer that takes records one by one needs most of a core at the rates that are measured here, and on a small
    machine it would be the wait for that core that is timed.
    """
    made = np.empty(len(bodies))
    step = max(int(rate * _TICK), 1)
    sender = AIOKafkaProducer(bootstrap_servers=trial.broker.servers, enable_idempotence=True, max_batch_size=1 << 20)
    batches = [_batch(sender, bodies[begin : begin + step]) for begin in range(0, len(bodies), step)]
    deliveries = []
    await sender.start()
    try:
        started = time.time()
        for number, batch in enumerate(batches):
            await asyncio.sleep(max(started + number * step / rate - time.time(), 0.0))
            made[number * step : (number + 1) * step] = time.time()
            deliveries.append(await sender.send_batch(batch, trial.queries, partition=0))
        await asyncio.gather(*deliveries)
    finally:
        await sender.stop()
    return made


def _batch(sender: AIOKafkaProducer, bodies: Sequence[bytes]) -> BatchBuilder:
    batch, now = sender.create_batch(), int(time.time() * 1000)
    for body in bodies:
        assert batch.append(timestamp=now, key=None, value=body) is not None, "a step's queries do not fit in a batch"
    batch.close()
    return batch
