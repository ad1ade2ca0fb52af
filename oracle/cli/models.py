"""Reading a model file."""

import tomllib
from pathlib import Path

from oracle.errors import InputError, SourceError
from oracle.planning.model import Model, parse_model

__all__ = ["read_model"]


def read_model(path: Path) -> Model:
    """Read and check a model file.

    Raises:
        SourceError: It cannot be read.
        InputError: It is not TOML, or a field is wrong.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as exc:
        msg = f"{path}: cannot be read: {exc.strerror}"
        raise SourceError(msg) from exc
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise InputError(str(path), "...", f"not TOML: {exc}") from exc
    return parse_model(document)
