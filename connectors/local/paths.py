"""Whether two paths lead to one file, whatever links and dots are on the way."""

import os
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

from oracle.errors import InputError

__all__ = ["refuse_shared", "same_file"]


def same_file(one: Path, other: Path) -> bool:
    """Tell whether two paths lead to one file; it need not be there."""
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        return one.samefile(other)
    except OSError:
        return False


def refuse_shared(paths: Mapping[str, Path]) -> None:
    """Refuse files of one sink that are the same; each has the name that the user knows.

    Raises:
        InputError: Two are; it names both.
    """
    for (name, path), (other_name, other) in combinations(paths.items(), 2):
        if same_file(path, other):
            raise InputError(other_name, str(other), f"is {name} too; each file of a sink needs a path of its own")
