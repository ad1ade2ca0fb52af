"""The ledger of forks, beside the state folder or genesis file that they start from.

It holds public facts only (`ReplayForked`); what it is beside is left untouched.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from oracle.accounting.ledger import ReplayForked
from oracle.state.event_lines import read_events, record_event

__all__ = ["forks_path", "read_forks", "record_fork"]

_NOUN = "fork"


def forks_path(origin: Path) -> Path:
    """Return the path of the forks' ledger of a state folder or genesis file, with links resolved."""
    whole = origin.resolve()
    return whole.with_name(whole.name + ".forks.jsonl")


def read_forks(origin: Path) -> Sequence[ReplayForked]:
    """Return the forks recorded for a state folder or genesis file, oldest first (see `read_events`)."""
    return read_events(forks_path(origin), ReplayForked, _NOUN)


def record_fork(origin: Path, make: Callable[[int], ReplayForked]) -> ReplayForked:
    """Append a fork durably, before anything of it is shown (see `record_event`).

    Args:
        origin: The state folder or genesis file that is forked.
        make: Returns the event, given the number of forks with this one.
    """
    return record_event(forks_path(origin), ReplayForked, make, _NOUN, "answered")
