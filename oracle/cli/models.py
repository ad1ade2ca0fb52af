"""Reading a model file."""

from pathlib import Path

from oracle.planning.model import Model
from oracle.planning.model_file import parse_model
from oracle.service.documents import read_toml

__all__ = ["read_model"]


def read_model(path: Path) -> Model:
    """Read and check a model file.

    Raises:
        SourceError: It cannot be read.
        InputError: It is not TOML, or a field is wrong.
    """
    return parse_model(read_toml(path))
