"""What is said of a reconstruction, in the terminal and on a page."""

from typing import ClassVar, Final

import msgspec

from oracle.audit.reconstruction.attack import Line, Rebuilt
from oracle.audit.reconstruction.regressions import LOSSES
from oracle.audit.reconstruction.releases import PRIVATE, Terms

__all__ = ["Report"]


_REGRESSION: Final = "its regression on each product of some of the attributes' values"
_WORDS: Final = {
    "counts": "of random sets of rows: how many have the secret",
    "marginals": "tables of some of the attributes: how many have the secret, in each cell",
    "trees": "for any two values a, b: how often 'a ? (b and secret) : secret' says yes",
    "errors": "for any two values: how often 'both, so the secret' is wrong",
    **dict.fromkeys(LOSSES, _REGRESSION),
    "published tables": "the counts of --tables",
}
"""Of what is published."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What came out; it is as sensitive as the table.

    Attributes:
        rows: Of the table.
        groups: Of rows that look alike.
        singles: Groups of one row.
        attributes: What anybody may know.
        secret: The secret column.
        yes: Its value that is a 1.
        having: Rows that have it; None where the column is not known.
        kind: What is published.
        terms: How.
        miss: Probability of a false alarm, for each release.
        wanted: Rows that must be rebuilt of exact numbers about coins, or nothing can be judged.
        without: What is guessed of the share alone.
        lines: Of each release; the exact twin first.
        judged: Whether the twin was rebuilt.
        refuted: Releases that are proved not to have their epsilon.
    """

    rows: int
    groups: int
    singles: int
    attributes: tuple[str, ...]
    secret: str
    yes: str
    having: int | None
    kind: str
    terms: Terms
    miss: float
    wanted: int
    without: Rebuilt | None
    lines: tuple[Line, ...]
    judged: bool = False
    refuted: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Draw the conclusions."""
        refuted = (one.release for one in self.lines if one.release in PRIVATE and one.lowest > self.terms.epsilon)
        msgspec.structs.force_setattr(self, "refuted", tuple(refuted))
        msgspec.structs.force_setattr(self, "judged", self.lines[0].coins_rebuilt >= self.wanted)

    columns: ClassVar = (
        "release",
        "numbers",
        "error",
        "right",
        "rebuilt",
        "rows exposed",
        "coins right",
        "allowed",
        "epsilon proved",
    )

    def heads(self) -> list[tuple[str, str]]:
        """Return what was attacked, as names and texts."""
        having = "unknown" if self.having is None else f"{self.having:,} rows, {self.percent(self.having)} %"
        known = f"by {', '.join(self.attributes)}" if self.attributes else "each known by name"
        twin = self.lines[0]
        return [
            ("rows", f"{self.rows:,}, {known}: {self.groups:,} groups that look alike, {self.singles:,} of one row"),
            ("secret", f"{self.secret} = {self.yes}: {having}"),
            ("published", f"{self.kind} ({_WORDS[self.kind]}): {twin.numbers:,} numbers"),
            ("exact twin", f"of fair coins {self.percent(twin.coins_rebuilt)} % are rebuilt of exact numbers"),
        ]

    def cells(self) -> list[tuple[str, ...]]:
        """Return a line of texts for what is known without any number, and for each release."""
        lines: list[tuple[str, ...]] = [("nothing", "0", "", *self._rebuilt(self.without), "", "", "")]
        for one in self.lines:
            if one.refused:
                lines.append((f"{one.release}: not tried", *[""] * (len(self.columns) - 1)))
                continue
            error = "" if one.error is None else f"{one.error:,.4g}"
            played = one.release != "published"
            coins = (
                f"{self.percent(one.coins)} %" if played else "",
                "" if one.cap is None else f"{100.0 * one.cap:.1f} %",
                f"{one.lowest:.2f}" if played else "",
            )
            lines.append((one.release, f"{one.numbers:,}", error, *self._rebuilt(one.best), *coins))
        return lines

    def percent(self, count: int) -> str:
        """Return a share of the rows; 100 are all of them."""
        share = 100.0 * count / self.rows
        return f"{share:.1f}" if count in {0, self.rows} or 0.05 <= share < 99.95 else f"{share:.3f}"  # noqa: PLR2004

    @property
    def outcome(self) -> str:
        """One sentence."""
        refused = [
            f"{one.release} ({one.refused.removeprefix(f'{one.release}: ')})" for one in self.lines if one.refused
        ]
        return f"{self._judgement()}; not tried: {', '.join(refused)}" if refused else self._judgement()

    def _judgement(self) -> str:
        twin = self.lines[0]
        if self.refuted:
            return f"REFUTED: {', '.join(self.refuted)} at epsilon = {self.terms.epsilon:g}: coins prove more"
        if not self.judged:
            return (
                f"cannot judge: of exact numbers about fair coins {self.percent(twin.coins_rebuilt)} % of the rows are "
                f"rebuilt, and 99 % are wanted; what is rebuilt above is the least that can be. More --ways or "
                "--questions, or fewer rows (--sample), tell more"
            )
        if self.without is None:
            return "rebuilt, but not compared; of exact numbers about fair coins as many rows are as above"
        gained = [
            f"{one.release} {self.percent(one.best.right)} % and {one.best.exposed:,}"
            for one in self.lines
            if one.best is not None and (one.best.right > self.without.right or one.best.exposed > self.without.exposed)
        ]
        nothing = f"{self.percent(self.without.right)} % are right and {self.without.exposed:,} rows exposed"
        told = f"more are by {', '.join(gained)}" if gained else "by no release are more"
        return f"without any number {nothing}; {told}"

    def _rebuilt(self, found: Rebuilt | None) -> tuple[str, str, str]:
        if found is None:
            return ("", "", "")
        return (f"{self.percent(found.right)} %", f"{self.percent(found.rebuilt)} %", f"{found.exposed:,}")
