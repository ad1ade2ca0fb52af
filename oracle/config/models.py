"""`[[models]]` of a configuration: many models in one file, each of them a configuration of its own."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from oracle.config.base import ConfigTable
from oracle.errors import InputError, did_you_mean

__all__ = ["ModelEntry", "chosen", "model_documents", "placed"]

_NAMES: Final = "1 to 64 letters, digits, '-', '_' or '.', of which one at least is a letter or a digit"
_NAME: Final = re.compile(r"(?=.*[a-zA-Z0-9])[a-zA-Z0-9._-]{1,64}")

_OWN: Final = ("state", "source", "sink", "truth")
"""Tables that an entry may have."""

_ALONE: Final = ("truth",)
"""Those of them that no two models share anything of, so that the top has none."""


def _named(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise PydanticCustomError("name", f"must have {_NAMES}")
    return name


class ModelEntry(ConfigTable):
    """`[[models]]`: one of many models on Kafka that one process serves.

    An entry has tables of its own, `[models.state]`, `[models.source]`, `[models.sink]` and `[models.truth]`, with the
    keys of `[state]`, `[source]`, `[sink]` and `[truth]`; what it leaves out is what these say at the top of the file.

    Attributes:
        name: What the model is called in the labels of metrics, in log lines, on the status page, and by `--model`.
    """

    name: Annotated[str, AfterValidator(_named), Field(json_schema_extra={"bound": _NAMES})]


def model_documents(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return each model's whole document, by name, in the file's order: the top, and the entry over it.

    Raises:
        InputError: `models` is no array of tables, or an entry has no name, another's, or a table that it cannot have.
    """
    entries = document["models"]
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise InputError("models", "...", "must be tables, one for each model: [[models]]")
    for table in _ALONE:
        if table in document:
            raise InputError(table, "...", f"must stand in the entry of its model: [models.{table}]")
    top = {name: table for name, table in document.items() if name != "models"}
    found: dict[str, dict[str, Any]] = {}
    for number, entry in enumerate(entries):
        name = _name_of(entry, number)
        if name in found:
            raise InputError(f"models[{number}].name", name, "must be another one: an entry before it has this name")
        for table in entry:
            if table != "name" and table not in _OWN:
                hint = did_you_mean(table, _OWN)
                raise InputError(f"models.{name}.{table}", "...", f"unknown setting of a model{hint}")
        found[name] = _merged(top, {table: value for table, value in entry.items() if table != "name"})
    return found


def _name_of(entry: Mapping[str, Any], number: int) -> str:
    name = entry.get("name")
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    shown = name if isinstance(name, str | int | float | None) else "..."
    raise InputError(f"models[{number}].name", shown, "must be set" if name is None else f"must have {_NAMES}")


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return both, table by table; where both have a value, that of `above`."""
    both = {
        name: _merged(below[name], value) if isinstance(value, dict) and isinstance(below.get(name), dict) else value
        for name, value in above.items()
    }
    return {**below, **both}


def chosen(names: Mapping[str, Any], model: str | None) -> str:
    """Return the name of the model that is meant.

    Raises:
        InputError: None of the file's is; all of them are named.
    """
    if model in names:
        return str(model)
    listed = ", ".join(names)
    if model is None:
        raise InputError("--model", None, f"must name one of the configuration's [[models]]: {listed}")
    raise InputError("--model", model, f"must be one of {listed}{did_you_mean(model, names)}")


def placed(error: InputError, name: str, document: Mapping[str, Any]) -> InputError:
    """Return an error of a model's configuration with the place in the whole file: the entry's, or the top's.

    Args:
        error: Of the model's whole document.
        name: The model's.
        document: The file's.
    """
    parts = error.field.split(".")
    if parts[0] not in _OWN:
        return error
    entry = next(entry for entry in document["models"] if entry["name"] == name)
    if _has(document, parts) and not _has(entry, parts):
        return error
    return InputError(f"models.{name}.{error.field}", error.value, error.bound)


def _has(document: Any, parts: list[str]) -> bool:  # noqa: ANN401 -- what TOML may hold
    for part in parts:
        if not isinstance(document, dict) or part not in document:
            return False
        document = document[part]
    return True
