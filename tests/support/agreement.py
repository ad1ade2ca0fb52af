"""What a daemon says of itself in different places, and that they agree: /livez, /readyz, /status and /metrics."""

import time
from collections.abc import Callable
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.support.served import Served

_SECONDS = 120.0
_LOOKS = 10
_SCRAPED = 1.1
"""Seconds after which metrics are made anew."""

_KNOWN = {"perpetua_rounds_total", "perpetua_phase", "perpetua_delta_spent", "perpetua_rearms_total"}
"""Metrics of a shard that is, or was, where its commits are."""


class Told:
    """A daemon with `[web]`, asked over HTTP.

    Args:
        served: The model that it serves.
        log: The file of its log lines.
    """

    def __init__(self, served: Served, log: str = "serve.log") -> None:
        self._served, self._log = served, log
        self._until(lambda: "web.listening" in served.events(log))
        port = next(line["port"] for line in reversed(served.log(log)) if line["event"] == "web.listening")
        self._base = f"http://127.0.0.1:{port}"

    def becomes(self, state: str, *, known: bool = True) -> list[dict[str, Any]]:
        """Wait until the first shard is in a state and all agree on it; return the reasons not to be ready.

        Args:
            state: The state; "" where no shard is ours.
            known: Whether the metrics of where it stands are to be there.
        """
        found: list[Any] = []

        def settled() -> bool:
            found[:] = [self._look()]
            return bool(found[0][0] == state and bool(found[0][1]) is (state != "serving"))

        self._until(settled, lambda: found)
        _, reasons, names = found[0]
        assert (names >= _KNOWN) is known, names
        return list(reasons)

    def _look(self) -> tuple[str, list[dict[str, Any]], set[str]]:
        """Return the state, the reasons and the names of the metrics, once all agree.

        They are asked one after the other, so that what changes between is no disagreement; what stays for long is.
        """
        problem: str | None = "it changes all the time"
        for _ in range(_LOOKS):
            before = self._status()
            time.sleep(_SCRAPED)
            live, ready, metrics = self._get("/livez"), self._get("/readyz"), self._get("/metrics").text
            after = self._status()
            samples = [one for family in text_string_to_metric_families(metrics) for one in family.samples]
            told = (after, live.status_code, ready.status_code, ready.json()["not_ready"], samples)
            if _of(before) == _of(after) and (problem := _disagreement(*told)) is None:
                states = [shard["state"] for shard in after["shards"]]
                return next(iter(states), ""), after["not_ready"], {one.name for one in samples}
        raise AssertionError(problem)

    def _status(self) -> Any:
        return self._get("/status").json()

    def _get(self, path: str) -> httpx.Response:
        return httpx.get(self._base + path, trust_env=False, timeout=_SECONDS)

    def _until(self, done: Callable[[], bool], what: Callable[[], object] = lambda: "") -> None:
        deadline = time.monotonic() + _SECONDS
        while not done():
            assert time.monotonic() < deadline, (what(), self._served.log(self._log)[-6:])
            time.sleep(0.05)


def _of(status: Any) -> tuple[object, ...]:
    return ([(one["shard"], one["state"]) for one in status["shards"]], status["not_ready"], status["ready"])


def _disagreement(
    status: Any, live: int, ready: int, not_ready: list[dict[str, Any]], samples: list[Sample]
) -> str | None:
    """Return which two places say different things, None if none do."""
    states = {str(shard["shard"]): shard["state"] for shard in status["shards"]}
    unready = {None if one["shard"] is None else str(one["shard"]) for one in not_ready}
    readiness = {one.labels["shard"]: bool(one.value) for one in samples if one.name == "perpetua_ready"}
    refused = {one.labels["shard"]: bool(one.value) for one in samples if one.name == "perpetua_bus_refused"}
    paused = {one.labels["shard"]: bool(one.value) for one in samples if one.name == "perpetua_paused"}
    agreed = {
        "/livez": live == 200,
        "/readyz and /status": not_ready == status["not_ready"],
        "/readyz and its code": ready == (503 if not_ready else 200) and status["ready"] is (not not_ready),
        "perpetua_ready": readiness == {shard: not unready & {shard, None} for shard in states},
        "perpetua_paused": paused == {shard: state == "paused" for shard, state in states.items()},
        "perpetua_bus_refused": refused == {shard: state == "refused" for shard, state in states.items()},
        "states": all((state in {"serving", "paused"}) is (shard not in unready) for shard, state in states.items()),
    }
    return next((f"{name}: {states} {not_ready}" for name, holds in agreed.items() if not holds), None)
