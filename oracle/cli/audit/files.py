"""The files of a report: made again by the same command, so they need not last."""

from pathlib import Path

from oracle.errors import StorageError

__all__ = ["remove_report", "report_folder", "write_report"]

_PRIVATE = 0o600


def report_folder(out: Path) -> Path:
    """Make the folder of `--out`, and return it.

    Raises:
        StorageError: It cannot be made.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise StorageError(f"--out = '{out}': cannot be made: {exc.strerror}") from exc
    return out


def remove_report(path: Path) -> None:
    """Remove a file of an earlier report, if there is one.

    Raises:
        StorageError: It cannot be removed.
    """
    try:
        path.unlink(missing_ok=True)
    except OSError as exc:
        raise StorageError(f"{path}: cannot be removed: {exc.strerror}") from exc


def write_report(path: Path, data: bytes, *, private: bool = False) -> None:
    """Write a file of a report in place of an earlier one; a link is replaced, not written through.

    Args:
        path: The file.
        data: What it holds.
        private: Whether nobody but the owner may read it.

    Raises:
        StorageError: It cannot be written.
    """
    remove_report(path)
    try:
        with path.open("xb") as file:
            if private:
                path.chmod(_PRIVATE)
            file.write(data)
    except OSError as exc:
        raise StorageError(f"{path}: cannot be written: {exc.strerror}") from exc
