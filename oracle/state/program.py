"""The mark of a state that a program answers from, in memory: `oracle.train` and `oracle.load`.

A daemon's answers are committed before they leave, so that a restart answers the same rounds with the same queries. A
program has no such record. A state that either has left behind its answers would answer rounds again in the hands of
the other, with other queries under the same key, which no proof covers. So a program goes on only from a state that a
program has saved whole, and once a daemon has opened such a state it is the daemon's.
"""

from pathlib import Path

from oracle import durable
from oracle.errors import StateError, StorageError
from oracle.state.files import replace_durably

__all__ = ["hand_over", "is_programs", "say_answering", "say_saved"]

_NAME = "program"
_SAVED = b"saved"


def say_answering(folder: Path, generation: int) -> None:
    """Mark durably that rounds after the newest snapshot are about to be answered.

    Args:
        folder: The state folder; the caller holds it.
        generation: The newest snapshot's.

    Raises:
        StorageError: It could not be written; then nothing may be answered.
    """
    replace_durably(folder / _NAME, str(generation).encode())


def say_saved(folder: Path) -> None:
    """Mark durably that the newest snapshot covers all answers.

    Raises:
        StorageError: It could not be written.
    """
    replace_durably(folder / _NAME, _SAVED)


def is_programs(folder: Path) -> bool:
    """Return whether a program was the last to answer from a state."""
    return (folder / _NAME).exists()


def hand_over(folder: Path, generation: int) -> None:
    """Take over a state that a program has saved completely; leave others as they are.

    Args:
        folder: The state folder.
        generation: The newest snapshot's.

    Raises:
        StateError: The program has answered rounds behind the snapshot, and nothing says to what.
        StorageError: The mark could not be removed.
    """
    path = folder / _NAME
    try:
        said = durable.read(path)
        if said == _SAVED or (said.isdigit() and int(said) < generation):
            durable.remove(path)
            return
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as exc:
        raise StorageError(f"{path}: {exc.strerror}") from exc
    raise StateError(
        f"{folder}: a program answered rounds from this state and ended without saving them; to answer them again, "
        "with other queries, is covered by no proof. `perpetua fork` answers from it under a key of its own, at a "
        "cost that it states"
    )
