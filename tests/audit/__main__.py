"""Plant every bug and print which part of the audit finds it; exit 1 if one is not found."""

import sys
import time

from oracle.audit.findings import Finding
from tests.audit.planted.catchers import CATCHERS, catch, caught


def main() -> int:
    """Run all of them."""
    missed = 0
    for mutant, catchers in CATCHERS.items():
        for catcher in catchers:
            started = time.process_time()
            found = catch(mutant, catcher)
            missed += not caught(found)
            verdict = "found" if caught(found) else "NOT FOUND"
            by = f"{catcher.kind}: {catcher.name or found.target} ({catcher.target})"
            seen = f"claimed {found.epsilon:g}, proved {found.lowest:.2f}" if isinstance(found, Finding) else found.says
            took = time.process_time() - started
            sys.stdout.write(f"{mutant:36} {verdict:10} {by}: {seen} [{took:.1f} s]\n")
            sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
