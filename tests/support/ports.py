"""Ports for servers that tests start, and start again at the same one."""

import contextlib
import secrets
import socket
from pathlib import Path


def free_port() -> int:
    """Return a port of loopback that nobody listens on, and that no outgoing connection is given meanwhile."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    candidates = range(10_000, lowest) if lowest > 12_000 else range(61_000, 65_536)
    while True:
        port = secrets.choice(candidates)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
