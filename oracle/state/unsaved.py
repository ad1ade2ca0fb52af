"""A mark in a state folder whose rounds are answered from memory, with nothing durable that says how far.

A daemon's answers are committed before they leave, so that a restart answers the same rounds with the same queries. A
predictor in a program (`oracle.train`, `oracle.load`) has no such record: a state that it left behind unsaved would
answer rounds again, with other queries under the same key, which no proof covers. So the mark is durable before the
first answer that is not saved, and a folder that has it is opened by nobody.
"""

from pathlib import Path

from oracle import durable
from oracle.errors import StateError, StorageError
from oracle.state.files import replace_durably

__all__ = ["mark_unsaved", "refuse_unsaved", "unmark_unsaved"]

_NAME = "unsaved"


def mark_unsaved(folder: Path, generation: int) -> None:
    """Say, durably, that rounds behind a snapshot are about to be answered.

    Args:
        folder: The state folder; the caller holds it.
        generation: The newest snapshot's.

    Raises:
        StorageError: It could not be written; then nothing may be answered.
    """
    replace_durably(folder / _NAME, str(generation).encode())


def unmark_unsaved(folder: Path) -> None:
    """Say that the newest snapshot has all answers in it.

    Raises:
        StorageError: The mark could not be removed.
    """
    try:
        durable.remove(folder / _NAME)
    except OSError as exc:
        raise StorageError(f"{folder / _NAME}: {exc.strerror}") from exc


def refuse_unsaved(folder: Path, generation: int) -> None:
    """Refuse a folder whose newest snapshot is not behind its mark.

    Args:
        folder: The state folder.
        generation: The newest snapshot's; a later one than the mark's has all answers in it.

    Raises:
        StateError: Rounds behind its snapshot were answered, and nothing says to what.
    """
    try:
        marked = durable.read(folder / _NAME)
    except (FileNotFoundError, NotADirectoryError):
        return
    if not marked.isdigit() or int(marked) >= generation:
        raise StateError(
            f"{folder}: a program answered rounds from this state and ended without saving them; to answer them again, "
            "with other queries, is covered by no proof. `perpetua fork` answers from it under a key of its own, at a "
            "cost that it states"
        )
