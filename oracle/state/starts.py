"""The ledger of checked starts, beside the state folder of `init`: what each try has released.

It holds what was released only (`StartChecked`), and stays where no state was made: what was spent is spent.
"""

import os
from pathlib import Path

from oracle import durable
from oracle.accounting.ledger import StartChecked
from oracle.errors import StorageError
from oracle.state.event_lines import record_event

__all__ = ["record_start", "starts_path"]


def starts_path(state: Path) -> Path:
    """Return the path of the starts' ledger of a state folder, with links resolved."""
    whole = state.resolve()
    return whole.with_name(whole.name + ".starts.jsonl")


def record_start(state: Path, event: StartChecked) -> None:
    """Append a start durably, before anything of it is shown.

    Raises:
        StateError: What is recorded already cannot be understood.
        StorageError: It could not be written; then nothing was recorded.
    """
    path = starts_path(state)
    try:
        durable.make_folder(path.parent, parents=True)
        os.close(durable.open_lasting(path, os.O_NOFOLLOW))  # no link leads elsewhere
    except OSError as exc:
        raise StorageError(f"{path}: cannot be written, so nothing was shown: {exc.strerror}") from exc
    record_event(path, StartChecked, lambda _number: event, "start", "shown")
