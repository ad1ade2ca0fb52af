"""`python -m tests.benchmarks`: measures what is promised about speed, and writes it to `build/benchmarks.json`.

A value and its baseline are measured in turns within one run, so compare ratios; the values are this machine's. Exits
with 0 whether or not a promise is kept: the table says which is not.
"""

import argparse
import sys
from pathlib import Path

from tests.benchmarks.pairs import Settings
from tests.benchmarks.report import table, write
from tests.benchmarks.topics import TOPICS, run


def main() -> None:
    """Measure, write the file, print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--only", action="append", choices=list(TOPICS), help="a topic; may be given again")
    parser.add_argument("--seconds", type=float, default=Settings.seconds, help="for each pair (default %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks.json"), help="default %(default)s")
    chosen = parser.parse_args()
    settings = Settings(seconds=chosen.seconds)
    rows = run(chosen.only or list(TOPICS), settings, lambda line: sys.stderr.write(line + "\n"))
    write(chosen.out, rows)
    sys.stdout.write(f"{table(rows)}\n{chosen.out}\n")


if __name__ == "__main__":
    main()
