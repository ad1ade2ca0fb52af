"""The lines of `perpetua check`, and steps that every check has."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from connectors.base import Committed, Source
from oracle.config.web import WebConfig
from oracle.errors import BusError, PerpetuaError
from oracle.planning.plan import Plan
from oracle.planning.planner import verify_plan
from oracle.runtime.recovery import catch_up
from oracle.runtime.shard import Shard
from oracle.runtime.skip import describe_position
from oracle.state.folder import check_lock, newest_bytes
from oracle.state.space import check_space

__all__ = ["Finding", "Findings", "place_of"]

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at, and what is wrong with it, if anything.

    Attributes:
        unreachable: Whether it is that a bus does not answer.
    """

    what: str
    problem: str | None = None
    unreachable: bool = False


class Findings(list[Finding]):
    """All findings so far, in order.

    Attributes:
        about: What the next ones are about, which their words begin with.
    """

    def __init__(self, show: Callable[[Finding], None]) -> None:
        super().__init__()
        self._show = show
        self.about = ""
        self._web = False

    def note(self, what: str, problem: str | None = None, *, unreachable: bool = False) -> None:
        """Add a finding."""
        self.append(Finding(f"{self.about}{what}", problem, unreachable))
        self._show(self[-1])

    def get(
        self, what: str, work: Callable[[], _Result], name: Callable[[_Result], str] | None = None
    ) -> _Result | None:
        """Do what `serve` would, note how it went (as `name` calls it), and return the result; None if it failed."""
        try:
            result = work()
        except PerpetuaError as exc:
            self.note(what, str(exc), unreachable=isinstance(exc, BusError))
        except OSError as exc:
            self.note(what, f"{exc.filename or what}: {exc.strerror or type(exc).__name__}")
        else:
            self.note(what if name is None else name(result))
            return result
        return None

    def holds(self, what: str, work: Callable[[], object]) -> bool:
        """Do something that `serve` would do, note how it went, and return whether it succeeded."""
        self.get(what, work)
        return self[-1].problem is None

    def plan(self, read: Callable[[], Plan]) -> Plan | None:
        """Note whether planner and accountant come to a plan's figures again; return it if it can be read at all."""
        found: Plan | None = None

        def verified() -> Plan:
            nonlocal found
            found = read()
            verify_plan(found)
            return found

        what = "plan verified by the accountant"
        nominal = "plan recomputed: epsilon and delta are nominal, no proof bounds them"
        self.get(what, verified, lambda plan: nominal if plan.nominal else what)
        return found

    def space(self, folders: Sequence[Path]) -> None:
        """Note whether each shard's folder takes a snapshot as large as its last."""

        def try_all() -> None:
            for folder in folders:
                check_lock(folder)
                check_space(folder, len(newest_bytes(folder) or b""))

        self.holds("state folder has room for the next snapshot", try_all)

    def web(self, table: WebConfig | None, *, held: bool) -> None:
        """Note what is wrong with the token file and the address; a daemon that serves the state may have the port.

        It is the process's, so it is looked at once, whatever it serves.
        """
        if table is None or self._web:
            return
        self._web, about, self.about = True, self.about, ""
        self._look_at_web(table, held=held)
        self.about = about

    def _look_at_web(self, table: WebConfig, *, held: bool) -> None:
        from oracle.web.server import listen
        from oracle.web.token import read_token

        if table.token_file is not None:
            path = table.token_file
            self.holds("web: token file", lambda: read_token(path))
        if held and table.port:
            self.note("web: the port was not tried, as a daemon serves this state now")
        else:
            self.holds("web: address is free", lambda: listen(table).close())


async def place_of(shard: Shard, source: Source, committed: Committed | None, wait: float) -> str:
    """Re-execute in memory what a restart would; return in words where it ends, if something comes within `wait`."""
    try:
        _, behind = await catch_up(shard, source, committed)
        behind = behind or await source.fetch(1, wait)
        return describe_position(shard.position, behind) if behind else ""
    finally:
        await source.close()
