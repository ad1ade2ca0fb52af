"""How long an answer takes, from the producer's clock to when a reader of committed records may have it."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
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
        made = _produce(trial, bodies, rate)
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


def _produce(trial: Trial, bodies: Sequence[bytes], rate: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Produce in small steps; return when each was handed to the producer."""
    producer = trial.producer()
    made = np.empty(len(bodies))
    started, done = time.time(), 0
    while done < len(bodies):
        due = min(len(bodies), int((time.time() - started) * rate) + 1)
        made[done:due] = time.time()
        for body in bodies[done:due]:
            producer.produce(trial.queries, body, partition=0)
        done = due
        producer.poll(0)
        time.sleep(_TICK)
    producer.flush()
    return made
