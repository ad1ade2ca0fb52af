"""What a configuration must not hold: environment variables that set nothing, and texts that no file can be called."""

from collections.abc import Iterable
from typing import Final

from oracle.errors import InputError, did_you_mean

__all__ = ["refuse_unknown_variables", "refuse_zeros"]

_PREFIX: Final = "PERPETUA_"
_OTHERS: Final = frozenset({"PERPETUA_DEBUG", "PERPETUA_CACHE"})
"""Variables of ours that are no settings."""


def refuse_unknown_variables(variables: Iterable[str], tables: Iterable[str]) -> None:
    """Refuse a variable that begins as settings do and names no table: it would be passed over without a word.

    Args:
        variables: Names of the environment, in any case.
        tables: The configuration's tables.

    Raises:
        InputError: There is one; the nearest name is given.
    """
    known = {f"{_PREFIX}{table.upper()}" for table in tables}
    for variable in sorted(variables):
        first, separator, rest = variable.upper().partition("__")
        if not first.startswith(_PREFIX) or first in known or first in _OTHERS:
            continue
        hint = did_you_mean(first, sorted(known), f"{separator}{rest}")
        raise InputError(variable, "...", f"in the environment: unknown setting{hint}")


def refuse_zeros(value: object, name: str = "") -> None:
    """Refuse texts with a zero byte, anywhere in a document: no file, host or topic has one.

    Raises:
        InputError: There is one.
    """
    if isinstance(value, str) and "\0" in value:
        raise InputError(name, "...", "must not hold a zero byte")
    if isinstance(value, dict):
        for key, inner in value.items():
            refuse_zeros(inner, f"{name}.{key}" if name else key)
    if isinstance(value, list):
        for number, inner in enumerate(value):
            refuse_zeros(inner, f"{name}.{number}")
