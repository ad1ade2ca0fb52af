"""Bounds that every local connector checks."""

from connectors.base import METADATA_LIMIT
from oracle.errors import InputError

__all__ = ["check_at_least", "check_metadata"]


def check_at_least(name: str, value: float, least: float) -> None:
    """Refuse a setting below its bound.

    Raises:
        InputError: It is.
    """
    if not value >= least:
        raise InputError(name, value, f"must be at least {least}")


def check_metadata(metadata: bytes) -> None:
    """Refuse commit metadata that a broker could not keep.

    Raises:
        InputError: It is longer than `METADATA_LIMIT`.
    """
    if len(metadata) > METADATA_LIMIT:
        raise InputError("commit.metadata", len(metadata), f"must have at most {METADATA_LIMIT} bytes")
