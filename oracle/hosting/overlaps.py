"""A sink cuts its files to what was committed; so none of them may be anything that is to be kept."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from connectors.local.paths import same_file
from oracle.config.daemon import Config, FileSourceConfig
from oracle.errors import InputError
from oracle.state.forks import forks_path

__all__ = ["refuse_overlap"]

_OWN = re.compile(r"plan\.json|lock|key|\.?(snapshot-.*\.perp|plan\.json)(\.tmp)?")
"""Names of what the state folder keeps."""


def refuse_overlap(config: Config, sink_paths: Mapping[str, Path]) -> None:
    """Refuse a sink that would write over its own source or state; its paths have the names that the user knows.

    Raises:
        InputError: One of them is the source, lies in it or around it, or is the state's.
    """
    for name, path in sink_paths.items():
        if isinstance(config.source, FileSourceConfig) and _holds(path, config.source.path):
            raise InputError(
                name, str(path), "is source.path too; what is not of the sink's own would be cut off, and be lost"
            )
        if _is_of_state(config, path):
            raise InputError(name, str(path), "is a file of the state, which the sink would destroy")


def _holds(path: Path, other: Path) -> bool:
    return same_file(path, other) or os.path.realpath(other).startswith(os.path.realpath(path) + os.sep)


def _is_of_state(config: Config, path: Path) -> bool:
    folder, whole = Path(os.path.realpath(config.state.folder)), Path(os.path.realpath(path))
    if _holds(path, folder) or same_file(path, config.state.key_path) or same_file(path, forks_path(folder)):
        return True
    return whole.is_relative_to(folder) and _OWN.fullmatch(whole.name) is not None
