"""Runs `perpetua` with a crash at a point of a commit: `python -m tests.support.kafka_launcher POINT POSITION ...`.

It is the first commit up to POSITION or further: how many commits there are before it depends on the machine's speed.
A crash is the end of the process at once, as kill -9 makes it; its exit code is 77, so that a test knows it.
"""

import functools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, Final

from aiokafka import AIOKafkaProducer

from connectors.base import Commit
from connectors.kafka.sink import KafkaSink
from oracle.cli.main import main

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


def _set(point: str, position: int, die: Callable[[], None]) -> None:
    owner, name, behind = POINTS[point]
    real = getattr(owner, name)
    within = over = False

    @functools.wraps(real)
    async def call(*arguments: Any) -> Any:
        nonlocal over
        reached, over = within and not over, within or over
        if reached and not behind:
            die()
        result = await real(*arguments)
        if reached and behind:
            die()
        return result

    setattr(owner, name, call)
    commit = KafkaSink.commit

    async def look(sink: KafkaSink, given: Commit) -> None:
        nonlocal within
        within = given.position >= position
        await commit(sink, given)

    setattr(KafkaSink, "commit", look)  # noqa: B010 -- to mypy, a method is not assigned to


if __name__ == "__main__":
    word, number, *sys.argv[1:] = sys.argv[1:]
    if word.startswith("stop-"):  # stop as at SIGSTOP, and go on when the test says so
        _set(word.removeprefix("stop-"), int(number), lambda: os.kill(os.getpid(), signal.SIGSTOP))
    else:
        _set(word, int(number), lambda: os._exit(CRASHED))
    main()
