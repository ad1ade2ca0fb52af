"""Runs `perpetua` with a crash at a point of the n-th commit: `python -m tests.support.kafka_launcher POINT N ...`.

A crash is the end of the process at once, as kill -9 makes it; its exit code is 77, so that a test knows it.
"""

import functools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, Final

from aiokafka import AIOKafkaProducer

from connectors.kafka.sink import KafkaSink
from oracle.cli.main import main

__all__ = ["CRASHED", "POINTS"]

CRASHED: Final = 77

POINTS: Final[dict[str, tuple[Any, str, bool]]] = {
    "before": (KafkaSink, "commit", False),
    "answers": (AIOKafkaProducer, "send_offsets_to_transaction", False),
    "offsets": (AIOKafkaProducer, "send_offsets_to_transaction", True),
    "end": (AIOKafkaProducer, "commit_transaction", False),
    "ended": (AIOKafkaProducer, "commit_transaction", True),
    "after": (KafkaSink, "commit", True),
}
"""Method, and whether it dies behind it (else before), by the word for it."""


def _set(point: str, number: int, die: Callable[[], None]) -> None:
    owner, name, behind = POINTS[point]
    real = getattr(owner, name)
    calls = 0

    @functools.wraps(real)
    async def call(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        reached = calls == number
        if reached and not behind:
            die()
        result = await real(*arguments)
        if reached and behind:
            die()
        return result

    setattr(owner, name, call)


if __name__ == "__main__":
    word, ordinal, *sys.argv[1:] = sys.argv[1:]
    if word.startswith("stop-"):  # stop as at SIGSTOP, and go on when the test says so
        _set(word.removeprefix("stop-"), int(ordinal), lambda: os.kill(os.getpid(), signal.SIGSTOP))
    else:
        _set(word, int(ordinal), lambda: os._exit(CRASHED))
    main()
