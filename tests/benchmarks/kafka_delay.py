"""How long an answer takes, from the producer's clock to when a reader of committed records may have it."""

import asyncio
import math
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
        assert len(offsets) == len(bodies), f"{trial.name}: {len(offsets)} of {len(bodies)} answers are readable"
        until, times = readable(trial)
    taken = (times[np.searchsorted(until, offsets)] - made)[int(len(made) * _LEFT_OUT) :]
    return Delays(float(np.percentile(taken, 50)), float(np.percentile(taken, 99)))


def readable(trial: Trial) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the last offset of each batch of answers, and when (seconds) all up to it became readable.

    The broker's own files have it: what was written in a transaction is readable from the marker on that ends it, which
    clients hand to no reader, and a batch without one from when it was written, but neither before all that is ahead.
    """
    offsets: list[int] = []
    times: list[float] = []
    under_way: dict[int, list[int]] = {}
    for segment in sorted((trial.broker.folder / "data" / f"{trial.answers}-0").glob("*.log")):
        records = MemoryRecords(segment.read_bytes())
        while (batch := records.next_batch()) is not None:
            written = batch.max_timestamp / 1000
            if batch.is_control_batch:
                for index in under_way.pop(batch.producer_id, ()):
                    times[index] = written
                continue
            if batch.is_transactional:
                under_way.setdefault(batch.producer_id, []).append(len(times))
            offsets.append(batch.base_offset + batch.last_offset_delta)
            times.append(math.inf if batch.is_transactional else written)
    return np.array(offsets), np.maximum.accumulate(times)


async def _produce(trial: Trial, bodies: Sequence[bytes], rate: float) -> NDArray[np.float64]:
    """Produce in small steps, whose batches were built before; return when each query was due.

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
            made[number * step : (number + 1) * step] = started + number * step / rate
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
