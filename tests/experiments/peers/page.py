"""The comparison on real tables as a whole: what has not been run is run, then the tables are made."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.experiments.peers.report import BEGIN, END, short_table, table
from tests.experiments.peers.run import read, run

_PAGE: Final = Path("docs/evidence.md")


def compare_real(names: Sequence[str], seeds: int, folder: Path, *, page: bool, methods: Sequence[str] = ()) -> str:
    """Return the tables in Markdown.

    Args:
        names: Of the tables.
        seeds: Runs of each method at each epsilon; 0 runs nothing.
        folder: Where results are kept, as they come.
        page: Whether docs/evidence.md gets the long one.
        methods: That are run; all, if none is named.
    """
    for name in names if seeds else ():
        run(name, seeds, folder, lambda what: print(what, file=sys.stderr, flush=True), methods)  # noqa: T201 -- progress
    found = {name: some for name in names if (some := read(name, folder))}
    made = table(found)
    if page:
        before, _, rest = _PAGE.read_text(encoding="utf-8").partition(BEGIN)
        _PAGE.write_text(f"{before}{BEGIN}\n{made}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    return f"{made}\n{short_table(found)}"
