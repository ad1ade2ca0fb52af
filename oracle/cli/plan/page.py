"""What all pages of `perpetua plan` are made of."""

from collections.abc import Iterator
from typing import Final

from msgspec import UNSET

from oracle.cli.output import Row
from oracle.planning.promise import Promise

__all__ = ["ABOUT_REARMS", "mebibytes", "promise_rows"]

ABOUT_REARMS: Final = (
    "re-armed",
    "a side gets new points, from queries: all when a phase ends, one alone when enough queries came close to its edge",
)
"""What a re-arm is, for `plan` and `status`."""


def mebibytes(count: int) -> str:
    """Return a number of bytes in words."""
    return f"{count / 2**20:.1f} MiB"


def promise_rows(promise: Promise, over: str | None = None) -> Iterator[Row]:
    """Yield a promise whole: the bound, how it is known, and what it rests on; first, why it is `over`, if it is."""
    if over is not None:
        yield "promise", f"nothing new is promised: {over}; of answers before:"
    beyond = f" beyond {promise.beyond}" if promise.beyond else ""
    missed = "" if promise.missed is None else f", missed with probability {promise.missed:g} at most"
    yield "error", f"at most {promise.bound:.4f}{beyond} on {promise.on}{missed}"
    if promise.told is not UNSET:
        yield (
            "",
            f"promised is alpha = {promise.told:g}, the `error` of answers; this bound is sharper, by your rows",
        )
    how = {"theorem": "a theorem", "estimate": "an estimate", "nominal": "nominal"}[promise.kind]
    yield "", f"{how}: {promise.basis}"
    for number, condition in enumerate(promise.conditions):
        yield "" if number else "rests on", condition
