"""How often the metrics are made, and where."""

import asyncio
import threading
from typing import Any

from oracle.telemetry.metrics import Format
from oracle.web import scrapes
from oracle.web.scrapes import Scrapes
from tests.support.waiting import TIMEOUT, until


class _Maker:
    """Stands for the metrics; encoding them takes until it is let go."""

    def __init__(self):
        self.now = 100.0
        self.threads: list[int] = []
        self.go_on = threading.Event()
        self.go_on.set()

    def collector(self):
        return threading.get_ident()

    def encode(self, collected_in, wanted):
        assert collected_in == threading.main_thread().ident
        self.threads.append(threading.get_ident())
        assert self.go_on.wait(TIMEOUT)
        return f"{wanted.name} {len(self.threads)}".encode()


def _scrapes(monkeypatch):
    maker: Any = _Maker()
    monkeypatch.setattr(scrapes, "encode", maker.encode)
    return maker, Scrapes(maker.collector, lambda: maker.now)


async def test_bytes_are_kept_for_a_second(monkeypatch):
    """In each format by itself; then they are made anew."""
    maker, subject = _scrapes(monkeypatch)
    assert await subject.get(Format.TEXT) == b"TEXT 1"
    maker.now += 0.99
    assert await subject.get(Format.TEXT) == b"TEXT 1"
    assert await subject.get(Format.OPENMETRICS) == b"OPENMETRICS 2"
    maker.now += 0.01
    assert await subject.get(Format.TEXT) == b"TEXT 3"


async def test_many_who_ask_at_once_wait_for_one_making(monkeypatch):
    """It is done in another thread than the event loop's, which goes on meanwhile."""
    maker, subject = _scrapes(monkeypatch)
    maker.go_on.clear()
    asking = [asyncio.create_task(subject.get(Format.TEXT)) for _ in range(20)]
    await asyncio.sleep(0.05)
    assert not any(task.done() for task in asking)
    maker.go_on.set()
    assert set(await asyncio.gather(*asking)) == {b"TEXT 1"}
    assert len(maker.threads) == 1
    assert threading.main_thread().ident not in maker.threads


async def test_who_goes_away_does_not_spoil_it(monkeypatch):
    """A request that is cancelled while the metrics are made leaves the next one to make them."""
    maker, subject = _scrapes(monkeypatch)
    maker.go_on.clear()
    first = asyncio.create_task(subject.get(Format.TEXT))
    await until(lambda: maker.threads)
    first.cancel()
    maker.go_on.set()
    assert await subject.get(Format.TEXT) == b"TEXT 2"
