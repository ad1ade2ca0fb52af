"""The list of planted faults, and how one is planted."""

import tomllib
from pathlib import Path
from typing import Final

import msgspec

__all__ = ["Mutant", "load_mutants"]

_LIST: Final = Path(__file__).with_name("mutants.toml")


class Mutant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One fault.

    Attributes:
        name: What is wrong, in words.
        file: Where, from the root of the tree.
        before: Text that occurs exactly once in the file.
        after: What stands in its place.
        tests: Arguments for pytest: the tests that must find it.
    """

    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]

    def planted(self, text: str) -> str | None:
        """Return the file's text with the fault in it; None if it no longer has one place for it."""
        return text.replace(self.before, self.after) if text.count(self.before) == 1 else None


def load_mutants() -> list[Mutant]:
    """Return all mutants, in the list's order."""
    return msgspec.convert(tomllib.loads(_LIST.read_text())["mutant"], list[Mutant])
