"""The linear rule of all peers in Python, and what the benchmark tells them."""

import os
from typing import Any

SERVERS, QUERIES, ANSWERS = os.environ["SERVERS"], os.environ["QUERIES"], os.environ["ANSWERS"]
GROUP, FOLDER, SESSION_MS = os.environ["GROUP"], os.environ["FOLDER"], int(os.environ["SESSION_MS"])


def answer(query: dict[str, Any]) -> dict[str, Any]:
    """Return what a daemon would write."""
    label = int(sum(0.5 * value for value in query["x"]) > 0.5)
    return {"id": query["id"], "label": label, "model": "box", "round": 123456, "phase": 1}
