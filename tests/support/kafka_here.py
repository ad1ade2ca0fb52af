"""Serves a model on Kafka within the test's own process: quicker to start than a daemon, and its errors are at hand."""

import asyncio
import io
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from oracle.config.daemon import load_config
from oracle.hosting.kafka import KafkaModel, check_topics, open_model
from oracle.hosting.models import Opener, make_fleets
from oracle.telemetry.log import PublicLog
from oracle.telemetry.models import Models
from tests.support.waiting import TIMEOUT, until

_POLL = 0.1

Lines = list[dict[str, Any]]
T = TypeVar("T")


def serve_here(config: Path, done: Callable[[Lines], bool], **settings: Any) -> Lines:
    """Serve until `done` says so of the log so far, stop cleanly, and return the log.

    Args:
        config: The configuration.
        done: Called now and then, in a thread of its own.
        settings: Of the connector, over those of the configuration.

    Raises:
        PerpetuaError: What `perpetua serve` would end with.
    """
    return run_here(_serve(config, done, settings))


def run_here(work: Coroutine[Any, Any, T]) -> T:
    """Run it in an event loop that ends after its last connection has.

    A connection over TLS that was refused is closed by aiokafka without waiting for the broker's goodbye; garbage
    collection would find it open later, within whichever test runs then.
    """

    async def run() -> T:
        try:
            return await work
        finally:
            watched = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
            await until(lambda: len(watched.get_map()) == 1)  # the loop's own

    return asyncio.run(run())


async def _serve(config: Path, done: Callable[[Lines], bool], settings: dict[str, Any]) -> Lines:
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)  # as the daemon's, but silent
    model = open_model(load_config(config))
    model = replace(model, settings=replace(model.settings, **settings))
    stream = io.StringIO()
    await check_topics(model)
    models = Models([model.name], PublicLog(stream, "json", model.name), version="test")

    async def opened() -> KafkaModel:
        return model

    openers = {model.name: Opener(model.settings.topic, opened)}
    fleets, group = make_fleets(model.settings, openers, models, model.config.service.drain_seconds)
    serving = asyncio.create_task(fleets.run(group))
    try:
        async with asyncio.timeout(TIMEOUT):
            while not serving.done() and not await asyncio.to_thread(done, _lines(stream)):
                await asyncio.wait({serving}, timeout=_POLL)
    except TimeoutError:
        places = [_places(task) for task in asyncio.all_tasks()]
        raise AssertionError(f"not done in {TIMEOUT:g} s; log: {_lines(stream)[-20:]}; tasks: {places}") from None
    finally:
        fleets.stop()
        await serving
    return _lines(stream)


def _places(task: "asyncio.Task[Any]") -> list[str]:
    """Return where a task waits, from the outside in."""
    places: list[str] = []
    waiting: object = task.get_coro()
    while (frame := getattr(waiting, "cr_frame", None)) is not None:
        places.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}")
        waiting = getattr(waiting, "cr_await", None)
    return places


def _lines(stream: io.StringIO) -> Lines:
    return [msgspec.json.decode(line) for line in stream.getvalue().splitlines()]
