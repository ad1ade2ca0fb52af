"""Paths of a configuration: relative ones are relative to the working folder."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

__all__ = ["LocalPath"]

LocalPath = Annotated[Path, AfterValidator(Path.absolute)]
"""A path on this machine, made absolute when it is read, so that whatever names it says where it was looked for."""
