"""`make mutants`: plant each fault of a list in a copy of the tree, and run what must find it.

Those of `mutants.toml` are looked for by the tests that each names, those in privacy by `perpetua audit`.
"""

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

from tests.mutants.attacks import Verdict, audited
from tests.mutants.mutants import HELD_OUT, LISTS, Mutant, load_mutants
from tests.mutants.scored import write_score

_ROOT: Final = Path(__file__).parents[2]
_PYTEST: Final = ("-m", "pytest", "-n", "0", "-x", "-q", "-p", "no:cacheprovider")
_OUTCOMES: Final = {0: "missed", 1: "found"}
"""By pytest's exit status. With any other one no test ran: the mutant cannot be imported, or its tests are gone."""
_LEAST: Final = 60.0
_TIMES: Final = 10.0
"""So many seconds, and times as long as without the fault, tests may take: from then on they hang, so it is found."""
_SECONDS: Final[dict[tuple[str, ...], float]] = {}
"""How long tests take without a fault."""


def main() -> int:
    """Print what became of each mutant; return 1 if a test misses one, or one cannot be planted any more.

    What an audit misses is no error, unless it was found before; but that it refutes the tree as it is.
    """
    options = _options()
    place = LISTS[options.list]
    mutants = [one for one in load_mutants(place) if options.only.lower() in one.name.lower()]
    trees: SimpleQueue[Path] = SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch, ThreadPoolExecutor(options.workers) as pool:
        for number in range(options.workers):
            trees.put(_copy(Path(scratch, str(number))))
        verdicts = list(pool.map(lambda one: _become(one, trees, options), mutants))
        about = tuple(dict.fromkeys(name for one in mutants for name in one.about))
        whole = audited(trees.get(), about, options.games, options.seconds) if about else Verdict("missed", "", 0.0)
    outcomes = [verdict.outcome for verdict in verdicts]
    found, broken = outcomes.count("found"), outcomes.count("broken")
    told = f"; at {broken} more the audit, or what it needs, ended with an error" if broken else ""
    print(f"{found} of {len(mutants)} mutants were found{told}")  # noqa: T201
    if whole.outcome != "missed":
        print(f"no score: without a fault it is {whole.outcome} too: {whole.check}")  # noqa: T201
        return 1
    if not mutants or not set(outcomes) <= ({"found", "missed", "broken"} if about else {"found"}):
        return 1
    return int(options.score and not write_score(options.list, mutants, verdicts))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--list", default="tests", choices=LISTS, help="which faults (default: those for the tests)")
    parser.add_argument("--only", default="", metavar="TEXT", help="mutants whose names contain it")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="mutants at once")
    parser.add_argument("--games", type=int, default=128, help="games of an audit, in each world")
    parser.add_argument(
        "--seconds", type=float, default=3600.0, help="of an audit at most; what is left counts as missed"
    )
    parser.add_argument("--score", action="store_true", help="keep the score where the audit's report looks for it")
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


def _become(mutant: Mutant, trees: "SimpleQueue[Path]", options: argparse.Namespace) -> Verdict:
    tree = trees.get()
    verdict = _verdict(mutant, tree, options)
    trees.put(tree)
    told = mutant.kind if LISTS[options.list] == HELD_OUT else mutant.name
    by = f" (by {verdict.check}, {verdict.seconds:.0f} s)" if verdict.check else ""
    print(f"{verdict.outcome:9} {told}{by}", flush=True)  # noqa: T201
    return verdict


def _verdict(mutant: Mutant, tree: Path, options: argparse.Namespace) -> Verdict:
    """Return what the tests, or the audit, say with the fault; of tests first that they pass without it."""
    mutated = mutant.planted(tree)
    if mutated is None:
        return Verdict("stale", "", 0.0)
    if mutant.tests and mutant.tests not in _SECONDS:
        started = time.monotonic()
        if _run(mutant.tests, tree, None) != 0:
            return Verdict("failing", "", 0.0)
        _SECONDS[mutant.tests] = time.monotonic() - started
    texts = {path: path.read_text() for path in mutated}
    for path, text in mutated.items():
        path.write_text(text)
    try:
        if not mutant.tests:
            return audited(tree, mutant.about, options.games, options.seconds)
        status = _run(mutant.tests, tree, _LEAST + _TIMES * _SECONDS[mutant.tests])
        return Verdict(_OUTCOMES.get(status, "stale"), "", 0.0)
    finally:
        for path, text in texts.items():
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
