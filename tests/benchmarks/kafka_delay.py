"""How long an answer takes, from the producer's clock to when a reader of committed records may have it."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from aiokafka import AIOKafkaProducer
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from numpy.typing import NDArray

from tests.benchmarks.kafka_trial import Service, Trial

_TICK: Final = 0.005
_WARM: Final = 200
_LEFT_OUT: Final = 0.25
"""Share of the queries at the beginning that are not counted."""


@dataclass(frozen=True)
class Delays:
    """Seconds that half, and 99 of 100, of the answers did not exceed."""

    p50: float
    p99: float


def delays(trial: Trial, service: Service, bodies: Sequence[bytes], rate: float) -> Delays:
    """Produce queries to partition 0 at an even rate, and time their answers.

    Args:
        trial: Fresh.
        service: Not running.
        bodies: The queries, one a record.
        rate: Queries a second.
    """
    warm = min(_WARM, len(bodies))
    with trial, service.running(trial) as processes:
        trial.send(trial.producer(), bodies[:warm], 0)
        trial.wait(warm, processes)
        made = asyncio.run(_produce(trial, bodies, rate))
        trial.wait(warm + len(bodies), processes)
        offsets = np.array([answer.offset() for answer in trial.read(0, warm + len(bodies))[warm:]])
        until, times = _readable(trial)
    taken = (times[np.searchsorted(until, offsets)] - made)[int(len(made) * _LEFT_OUT) :]
    return Delays(float(np.percentile(taken, 50)), float(np.percentile(taken, 99)))


def _readable(trial: Trial) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return offsets of the answer topic, and when (seconds) all up to each became readable, by the broker's own files.

    What was written in a transaction is readable from the marker on that ends it, which a broker gives to no reader; a
    batch without one from when it was written.
    """
    found = []
    for segment in sorted((trial.broker.folder / "data" / f"{trial.answers}-0").glob("*.log")):
        records = MemoryRecords(segment.read_bytes())
        while (batch := records.next_batch()) is not None:
            if batch.is_control_batch or not batch.is_transactional:
                found.append((batch.base_offset + batch.last_offset_delta, batch.max_timestamp / 1000))
    offsets, times = zip(*found, strict=True)
    return np.array(offsets), np.array(times)


async def _produce(trial: Trial, bodies: Sequence[bytes], rate: float) -> NDArray[np.float64]:
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
