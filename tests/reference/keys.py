"""Every key of model files and configurations, as the types say it that parse them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from inspect import cleandoc
from itertools import groupby
from typing import Any, Final, NamedTuple

import msgspec
from pydantic import BaseModel

from oracle.config.daemon import Config, tables_of
from oracle.config.models import ModelEntry
from oracle.planning.attributes import Attribute
from oracle.planning.ensemble.model import Transformer
from oracle.planning.kinds import KINDS
from oracle.planning.model import Feature, Limits, Model, Truth
from oracle.planning.schemas import schema_of

_UNITS: Final = {"seconds": "seconds", "bytes": "bytes", "rounds": "rounds", "rows": "rows", "per_message": "rows"}
"""Units by how a name ends, where a type names no other."""


class Key(NamedTuple):
    """One key.

    Attributes:
        name: As its user writes it.
        schema: JSON Schema of its values.
        required: Whether it must be set.
        says: What it means.
    """

    name: str
    schema: Mapping[str, Any]
    required: bool
    says: str

    @property
    def unit(self) -> str:
        """Of its values, or of what they count."""
        named = self.schema.get("unit", "")
        return str(named) or next((unit for end, unit in _UNITS.items() if self.name.endswith(end)), "")


class Table(NamedTuple):
    """One table of a file.

    Attributes:
        title: As its user writes it, with the setting that chooses it.
        path: The way to it.
        chosen: What it must hold to be this table: one of so many values of other keys.
        says: What it is for.
        keys: Its keys.
    """

    title: str
    path: tuple[str, ...]
    chosen: Mapping[str, Sequence[str]]
    says: str
    keys: tuple[Key, ...]


def model_tables() -> Iterator[Table]:
    """Yield the tables of a model file: what all predictors have in common, then what each has of its own."""
    own = {name: own_keys(kind.model) for name, kind in KINDS.items()}
    shared = {name for name in Model.__annotations__ if any(name not in names for names in own.values())}
    yield _struct("`[model]`, for every predictor", ("model",), {}, Model, shared)
    for name, kind in KINDS.items():
        documented = own[name].union(*map(_section, _classes(kind.model)))
        yield _struct(f'`[model]`, `predictor = "{name}"`', ("model",), {"predictor": [name]}, kind.model, documented)
    yield _struct("`[[model.features]]`", ("model", "features"), {}, Feature, set(Feature.__annotations__))
    step = set(Transformer.__annotations__)
    yield _struct("`[[model.preprocessing]]`", ("model", "preprocessing"), {}, Transformer, step)
    yield _struct("`[[model.attributes]]`", ("model", "attributes"), {}, Attribute, set(Attribute.__annotations__))
    yield _struct("`[model.limits]`", ("model", "limits"), {}, Limits, set(Limits.__annotations__))
    yield _struct("`[model.truth]`", ("model", "truth"), {}, Truth, set(Truth.__annotations__))


def own_keys(model: type[Model]) -> set[str]:
    """Return the keys that a predictor's model has beside, or in the place of, those of every model."""
    return {name for kind in _classes(model) for name in kind.__annotations__}


def _classes(model: type[Model]) -> Iterator[type[Model]]:
    """Yield a predictor's class, and those that it shares with some others."""
    return (kind for kind in model.__mro__ if issubclass(kind, Model) and kind is not Model)


def _struct(
    title: str, path: tuple[str, ...], chosen: Mapping[str, Sequence[str]], kind: type[msgspec.Struct], names: set[str]
) -> Table:
    described = _described(kind)
    schemas = {name: schema_of(kind, name) for name in names} | {"predictor": {"enum": list(KINDS)}}
    keys = tuple(
        Key(field.name, schemas[field.name], field.required, described[field.name])
        for field in msgspec.structs.fields(kind)
        if field.name in names
    )
    return Table(title, path, chosen, _summary(kind), keys)


def config_tables() -> Iterator[Table]:
    """Yield the tables of a configuration, in the order of its types, and what an entry of `[[models]]` has beside."""
    for (path, table), places in groupby(tables_of(Config), lambda found: (_path(*found), found[1])):
        kinds = [place[-1] for place, _ in places] if "kind" in table.model_fields else []
        choice = " or ".join(f'`kind = "{kind}"`' for kind in kinds)
        title = f"`[{'.'.join(path)}]`" + (f", {choice}" if kinds else "")
        yield Table(title, path, {"kind": kinds} if kinds else {}, _summary(table), _config_keys(table))
    yield Table("`[[models]]`", ("models",), {}, _summary(ModelEntry), _config_keys(ModelEntry))


def _config_keys(table: type[BaseModel]) -> tuple[Key, ...]:
    described, schema = _described(table), table.model_json_schema()["properties"]
    return tuple(
        Key(
            name,
            {**schema[name], **next(iter(schema[name].get("anyOf", ())), {})},
            field.is_required(),
            described[name],
        )
        for name, field in table.model_fields.items()
        if name != "kind"
    )


def _path(place: tuple[str, ...], table: type[BaseModel]) -> tuple[str, ...]:
    """Return the way to a table in a file, without the kind that chooses it."""
    return place[:-1] if "kind" in table.model_fields else place


def _summary(kind: type) -> str:
    """Return the first paragraph of a class docstring, without the table's name."""
    text = cleandoc(kind.__doc__ or "").split("\nAttributes:")[0]
    text = " ".join(re.sub(r"^(The )?`[^`]*`( table)?( of `[^`]*`)?: ", "", text).split())
    return text[:1].upper() + text[1:]


def _described(kind: type) -> dict[str, str]:
    """Return what the docstrings of a class and of those above it say of each attribute."""
    return {name: says for parent in reversed(kind.__mro__) for name, says in _section(parent).items()}


def _section(kind: type) -> dict[str, str]:
    """Return what a class docstring says of its attributes.

    >>> _section(Limits)["id_bytes"]
    'Most bytes of an id, UTF-8.'
    """
    _, _, section = cleandoc(kind.__doc__ or "").partition("\nAttributes:\n")
    entries = re.findall(r"^    (\w+): (.*(?:\n        .*)*)", section, re.MULTILINE)
    return {name: " ".join(says.split()) for name, says in entries}
