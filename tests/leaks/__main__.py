"""`python -m tests.leaks`: many pairs of neighbouring worlds through the daemon; print what was compared, and found."""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from oracle.cli.progress import Progress
from oracle.planning.questions import QuestionPlan
from tests.leaks import inside, outside
from tests.leaks.sightings import Difference, Sightings, compare
from tests.leaks.subjects import SUBJECTS, Kind, leak_plan
from tests.leaks.worlds import CHUNK, Pair, random_pair, state_after, transcript

_LEAST: Final = CHUNK
"""Messages that a pair must have for processes to be started over it."""

_EVERY: Final = 10
"""Of so many pairs of a predictor and a kind one is run as processes too."""

_LINES: Final = "processes, JSONL"

_CHOICES: Final = [(name, kind) for name, subject in SUBJECTS.items() for kind in subject.kinds]

_WAYS: Final[dict[str, Callable[[Pair, int, Path], Sightings]]] = {
    "inside, JSON": lambda pair, which, folder: inside.sight(pair, which, folder, form="json"),
    "inside, Arrow": lambda pair, which, folder: inside.sight(pair, which, folder, form="arrow"),
    _LINES: lambda pair, which, folder: outside.sight(pair, which, folder, files="jsonl"),
    "processes, Parquet": lambda pair, which, folder: outside.sight(pair, which, folder, files="parquet"),
}


@dataclass
class _Row:
    """One line of the table: what came of one kind of neighbours, run in one way."""

    counts: Counter[str] = field(default_factory=Counter)
    found: list[tuple[int, Difference]] = field(default_factory=list)

    def add(self, pair: Pair, seed: int, seen: tuple[Sightings, Sightings]) -> None:
        """Take a pair into account."""
        left, right = seen
        events = [what for _, what in transcript(pair.worlds[0], pair.left_out) if isinstance(what, tuple)]
        self.counts += Counter(
            pairs=1,
            uncut=pair.whole,
            inside=_differ(pair),
            rounds=len(pair.worlds[0].messages),
            events=len(events),
            entries=sum(map(len, left.channels.values())),
        )
        self.found += [(seed, difference) for difference in compare(left, right)]


def _differ(pair: Pair) -> bool:
    """Return whether the private states differ at some look."""
    for count in range(0, len(pair.worlds[0].messages) + 1, CHUNK):
        left, right = (state_after(world, count) for world in pair.worlds)
        if any(left[name].tobytes() != right[name].tobytes() for name in left):
            return True
    return False


def main(arguments: list[str] | None = None) -> int:
    """Run the pairs, print a table, and return 1 if anything private showed."""
    parser = argparse.ArgumentParser(prog="python -m tests.leaks", description=__doc__)
    parser.add_argument("--worlds", type=int, default=200, help="pairs of worlds to run in one process")
    parser.add_argument("--seed", type=int, default=1, help="of the first pair")
    parser.add_argument("--only", choices=SUBJECTS, help="a predictor; all in turn if left out")
    options = parser.parse_args(arguments)
    choices = [choice for choice in _CHOICES if options.only in {None, choice[0]}]
    rows: dict[tuple[str, str, Kind], _Row] = {}
    with Progress("looking", options.worlds, "pairs") as progress:
        for way, subject, kind, seed in _runs(choices, options.worlds, options.seed):
            pair = random_pair(subject, kind, seed)
            if pair.worlds[0].messages and (way.startswith("inside") or len(pair.worlds[0].messages) >= _LEAST):
                rows.setdefault((way, subject, kind), _Row()).add(pair, seed, _run(way, pair))
            progress.at(seed - options.seed)
    _print(rows)
    return int(any(row.found for row in rows.values()))


def _runs(choices: Sequence[tuple[str, Kind]], pairs: int, first: int) -> Iterator[tuple[str, str, Kind, int]]:
    """Yield how, with which predictor, over which neighbours and from which seed each pair is run."""
    here, there = ([way for way in _WAYS if way.startswith(on)] for on in ("inside", "processes"))
    for number in range(pairs):
        turn, place = divmod(number, len(choices))
        (subject, kind), seed = choices[place], first + number
        yield here[turn % len(here)], subject, kind, seed
        way = there[turn // _EVERY % len(there)]
        if isinstance(leak_plan(subject), QuestionPlan):
            way = _LINES  # they are asked in nothing else
        if turn % _EVERY == 0 and (kind, way) != ("presence", _LINES):  # there a length differs, in public
            yield way, subject, kind, seed


def _run(way: str, pair: Pair) -> tuple[Sightings, Sightings]:
    with tempfile.TemporaryDirectory() as folder:
        return _WAYS[way](pair, 0, Path(folder, "0")), _WAYS[way](pair, 1, Path(folder, "1"))


def _print(rows: dict[tuple[str, str, Kind], _Row]) -> None:
    heads = ("pairs", "uncut", "inside", "rounds", "events", "entries")
    titles = ("pairs", "uncut", "differ inside", "messages", "re-arms, phases", "entries compared", "differ in sight")
    lines: list[tuple[str, ...]] = [("run", "predictor", "neighbours", *titles)]
    for (way, subject, kind), row in sorted(rows.items()):
        lines.append((way, subject, kind, *(f"{row.counts[head]:,}" for head in heads), f"{len(row.found):,}"))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        sys.stdout.write("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() + "\n")
    for (way, subject, kind), row in sorted(rows.items()):
        for seed, found in row.found:
            sys.stdout.write(
                f"\nLEAK: {way}, {subject}, {kind}, seed {seed}: {found.channel}\n  {found.left!r}\n  {found.right!r}\n"
            )
    if not any(row.found for row in rows.values()):
        sys.stdout.write("\nNothing in sight differed between neighbours of one transcript.\n")


if __name__ == "__main__":
    sys.exit(main())
