"""Whole model files and configurations: between them, they set every key that there is."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

FILES: Final = {
    path.stem: tomllib.loads(path.read_text())
    for path in sorted((Path(__file__).parent / "examples").glob("*.toml"), reverse=True)
}
"""The parsed examples, by name; what holds `[model]` is a model file, the others are configurations."""

_LISTS: Final = ("features", "attributes", "preprocessing", "models")
"""Tables that there are many of."""

Step = str | int


class Place(NamedTuple):
    """A key of an example.

    Attributes:
        file: The example's name.
        path: The way to the key's table.
    """

    file: str
    path: tuple[Step, ...]


def at(document: Any, path: tuple[Step, ...]) -> Any:
    """Return what is at the end of a way, or None."""
    for step in path:
        try:
            document = document[step]
        except (KeyError, IndexError):
            return None
    return document


def where(path: tuple[Step, ...], key: str, chosen: Mapping[str, Sequence[str]]) -> Iterator[Place]:
    """Yield every place of a key in a table of the examples.

    Args:
        path: The way to the table; to one of these where there are many.
        key: The key's name.
        chosen: What the table must hold beside it: one of so many values of other keys.
    """
    for file, document in FILES.items():
        count = len(at(document, path) or ())
        for way in [(*path, index) for index in range(count)] if path[-1] in _LISTS else [path]:
            table = at(document, way)
            if table is not None and key in table and all(table.get(name) in values for name, values in chosen.items()):
                yield Place(file, way)
