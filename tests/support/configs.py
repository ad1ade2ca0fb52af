"""Configurations of a few tables, and what a refusal of one may say."""

import os
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from oracle.config.daemon import Config, load_config
from oracle.errors import PerpetuaError

SECRET = "opensesame-7Qx"  # noqa: S105 -- a password of the tests' own

_STATE = '[state]\nfolder = "s"\n'


def forget_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the tester's own settings out of the environment."""
    for name in list(os.environ):
        if name.startswith("PERPETUA_"):
            monkeypatch.delenv(name)


def load_tables(folder: Path, *tables: str) -> Config:
    """Return the configuration of these tables, and of a state's folder."""
    path = folder / "c.toml"
    path.write_text("".join((_STATE, *tables)))
    return load_config(path)


def write_secret(path: Path, secret: str) -> Path:
    """Write a file of secrets as it must be, mode 0600, and return it."""
    path.touch(mode=0o600)
    path.write_text(secret)
    return path


def refusal(work: Callable[[], object]) -> str:
    """Return what a refusal says, which must not hold the secret."""
    with pytest.raises(PerpetuaError) as caught:
        work()
    assert SECRET not in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value, chain=False))
    return str(caught.value)
