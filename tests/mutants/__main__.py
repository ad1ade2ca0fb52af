"""`make mutants`: plant each fault of `mutants.toml` in a copy of the tree, and run the tests that must find it."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from tests.mutants.mutants import Mutant, load_mutants

_ROOT: Final = Path(__file__).parents[2]
_PYTEST: Final = ("-m", "pytest", "-n", "0", "-x", "-q", "-p", "no:cacheprovider")
_OUTCOMES: Final = {0: "survived", 1: "found"}
"""By pytest's exit status. With any other one no test ran: the mutant cannot be imported, or its tests are gone."""
_LEAST: Final = 60.0
_TIMES: Final = 10.0
"""So many seconds, and times as long as without the fault, tests may take: from then on they hang, so it is found."""
_SECONDS: Final[dict[tuple[str, ...], float]] = {}
"""How long tests take without a fault."""


def main() -> int:
    """Print what became of each mutant; return 1 if one survives, or cannot be planted any more."""
    options = _options()
    mutants = [one for one in load_mutants() if options.only.lower() in one.name.lower()]
    trees: SimpleQueue[Path] = SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch, ThreadPoolExecutor(options.workers) as pool:
        for number in range(options.workers):
            trees.put(_copy(Path(scratch, str(number))))
        outcomes = list(pool.map(lambda one: _become(one, trees), mutants))
    found = outcomes.count("found")
    print(f"{found} of {len(mutants)} mutants were found")  # noqa: T201
    return int(found < len(mutants) or not mutants)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="mutants whose names contain it")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="mutants at once")
    return parser.parse_args()


def _copy(target: Path) -> Path:
    """Copy the tree as git sees it, with what is not committed."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, check=True).stdout.decode()
    for name in filter(None, listed.split("\0")):
        if (_ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(_ROOT / name, target / name)
    return target


def _become(mutant: Mutant, trees: "SimpleQueue[Path]") -> str:
    tree = trees.get()
    outcome = _outcome(mutant, tree)
    trees.put(tree)
    print(f"{outcome:9} {mutant.name}", flush=True)  # noqa: T201
    return outcome


def _outcome(mutant: Mutant, tree: Path) -> str:
    """Return what the tests say with the fault; first, that they pass without it."""
    path = tree / mutant.file
    text = path.read_text() if path.is_file() else ""
    mutated = mutant.planted(text)
    if mutated is None:
        return "stale"
    if mutant.tests not in _SECONDS:
        started = time.monotonic()
        if _run(mutant.tests, tree, None) != 0:
            return "failing"
        _SECONDS[mutant.tests] = time.monotonic() - started
    path.write_text(mutated)
    try:
        return _OUTCOMES.get(_run(mutant.tests, tree, _LEAST + _TIMES * _SECONDS[mutant.tests]), "stale")
    finally:
        path.write_text(text)


def _run(tests: Iterable[str], tree: Path, seconds: float | None) -> int:
    """Run tests of a tree; return pytest's exit status, 1 if they hang."""
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    command = [sys.executable, *_PYTEST, *tests]
    try:
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return 1
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
