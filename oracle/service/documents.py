"""Reading TOML files with clear errors."""

import tomllib
from pathlib import Path

from oracle.errors import InputError, SourceError

__all__ = ["read_toml"]


def read_toml(path: Path) -> dict[str, object]:
    """Read a TOML file.

    Raises:
        SourceError: It cannot be read.
        InputError: It is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as exc:
        msg = f"{path}: cannot be read: {exc.strerror}"
        raise SourceError(msg) from exc
    except (RecursionError, ValueError) as exc:  # TOML's and UTF-8's errors, and numbers of thousands of digits
        raise InputError(str(path), "...", f"not TOML: {exc}") from exc
