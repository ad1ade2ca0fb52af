#!/usr/bin/env python3
"""Asks the daemon in this container whether it lives or is ready; status 0 if so. For images without curl.

    python3 -I -S probe.py livez|readyz

Port and token file are those of the daemon's own environment: PERPETUA_WEB__PORT (9464 if it is not set) and
PERPETUA_WEB__TOKEN_FILE. What /readyz says is public and is printed.
"""

import http.client
import os
import sys
from pathlib import Path

SECONDS = 4.0


def main() -> int:
    """Return 0 if the daemon answers 200, 1 if it answers anything else or nothing, 2 if asked wrongly."""
    if sys.argv[1:] not in (["livez"], ["readyz"]):
        sys.stderr.write("usage: probe.py livez|readyz\n")
        return 2
    headers = {}
    try:
        token_file = os.environ.get("PERPETUA_WEB__TOKEN_FILE")
        if token_file and sys.argv[1] != "livez":
            headers["Authorization"] = f"Bearer {Path(token_file).read_text(encoding='ascii').strip()}"
        port = int(os.environ.get("PERPETUA_WEB__PORT", "9464"))
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        connection.request("GET", f"/{sys.argv[1]}", headers=headers)
        answer = connection.getresponse()
        body = answer.read(4096).decode("utf-8", "replace")
    except (OSError, ValueError, http.client.HTTPException) as exc:
        sys.stderr.write(f"no answer: {type(exc).__name__}\n")
        return 1
    sys.stdout.write(f"{answer.status} {body}\n")
    return 0 if answer.status == http.client.OK else 1


if __name__ == "__main__":
    sys.exit(main())
