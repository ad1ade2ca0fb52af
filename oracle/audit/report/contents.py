"""The report of an audit: what was attacked, what came out in one banner, and what it leaves open."""

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version as installed
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from oracle.audit.findings import (
    Check,
    Finding,
    finite,
    near,
    near_predictors,
    outcome,
    refuted,
    too_few,
    untold,
    verdict,
)
from oracle.audit.report.score import score_in_words
from oracle.audit.report.words import LIMITS, meaning

if TYPE_CHECKING:
    from oracle.audit.runner import Settings

__all__ = ["Line", "Report", "Scope", "make_report"]

Result = Finding | Check
Verdict = Literal["refuted", "promise-fails", "interrupted", "undecided", "nominal", "in-part", "nothing-found"]

_LIBRARIES: Final = ("numpy", "scipy", "msgspec", "cryptography", "mpmath")
_NAMED: Final = 4
"""Targets that a line names at most."""


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """What an audit was of, and what it left out.

    Attributes:
        attacked: Sentences.
        left_out: What could have been looked at and was not: sentences.
        ended: False if it was broken off, or has not ended yet.
        whole: True if nothing was left out that this kind of audit has.
        nominal: True if no proof bounds epsilon and delta of what was attacked.
        signer: The public key that signs it, hex digits; None where nobody does.
    """

    attacked: tuple[str, ...]
    left_out: tuple[str, ...]
    ended: bool = True
    whole: bool = True
    nominal: bool = False
    signer: str | None = None


class Line(msgspec.Struct, frozen=True):
    """All parts that would have found the same.

    Attributes:
        finds: What: goes on from "It would have found".
        looked_at: At how much, and by what names.
        result: In a few words.
        failed: True if one of them failed, or could not tell.
    """

    finds: str
    looked_at: str
    result: str
    failed: bool


class Failure(msgspec.Struct, frozen=True):
    """All that failed or could not tell, and means the same.

    Attributes:
        means: What.
        do: What to do.
        seen: What was seen of each, in a line.
    """

    means: str
    do: str
    seen: tuple[str, ...]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints, and the page shows.

    Attributes:
        verdict: In a word. Only "nothing-found" is good news, and it is no proof.
        banner: The verdict in a sentence.
        outcome: What all parts came to.
        scope: What was attacked, and what was not looked at.
        limits: What no audit can say.
        failures: What failed or could not tell.
        lines: What was looked for, in plain words.
        made: When, UTC.
        machine: Where, and the software beside Perpetua.
        software: SHA-256 over all modules of Perpetua, hex digits.
        miss: Probability that at least one true claim is refuted by chance.
        refuted: Names of the refuted claims and failed checks.
        untold: Names of the checks that could not tell.
        too_few: Names of the attacks that had too few games to refute their claim.
        near: By level of attack, the least factor between a proved claim and what was shown of it.
        near_predictors: The same by predictor; null where nothing could be shown with so many games.
    """

    verdict: Verdict
    banner: str
    outcome: str
    scope: Scope
    limits: tuple[str, ...]
    failures: tuple[Failure, ...]
    lines: tuple[Line, ...]
    made: str
    machine: dict[str, str]
    version: str
    software: str
    seed: str
    miss: float
    refuted: tuple[str, ...]
    untold: tuple[str, ...]
    too_few: tuple[str, ...]
    near: dict[str, float | None]
    near_predictors: dict[str, float | None]
    results: tuple[Result, ...]


def make_report(results: Sequence[Result], settings: "Settings", scope: Scope) -> Report:
    """Return the report of what an audit found so far.

    Args:
        results: Of all parts that ended, in the order they are to be shown.
        settings: What they were run under.
        scope: What they are of.
    """
    kind, banner = _verdict(results, scope)
    return Report(
        verdict=kind,
        banner=banner,
        outcome=outcome(results) if results else "Nothing was looked at yet.",
        scope=scope,
        limits=(*LIMITS, score_in_words()),
        failures=tuple(_failures(results)),
        lines=tuple(_lines(results)),
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=_machine(),
        version=settings.version,
        software=settings.software,
        seed=settings.seed,
        miss=settings.miss,
        refuted=tuple(one.cell for one in refuted(results)),
        untold=tuple(one.cell for one in untold(results)),
        too_few=tuple(one.cell for one in too_few(results)),
        near={level: finite(factor) for level, factor in near(results).items()},
        near_predictors={name: finite(factor) for name, factor in near_predictors(results).items()},
        results=tuple(results),
    )


def _verdict(results: Sequence[Result], scope: Scope) -> tuple[Verdict, str]:
    """Return the worst that can be said: a broken-off audit, or one of a part, is never good news."""
    broken, promises = refuted(results), [one for one in refuted(results) if isinstance(one, Check) and one.promise]
    rest = "" if scope.ended else " The audit had not ended when this was written."
    if len(broken) > len(promises):
        count = f"{len(broken) - len(promises)} of {len(results)}"
        return "refuted", f"FAILED: in {count} results a claim of privacy, or what it rests on, does not hold.{rest}"
    few = any(one.level != "daemon" for one in too_few(results))
    open_ones = len(untold(results))
    said: tuple[tuple[object, Verdict, str], ...] = (
        (promises, "promise-fails", f"A PROMISE FAILS, of errors or rows; no claim of privacy was refuted.{rest}"),
        (
            not (scope.ended and results),
            "interrupted",
            f"NO VERDICT: it had not ended; results so far: {len(results)}.",
        ),
        (open_ones, "undecided", f"UNDECIDED: {open_ones} of {len(results)} results could not tell."),
        (scope.nominal, "nominal", "NOTHING PROVED: epsilon and delta of this plan are names that no proof bounds."),
        (not scope.whole or few, "in-part", "NO FAULT FOUND IN A PART: more, or more closely, could be looked at."),
    )
    quiet = f"NO FAULT FOUND in {len(results)} results. That is no proof: see what was not looked at."
    return next(((kind, text) for holds, kind, text in said if holds), ("nothing-found", quiet))


def _failures(results: Sequence[Result]) -> list[Failure]:
    groups: dict[tuple[str, str], list[str]] = {}
    for one in (*refuted(results), *untold(results)):
        if isinstance(one, Finding):
            seen = f"{one.adversary}: epsilon is at least {one.lowest:.3f}, and {one.epsilon:g} is claimed"
        else:
            seen = f"{one.name}: {verdict(one)}{f' ({one.says})' if one.says else ''}"
        groups.setdefault(meaning(one)[1:], []).append(f"{one.target}: {seen}")
    return [Failure(*words, tuple(seen)) for words, seen in groups.items()]


def _lines(results: Sequence[Result]) -> list[Line]:
    """Put together what would have found the same."""
    groups: dict[str, list[Result]] = {}
    for one in results:
        groups.setdefault(meaning(one).finds, []).append(one)
    return [Line(finds, _looked_at(found), *_result(found)) for finds, found in groups.items()]


def _looked_at(found: Sequence[Result]) -> str:
    targets = list(dict.fromkeys(one.target for one in found))
    more = f" and {len(targets) - _NAMED} more" if len(targets) > _NAMED else ""
    return f"{len(found)} {'result' if len(found) == 1 else 'results'}: {'; '.join(targets[:_NAMED])}{more}"


def _result(found: Sequence[Result]) -> tuple[str, bool]:
    broken, open_ones = len(refuted(found)), len(untold(found))
    games = [one for one in found if isinstance(one, Finding)]
    if broken:
        return f"FAILS ({broken} of {len(found)})", True
    if open_ones:
        return f"could not tell ({open_ones} of {len(found)})", True
    if not games:
        return "not found", False
    best = max(games, key=lambda one: one.lowest / one.epsilon)
    weak = sum(one.ceiling <= one.epsilon for one in games)
    few = f"; {weak} could not have refuted: too few games" if weak else ""
    limits = [one.limit for one in games if one.limit is not None]
    sees = f"; the sharpest attack would see {min(limits):g} times a claim" if limits else ""
    return f"not found; at most {best.lowest:.2f} of epsilon = {best.epsilon:g} proved{sees}{few}", False


def _machine() -> dict[str, str]:
    """Return machine and libraries, by name."""
    libraries = ", ".join(f"{name} {installed(name)}" for name in _LIBRARIES)
    return {
        "machine": f"{platform.node()}: {platform.platform()}, {os.cpu_count() or 1} cores",
        "libraries": f"Python {platform.python_version()}, {libraries}",
    }
