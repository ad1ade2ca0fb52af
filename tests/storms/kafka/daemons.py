"""The daemons under fire: `perpetua serve` in processes of their own, started over and over, or broken on purpose.

They are forked from a server that has imported everything, so that a start takes little.
"""

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from typing import Any, Final

from connectors.base import Commit, Committed, Replies
from connectors.kafka.sink import KafkaSink
from oracle.cli.main import main
from oracle.cli.serve import kafka as serve_kafka  # noqa: F401  # imported once, in the server that forks the daemons
from tests.support.mutants import draw_noise
from tests.support.processes import handles_stop
from tests.support.waiting import TIMEOUT

_WINDOW_SECONDS: Final = 2.0
_LOOK: Final = 0.02
_OPEN: Final = "between two commits"
"""What a daemon logs that commits answers and offset apart: a kill now shows it."""


def _two_commits(*, answers_first: bool) -> None:
    """Break exactness: answers and offset are committed one after the other."""
    real_open, real = KafkaSink.open, KafkaSink.commit
    last: dict[KafkaSink, Committed | None] = {}

    async def open_sink(self: KafkaSink) -> Committed | None:
        last[self] = await real_open(self)
        return last[self]

    async def commit(self: KafkaSink, whole: Commit) -> None:
        before = last.get(self)
        if before is not None and whole.replies:
            offset = before if answers_first else whole
            part = Commit(whole.replies, whole.ledger, offset.position, offset.metadata)
            nothing = Commit(Replies(), [], whole.position, whole.metadata)
            await real(self, part if answers_first else nothing)
            print(f'{{"event": "{_OPEN}"}}', flush=True)  # noqa: T201  # to the log
            await asyncio.sleep(_WINDOW_SECONDS)
            await real(self, nothing if answers_first else part)
        else:
            await real(self, whole)
        last[self] = Committed(whole.position, whole.metadata)

    setattr(KafkaSink, "open", open_sink)  # noqa: B010 -- as in `draw_noise`
    setattr(KafkaSink, "commit", commit)  # noqa: B010 -- as above


MUTANTS: Final[dict[str, Callable[[], None]]] = {
    "drawn noise": draw_noise,
    "answers first": lambda: _two_commits(answers_first=True),
    "offsets first": lambda: _two_commits(answers_first=False),
}


_APART: Final = {"answers first", "offsets first"}


def _serve(config: str, log: str, mutant: str | None) -> None:
    """Be a daemon; the process of the tests is the only thing that it must not outlive."""
    opened = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for descriptor in (1, 2):
        os.dup2(opened, descriptor)
    parent = parent_process()
    assert parent is not None

    def follow() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
    if mutant:
        MUTANTS[mutant]()
    sys.argv = ["perpetua", "serve", config]
    main()


class Slot:
    """A place for one daemon at a time.

    Args:
        config: Its configuration.
        log: Where all daemons of this place log.
        mutant: How they are broken; None for real ones.
    """

    def __init__(self, config: Path, log: Path, mutant: str | None) -> None:
        self._config, self._log, self._mutant = config, log, mutant
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload([__name__])
        self._log.touch()
        self._started = 0.0
        self._before = 0

    def start(self) -> None:
        """Start a daemon."""
        self._before = self._log.stat().st_size
        arguments = (str(self._config), str(self._log), self._mutant)
        self._process = self._context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        self._started = time.monotonic()

    @property
    def age(self) -> float:
        """Seconds since it was started."""
        return time.monotonic() - self._started

    @property
    def code(self) -> int | None:
        """How it ended, or None while it runs."""
        return self._process.exitcode

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self._process.kill()
        self._process.join()

    def stop(self) -> int | None:
        """Ask it to stop once it can be asked, and return how it ended; None if it had to be killed.

        One that has only just been started knows nothing of SIGTERM yet, and would end of it as any process does.
        """
        assert self._process.pid is not None
        while self.code is None and not handles_stop(self._process.pid) and self.age < TIMEOUT:
            time.sleep(_LOOK)
        self._process.terminate()
        self._process.join(TIMEOUT)
        code = self._process.exitcode
        if code is None:
            self.kill()
        return code

    def events(self, *, all_daemons: bool = False) -> list[dict[str, Any]]:
        """Return what this daemon, or every one of this place, has logged; text that is no event stands alone."""
        with self._log.open("rb") as file:
            file.seek(0 if all_daemons else self._before)
            lines = file.read().splitlines()
        return [_event(line) for line in lines]

    def serves(self) -> bool:
        """Return whether this daemon has begun to answer, for any shard; a broken one, whether a kill would show it."""
        awaited = _OPEN if self._mutant in _APART else "daemon.serving"
        return any(event["event"] == awaited for event in self.events())


def _event(line: bytes) -> dict[str, Any]:
    try:
        return dict(json.loads(line))
    except ValueError:  # cut off by a kill, or not from the log
        return {"event": line.decode(errors="replace")}
