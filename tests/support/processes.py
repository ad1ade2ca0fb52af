"""What can be asked of a process under test."""

import subprocess

import psutil


def stopped(process: subprocess.Popen[bytes]) -> bool:
    """Say whether a process waits for SIGCONT."""
    return psutil.Process(process.pid).status() == psutil.STATUS_STOPPED
