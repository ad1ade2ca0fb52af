"""What can be asked of a process under test."""

import signal
import subprocess
from pathlib import Path

import psutil


def stopped(process: subprocess.Popen[bytes]) -> bool:
    """Say whether a process waits for SIGCONT."""
    return psutil.Process(process.pid).status() == psutil.STATUS_STOPPED


def handles_stop(pid: int) -> bool:
    """Say whether a process has a handler for SIGTERM by now; one that is gone has none."""
    try:
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return False
    caught = next((line.split()[1] for line in status if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)
