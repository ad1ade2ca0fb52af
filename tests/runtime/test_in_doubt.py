"""Answers that left through standard output before a crash made their round durable."""

import asyncio
import io
import os
import time
from pathlib import Path

import pytest

from connectors.local.stdio import StdoutSink
from oracle.errors import LogDivergedError, SourceError
from oracle.runtime.daemon import Daemon, DaemonSettings
from oracle.telemetry.log import PublicLog
from oracle.telemetry.reporter import Reporter
from tests.support.memory_bus import MemoryLog, MemorySource
from tests.support.shards import bodies, new_store, small_plan
from tests.support.stores import MemoryStore


class Crash(BaseException):
    """The process is gone."""


class CrashingSink(StdoutSink):
    """Standard output of a process that dies right after the lines of one commit have left."""

    def __init__(self, path: Path, stream: io.BufferedWriter, *, at: int) -> None:
        super().__init__(path, stream=stream)
        self._left = at
        self.lines = [0]

    def _write(self, output: bytes) -> None:
        super()._write(output)
        self.lines.append(self.lines[-1] + output.count(b"\n"))
        self._left -= 1
        if self._left == 0:
            raise Crash


def serve(store: MemoryStore, contents: list[bytes], sink: StdoutSink) -> None:
    """Run the daemon to its end, seven messages a batch."""

    async def run() -> None:
        await Daemon(
            plan=small_plan(),
            store=store,
            source=MemorySource(MemoryLog.of(contents)),
            sink=sink,
            reporter=Reporter(small_plan(), PublicLog(io.StringIO())),
            settings=DaemonSettings(batch_rows=7),
            clock=time.monotonic,
        ).run()

    asyncio.run(run())


@pytest.mark.parametrize("at", [1, 2, 4])
def test_what_left_before_a_crash_is_given_again_from_the_same_stream_only(tmp_path: Path, at: int) -> None:
    """The same stream gets the same lines again; another one, or a shorter one, is refused before any answer."""
    contents, path = bodies(300), tmp_path / "record"  # 43 batches: more than three commits can take
    store = new_store()
    with (tmp_path / "out").open("wb") as stream:
        crashing = CrashingSink(path, stream, at=at)
        with pytest.raises(Crash):
            serve(store, contents, crashing)
        durable, left = crashing.lines[-2:]
        for other, error in (
            (bodies(300, seed=2), LogDivergedError),
            ([*contents[: left - 1], contents[0], *contents[left:]], LogDivergedError),
            (contents[: left - 1], SourceError),
        ):
            size = os.fstat(stream.fileno()).st_size
            with pytest.raises(error):
                serve(store, other, StdoutSink(path, stream=stream))
            assert os.fstat(stream.fileno()).st_size == size
        serve(store, contents, StdoutSink(path, stream=stream))
    lines = (tmp_path / "out").read_bytes().splitlines()
    assert lines[:durable] + lines[left:] == _calm(tmp_path, contents)
    assert lines[durable:left] == lines[left : 2 * left - durable]


def _calm(folder: Path, contents: list[bytes]) -> list[bytes]:
    with (folder / "calm").open("wb") as stream:
        serve(new_store(), contents, StdoutSink(folder / "calm.record", stream=stream))
    return (folder / "calm").read_bytes().splitlines()
