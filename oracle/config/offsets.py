"""Where partitions of a topic begin or stop, as a setting: one number for all, or a table by partition."""

from typing import Final, Literal

from pydantic_core import PydanticCustomError

__all__ = ["OFFSETS", "beginning", "by_partition"]

OFFSETS: Final = "a number from 0 to 2^63 - 1, or a table of such numbers by partition"
"""What an offset may be."""

_OFFSETS: Final = range(2**63)


def beginning(given: object) -> int | Literal["latest"] | dict[int, int]:
    """Return what `by_partition` does, or "latest"."""
    return "latest" if given == "latest" else by_partition(given)


def by_partition(given: object) -> int | dict[int, int]:
    """Return an offset, or a table of them by partition."""
    if isinstance(given, dict):
        return {_number(partition): _number(offset) for partition, offset in given.items()}
    return _number(given)


def _number(given: object) -> int:
    """Return an offset or a partition, which are text as a TOML table's keys and in the environment."""
    number = int(given) if isinstance(given, str) and given.isascii() and given.isdecimal() else given
    if isinstance(number, bool) or not isinstance(number, int) or number not in _OFFSETS:
        raise PydanticCustomError("offset", f"must be {OFFSETS}")
    return number
