"""`Models`: the models of a process, for whoever looks: those whose state is open, and those that cannot be served."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from oracle.errors import BusError
from oracle.telemetry.log import PublicLog, public_text
from oracle.telemetry.records import whole_seconds
from oracle.telemetry.registry import Follower, Registry

__all__ = ["Down", "Models", "Opened"]


@dataclass(frozen=True, slots=True)
class Down:
    """That a model cannot be served now.

    Attributes:
        at: Since when (whole seconds since 1970).
        text: Why: an error's text, of Perpetua's own, which are public; of others no more than the kind.
    """

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Opened:
    """A model whose state was opened.

    Attributes:
        registry: Its records.
        folder_of: Where a shard's snapshots are.
    """

    registry: Registry
    folder_of: Callable[[int], Path]


class Models:
    """Keeps what is told of each model of a process.

    Args:
        names: What the models are called, in their order; one is the process's only one.
        log: The process's; it names no model where there are many.
        now: Seconds since 1970.
    """

    def __init__(
        self, names: Iterable[str], log: PublicLog, *, version: str, now: Callable[[], float] = time.time
    ) -> None:
        self.names = tuple(names)
        self.version = version
        self._log = log
        self._now = now
        self._opened: dict[str, Opened] = {}
        self._down: dict[str, Down] = {}
        self._follow: Callable[[str], Follower] | None = None
        self._on_opened: Callable[[str], object] = lambda _name: None
        self._strangers: str | None = None
        self._draining = False

    @classmethod
    def only(cls, registry: Registry, folder_of: Callable[[int], Path], log: PublicLog) -> "Models":
        """Return those of a process that serves one model, whose state is open."""
        told = registry.telemetry
        models = cls([told.model], log, version=told.version)
        models.opened(told.model, registry, folder_of)
        return models

    @property
    def are_many(self) -> bool:
        """Whether there are several, so that what is told must say of which it is."""
        return len(self.names) > 1

    @property
    def all_opened(self) -> Mapping[str, Opened]:
        """Those whose state was opened, by name; some may be down."""
        return self._opened

    @property
    def all_down(self) -> Mapping[str, Down]:
        """Those that cannot be served now, by name."""
        return self._down

    def follow(self, follow: Callable[[str], Follower] | None) -> None:
        """Have what `follow` returns for a model's name called with each of its batches; None: nobody follows them."""
        self._follow = follow
        for name, one in self._opened.items():
            one.registry.follow(None if follow is None else follow(name))

    def watch(self, on_opened: Callable[[str], object]) -> None:
        """Have a function called with the name of each model whose state is opened, before anything is told of it."""
        self._on_opened = on_opened

    def log_of(self, name: str) -> PublicLog:
        """Return the log of a model."""
        return self._log.of_model(name)

    def opened(self, name: str, registry: Registry, folder_of: Callable[[int], Path]) -> None:
        """A model's state was opened; where it was down, it is until it takes part in the group."""
        registry.strangers(self._strangers)
        registry.follow(None if self._follow is None else self._follow(name))
        self._opened[name] = Opened(registry, folder_of)
        self._on_opened(name)

    def served(self, name: str) -> None:
        """A model takes part in the group: it is not down, if it was."""
        self._down.pop(name, None)

    def failed(self, name: str, error: Exception) -> None:
        """A model cannot be served as it is; where there are many, the others go on, and it is tried again."""
        text = public_text(error)
        since = self._down[name].at if name in self._down else whole_seconds(self._now())
        if self.are_many and (name not in self._down or self._down[name].text != text):
            self.log_of(name).error("model.failed", error=text)
        self._down[name] = Down(since, text)

    def bus_failed(self, error: BusError) -> None:
        """The bus does not let the process take part in the group; it will be retried."""
        self._log.warning("bus.unavailable", error=str(error))
        for one in self._opened.values():
            one.registry.bus_failed(error, logged=True)

    def strangers(self, text: str | None) -> None:
        """Somebody else is in the consumer group; None: nobody is."""
        if text is not None and text != self._strangers:
            self._log.warning("group.stranger", error=text)
        self._strangers = text
        for one in self._opened.values():
            one.registry.strangers(text)

    def draining(self, signal: str) -> None:
        """A signal has asked for a clean stop of everything."""
        self._draining = True
        self._log.info("daemon.draining", signal=signal)

    @property
    def are_draining(self) -> bool:
        """Whether a signal has asked for a clean stop."""
        return self._draining

    def ended(self, error: Exception) -> None:
        """The process cannot go on; shards that have failed already keep their own error."""
        for one in self._opened.values():
            one.registry.failed(error)
