"""A fingerprint of the software: an interrupted audit is resumed only with the same software."""

import hashlib
from pathlib import Path

import connectors
import oracle

__all__ = ["fingerprint"]


def fingerprint() -> str:
    """Return a SHA-256 over all modules of Perpetua, their names and contents, hex digits."""
    digest = hashlib.sha256()
    for package in (connectors, oracle):
        root = Path(package.__path__[0])
        for path in sorted(root.rglob("*.py")):
            data = path.read_bytes()
            digest.update(f"{root.name}/{path.relative_to(root).as_posix()}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()
