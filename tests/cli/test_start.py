"""What starting a command costs."""

import subprocess
import sys

_HEAVY = {"pandas", "scipy.stats", "scipy.optimize", "matplotlib", "aiokafka", "uvicorn"}


def test_commands_load_what_they_need_when_they_need_it():
    """The command line itself loads no library that only some commands need: a daemon restarts in no time."""
    script = f"import sys, oracle.cli.main; print(*sorted({_HEAVY!r} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    assert found.stdout.split() == []
