"""What a daemon says of itself in different places, and that they agree: /livez, /readyz, /status and /metrics."""

import time
from collections.abc import Callable
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.support.served import Served

__all__ = ["Told"]

_SECONDS = 120.0
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
        """Return the state, the reasons and the names of the metrics, of a second in which nothing changed."""
        while True:
            before = self._status()
            time.sleep(_SCRAPED)
            live, ready = self._get("/livez"), self._get("/readyz")
            metrics = self._get("/metrics").text
            after = self._status()
            if _of(before) == _of(after):
                break
        assert live.status_code == 200
        assert ready.json()["not_ready"] == after["not_ready"]
        assert ready.status_code == (200 if after["ready"] else 503)
        samples = [one for family in text_string_to_metric_families(metrics) for one in family.samples]
        states = {str(shard["shard"]): shard["state"] for shard in after["shards"]}
        told = {one.labels["shard"]: one.value for one in samples if one.name == "perpetua_ready"}
        unready = {None if one["shard"] is None else str(one["shard"]) for one in after["not_ready"]}
        assert told == {shard: not unready & {shard, None} for shard in states}, unready
        assert all((state == "serving") is (shard not in unready) for shard, state in states.items()), (states, unready)
        refused = {one.labels["shard"]: one.value for one in samples if one.name == "perpetua_bus_refused"}
        assert refused == {shard: state == "refused" for shard, state in states.items()}
        return next(iter(states.values()), ""), after["not_ready"], {one.name for one in samples}

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
