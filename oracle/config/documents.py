"""Reading TOML files with clear errors."""

import re
import tomllib
from pathlib import Path

from oracle.errors import InputError, SourceError

__all__ = ["read_toml"]

_NESTED = re.compile(r"(?<![^\s.=\[\]{},])(?:[^\s.=\[\]{},]++[ \t]*+\.[ \t]*+){50}")
"""A dotted key of so many parts: no setting lies so deep, and the parser takes memory as the square of it.

It begins where a part does and gives nothing back, so that no character is looked at more than some 50 times.
"""


def read_toml(path: Path) -> dict[str, object]:
    """Read a TOML file.

    Raises:
        SourceError: It cannot be read.
        InputError: It is not TOML.
    """
    try:
        text = path.read_text(encoding="utf-8")
        if _NESTED.search(text):
            raise InputError(str(path), "...", "not TOML that this program reads: a key of more than 50 parts")
        return tomllib.loads(text)
    except OSError as exc:
        raise SourceError(f"{path}: cannot be read: {exc.strerror}") from exc
    except (RecursionError, ValueError) as exc:  # TOML's and UTF-8's errors, and numbers of thousands of digits
        raise InputError(str(path), "...", f"not TOML: {exc}") from exc
