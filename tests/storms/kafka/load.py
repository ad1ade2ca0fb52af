"""A producer that never pauses for long: small bursts to random partitions, through restarts of the broker."""

import random
import threading
import time
from typing import Final

from confluent_kafka import Producer

from tests.storms.kafka.ground import PARTITIONS, chaos_plan, queries

_BURST: Final = 12
_FLUSH_SECONDS: Final = 300.0
_RESERVE: Final = 20
"""Rounds that each shard's plan keeps, so that it never ends."""


class Load:
    """Sends each partition's log in order, exactly once.

    Args:
        servers: The broker.
        topic: The query topic.
        seed: Of the messages and of the bursts.
        rate: Messages a second, about.
        steps: How often `step` will be called: a part of the plan's rounds is kept for each.
        predictor: What answers.
    """

    def __init__(  # noqa: PLR0913, PLR0917 -- each is one thing that storms vary
        self, servers: str, topic: str, seed: int, rate: float, steps: int, predictor: str
    ) -> None:
        self._topic = topic
        self._rng = random.Random(f"{seed} bursts")  # noqa: S311  # pauses, not noise
        self._rate = rate
        self._logs = [queries(seed, partition, predictor) for partition in range(PARTITIONS)]
        self._rounds = [0] * PARTITIONS
        self._most = chaos_plan(predictor).rounds - _RESERVE
        self._steps, self._step = max(steps, 1), 1
        self._failed: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,  # a broker that is killed loses and repeats nothing of the log
                "linger.ms": 2,
                "message.timeout.ms": 300_000,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        self.sent = [0] * PARTITIONS

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def step(self) -> None:
        """Allow the next part of the plan's rounds."""
        self._step += 1

    def stop(self) -> None:
        """End, and wait until all is in the log."""
        self._over.set()
        self._thread.join()
        left = self._producer.flush(_FLUSH_SECONDS)
        if left or self._failed:
            message = f"the load could not be produced: {left} left, {self._failed[:1]}"
            raise RuntimeError(message)

    def _run(self) -> None:
        while not self._over.is_set():
            partition = self._rng.randrange(PARTITIONS)
            burst = self._rng.randrange(1, _BURST)
            if self._rounds[partition] < self._most * min(self._step / self._steps, 1.0) - _BURST * 8:
                for _ in range(burst):
                    self._send(partition)
            self._producer.poll(0)
            time.sleep(self._rng.random() * 2 * burst / self._rate)

    def _send(self, partition: int) -> None:
        query = next(self._logs[partition])
        headers: list[tuple[str, str | bytes | None]] = [("content-type", query.content_type)]
        self._producer.produce(
            self._topic, query.body, key=query.key, partition=partition, headers=headers, on_delivery=self._delivered
        )
        self.sent[partition] += 1
        self._rounds[partition] += query.rounds

    def _delivered(self, error: object, _message: object) -> None:
        if error is not None:
            self._failed.append(str(error))
