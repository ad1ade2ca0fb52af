"""The installed version."""

from importlib.metadata import version as installed

__all__ = ["version"]


def version() -> str:
    """Return the version of the installed distribution."""
    return installed("perpetua")
