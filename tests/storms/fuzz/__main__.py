"""`python -m tests.storms.fuzz`: two million changed messages and as many files before those who read them."""

import argparse
import functools
import os
import sys
import time
from collections.abc import Sequence
from typing import Final

from oracle.cli.progress import Progress
from tests.storms.fuzz import codecs, readers
from tests.storms.fuzz.workers import Counts, Job, run_jobs

_CODECS: Final = ("codecs", "missing", "questions", "distributions", "arrow")
_OTHERS: Final = 10  # the snapshot reader gets as many tries as there are messages; other readers a tenth


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the fuzzers, print a table, and return 1 if something broke."""
    parser = argparse.ArgumentParser(prog="python -m tests.storms.fuzz", description=__doc__)
    parser.add_argument(
        "--messages",
        type=int,
        default=1_000_000,
        help="queries, as many questions of each kind, and as many of Arrow alone",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the changes")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--only", choices=[*_CODECS, *readers.READERS], action="append", help="may be repeated")
    options = parser.parse_args(arguments)
    for name in [name for name in os.environ if name.startswith("PERPETUA_")]:
        del os.environ[name]
    jobs = _jobs(options.messages, options.only or [*_CODECS, *readers.READERS])
    started = time.monotonic()
    with Progress("fuzz", len(jobs) * codecs.RUN, "tries") as progress:
        counts, broken = run_jobs(jobs, options.seed, options.workers, progress.at)
    _print(counts, broken, time.monotonic() - started)
    return 1 if broken else 0


def _jobs(messages: int, targets: Sequence[str]) -> list[Job]:
    jobs = []
    for target in targets:
        tries = messages if target in {*_CODECS, "snapshot"} else messages // _OTHERS
        jobs += [Job(target, run) for run in range(max(1, tries // codecs.RUN))]
    return jobs


def _print(counts: Counts, broken: list[str], seconds: float) -> None:
    kinds = functools.reduce(
        lambda seen, kind: seen if kind in seen else [*seen, kind], (k for k, _ in counts), list[str]()
    )
    lines = [("kind", "tried", "accepted", "rejected", "of which")]
    for kind in kinds:
        found = {outcome: count for (one, outcome), count in counts.items() if one == kind}
        accepted = found.pop("accepted", 0)
        told = ", ".join(f"{outcome} {count:,}" for outcome, count in sorted(found.items(), key=lambda item: -item[1]))
        rejected = sum(found.values())
        lines.append((kind, f"{accepted + rejected:,}", f"{accepted:,}", f"{rejected:,}", told))
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    for line in lines:
        cells = [text.rjust(width) for text, width in zip(line, widths, strict=False)]
        sys.stdout.write("  ".join([line[0].ljust(widths[0]), *cells[1:], line[4]]).rstrip() + "\n")
    tried = sum(counts.values())
    sys.stdout.write(
        f"\n{tried:,} tries in {seconds:.0f} s, {tried / seconds:,.0f} a second; broken promises: {len(broken)}\n"
    )
    for problem in broken[:20]:
        sys.stdout.write(f"\nBROKEN PROMISE: {problem[:3000]}\n")


if __name__ == "__main__":
    sys.exit(main())
