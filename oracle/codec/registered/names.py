"""What features are called in Avro and Protobuf, which take letters, digits and underscores only."""

import re
from collections.abc import Sequence
from itertools import count
from typing import Final

from oracle.planning.features import Feature

__all__ = ["IDENTIFIER", "IDENTIFIER_NUMBER", "field_names", "plain_name"]

IDENTIFIER: Final = "id"
"""The field of an id."""

IDENTIFIER_NUMBER: Final = "id_number"
"""In Protobuf, the field of an id that is a number."""

_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_]")


def plain_name(text: str) -> str:
    """Return a text with an underscore in place of each other character, and before a digit that it begins with.

    >>> plain_name("wind-speed"), plain_name("2m °C")
    ('wind_speed', '_2m__C')
    """
    name = _NO_NAME.sub("_", text)
    return f"_{name}" if name[:1].isdigit() else name


def field_names(features: Sequence[Feature]) -> list[str]:
    """Return the field of each feature: its name as `plain_name` has it, with a number behind it where that is taken.

    Names that differ in underscores or capitals only count as the same: Protobuf's JSON would not tell them apart.

    >>> field_names([Feature(name="dep time"), Feature(name="dep-time"), Feature(name="ID")])
    ['dep_time', 'dep_time2', 'ID2']
    """
    taken = {_key(IDENTIFIER), _key(IDENTIFIER_NUMBER)}
    names: list[str] = []
    for feature in features:
        plain = plain_name(feature.name)
        candidates = (plain if number == 1 else f"{plain}{number}" for number in count(1))
        name = next(one for one in candidates if _key(one) not in taken)
        taken.add(_key(name))
        names.append(name)
    return names


def _key(name: str) -> str:
    return name.replace("_", "").casefold()
