"""The lists of planted faults, and how one is planted."""

import tomllib
from pathlib import Path
from typing import Final

import msgspec

_HERE: Final = Path(__file__).parent

PRIVACY: Final = _HERE / "privacy"
"""Faults that void or weaken a guarantee, for who works on the auditor."""

HELD_OUT: Final = _HERE / "held_out"
"""Others, which the auditor is scored by: who works on it does not read them."""

LISTS: Final = {"tests": _HERE, "privacy": PRIVACY, "held-out": HELD_OUT}


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One place of a fault that has several; see `Mutant`."""

    file: str
    before: str
    after: str


class Mutant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One fault.

    Attributes:
        name: What is wrong, in words.
        file: Where, from the root of the tree.
        before: Text that occurs exactly once in the file.
        after: What stands in its place.
        tests: Arguments for pytest: the tests that must find it.
        also: Its other places, if it has any.
        kind: Of a fault in privacy, its class: all that is told of one that is held out.
        about: What it touches, by the names of the audit's parts, the most likely first.
        why: What becomes of epsilon and delta.
    """

    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...] = ()
    also: tuple[Edit, ...] = ()
    kind: str = ""
    about: tuple[str, ...] = ()
    why: str = ""

    def planted(self, tree: Path) -> dict[Path, str] | None:
        """Return the texts of its files with the fault in them; None if one no longer has one place for it."""
        texts: dict[Path, str] = {}
        for edit in (Edit(self.file, self.before, self.after), *self.also):
            path = tree / edit.file
            text = texts.get(path) or (path.read_text() if path.is_file() else "")
            if text.count(edit.before) != 1:
                return None
            texts[path] = text.replace(edit.before, edit.after)
        return texts


def load_mutants(place: Path = _HERE) -> list[Mutant]:
    """Return all mutants of a folder's lists, in their order."""
    lists = [tomllib.loads(path.read_text())["mutant"] for path in sorted(place.glob("*.toml"))]
    return msgspec.convert([one for mutants in lists for one in mutants], list[Mutant])
