"""What the tables of a configuration are made of."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict
from pydantic_core import PydanticCustomError

__all__ = ["ConfigTable", "LocalPath", "refuse_repeated"]

LocalPath = Annotated[Path, AfterValidator(Path.absolute)]
"""A path on this machine, made absolute when it is read, so that whatever names it says where it was looked for."""


class ConfigTable(BaseModel):
    """One table; it cannot be changed, and has no settings but its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def refuse_repeated(topics: Sequence[str]) -> None:
    """Refuse a topic that is used for two things: answers would be taken for queries, or read by the wrong ones."""
    double = next((name for name in topics if topics.count(name) > 1), None)
    if double is not None:
        raise PydanticCustomError("topics", f"each must be a topic of its own; {double} is named twice")
