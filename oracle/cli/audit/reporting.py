"""Where an audit's report goes: the page, the same as JSON, a receipt of both, and the terminal in the same words."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from rich.console import Console
from rich.table import Table

from oracle.audit.findings import Check, Finding, verdict
from oracle.audit.report.contents import Report, Scope, make_report
from oracle.audit.report.page import chance, made, page
from oracle.audit.runner import Settings
from oracle.cli.audit.files import remove_report, write_report
from oracle.cli.output import figure_table
from oracle.receipts.audits import AuditStatement, seal_audit

__all__ = ["REPORTS", "Reporter", "print_report"]

_RECEIPT, _PAGE, _JSON = "audit.receipt.json", "audit.html", "audit.json"
REPORTS: Final = (_RECEIPT, _PAGE, _JSON)
"""Receipt, page, and the same as JSON, which is written last."""

_TONES: Final = {"nothing-found": "bold green", "refuted": "bold red", "promise-fails": "bold red"}


class Reporter(NamedTuple):
    """What writes the report of one audit.

    Attributes:
        out: Folder for it; None for nowhere.
        key: What signs it; None for nothing.
        settings: What is run.
        scope: Of what that is.
    """

    out: Path | None
    key: Ed25519PrivateKey | None
    settings: Settings
    scope: Scope = Scope(attacked=(), left_out=())

    def unfinished(self, results: Sequence[Finding | Check]) -> None:
        """Leave a page that says that the audit has not ended, and none of what an earlier one left.

        Raises:
            StorageError: It cannot be written.
        """
        if self.out is None:
            return
        for name in REPORTS:
            remove_report(self.out / name)
        scope = msgspec.structs.replace(self.scope, ended=False)
        write_report(self.out / _PAGE, page(make_report(results, self.settings, scope)).encode())

    def finished(self, results: Sequence[Finding | Check]) -> Report:
        """Write the report of an audit that has ended, and return it.

        Raises:
            StorageError: It cannot be written.
        """
        signer = None if self.key is None else self.key.public_key().public_bytes_raw().hex()
        report = make_report(results, self.settings, msgspec.structs.replace(self.scope, signer=signer))
        if self.out is not None:
            files = {_PAGE: page(report).encode(), _JSON: msgspec.json.encode(report)}
            if self.key is not None:
                digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
                statement = AuditStatement(
                    software=f"perpetua {report.version}, SHA-256 {report.software}",
                    issued=report.made,
                    banner=report.banner,
                    attacked=report.scope.attacked,
                    files=digests,
                )
                write_report(self.out / _RECEIPT, seal_audit(statement, self.key))
            for name, data in files.items():
                write_report(self.out / name, data)
        return report


def print_report(console: Console, report: Report, out: Path | None, games: Iterable[Table | str] = ()) -> None:
    """Print what the page says, but for its appendix; the banner is the first line, and stands at the end again.

    Args:
        console: Where to.
        report: Of an audit that has ended.
        out: Folder that has the page; None for none.
        games: What is shown of these.
    """
    banner = (report.banner, _TONES.get(report.verdict, "bold yellow"))
    console.print(banner[0], style=banner[1])
    console.print(f"{report.outcome} {chance(report)}")
    for one in report.failures:
        console.print("\n".join(one.seen), style="red")
        console.print(f"  what it means: {one.means}")
        console.print(f"  what to do: {one.do}")
    _print_section(console, "attacked", report.scope.attacked)
    _print_section(console, "looked for", [f"{line.finds}: {line.result}" for line in report.lines])
    for part in games:
        console.print(part)
    checks = [one for one in report.results if isinstance(one, Check)]
    if checks:
        console.print(
            "checked, part by part (each check, and what it saw: --json, or the page of --out):", style="bold"
        )
        console.print(_checks_table(checks))
    _print_section(console, "not looked at", report.scope.left_out)
    _print_section(console, "limits", report.limits)
    _print_section(console, "made", [f"{name}: {text}" for name, text in made(report)])
    console.print(banner[0], style=banner[1])
    if out is not None:
        console.print(f"report: {out / _PAGE}")


def _print_section(console: Console, title: str, sentences: Sequence[str]) -> None:
    console.print(f"{title}:", style="bold")
    for sentence in sentences:
        console.print(f"  {sentence}")


def _checks_table(checks: Sequence[Check]) -> Table:
    """Return a table of how many checks of each part hold; all phases of a plan are one part."""
    table = figure_table("  part", "checks", "hold", "could not tell", "FAIL")
    counts: dict[str, Counter[str]] = {}
    for one in checks:
        counts.setdefault(re.sub(r"\[\d+\]", "[*]", one.target), Counter())[verdict(one)] += 1
    for part, found in counts.items():
        figures = (found.total(), found["holds"], found["could not tell"], found["FAILS"])
        table.add_row(f"  {part}", *map(str, figures), style="red" if found["FAILS"] else None)
    return table
