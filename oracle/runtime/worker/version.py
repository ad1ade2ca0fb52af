"""Which code runs: an engine must be of the very code that its daemon is, whatever was installed in between."""

import hashlib
from pathlib import Path
from typing import Final

import numpy as np

__all__ = ["build"]

_ROOT: Final = Path(__file__).resolve().parents[2]


def build() -> str:
    """Return a digest of NumPy's version and of the places, sizes and times of all files of this package."""
    digest = hashlib.sha256(np.__version__.encode())
    for path in sorted(_ROOT.rglob("*.py")):
        facts = path.stat()
        digest.update(f"{path}\0{facts.st_size}\0{facts.st_mtime_ns}\0".encode())
    return digest.hexdigest()
