"""Documents that /status can give, for tests of the page that shows them."""

import math
from typing import Any

NOW = 1_795_000_000.0
"""The daemon's clock in all documents, in unix seconds."""

STATES = ("waiting", "restoring", "serving", "fenced", "failed", "stopped")
_SLOTS = 60


def shard(number: int, state: str = "serving", **changes: Any) -> dict[str, Any]:
    """Return one shard's part; `changes` go over what is here."""
    at_work = state == "serving"
    return {
        "shard": number,
        "state": state,
        "round": 1_204_511 + 977 * number,
        "phase": 2,
        "phases": 5,
        "phase_round": 4_511 + 977 * number % 15_000,
        "phase_rounds": 20_000,
        "rearms": number % 3,
        "paid": 0,
        "rested": 0,
        "rest_left": 0,
        "delta": 1e-12,
        "delta_spent": 6.25e-5 + 1e-7 * number,
        "delta_limit": 1.25e-4,
        "batches": 1_302 + number,
        "rejections": {"malformed": 3, "missing-feature": number} if number else {},
        "lag_records": 12 * number if at_work else None,
        "lag_seconds": 0.25 * number if at_work else None,
        "snapshot_at": NOW - 95.0 - 60 * number,
        "snapshot_bytes": 1_234_567 + 10_000 * number,
        "rate": 1_234.5 if at_work else 0.0,
        **changes,
    }


def error(seconds_ago: float, number: int | None, event: str, text: str) -> dict[str, Any]:
    """Return one of the last errors."""
    return {"at": NOW - seconds_ago, "shard": number, "event": event, "text": text}


def document(*shards: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return a whole document over these shards (one that serves, if none is given); `changes` go over what is here."""
    parts = list(shards) or [shard(0)]
    absent = [part["shard"] for part in parts if part["state"] != "serving"]
    rate = sum(part["rate"] for part in parts)
    wave = [rate * (1 + 0.2 * math.sin(slot / 5) + 0.06 * math.sin(slot * 1.7)) for slot in range(_SLOTS)]
    return {
        "version": "0.1.0",
        "model": "vfr",
        "profile": "tight",
        "predictor": "rectangles",
        "alpha": 0.1,
        "promise": {
            "bound": 0.0984,
            "beyond": "",
            "missed": 0.05,
            "kind": "estimate",
            "basis": "a side loses at most 0.9 of its stripe: the worst of the simulated adversaries took 0.40 to 0.67",
            "conditions": ["a box on these sides fits every label", "the training rows are independent draws"],
        },
        "proved": True,
        "protects_queries": True,
        "released": False,
        "now": NOW,
        "started": NOW - 187_400.0,
        "ready": not absent,
        "not_ready": [
            {"shard": number, "check": "restored", "text": f"shard {number} is not restored yet"} for number in absent
        ],
        "epsilon": 1.0,
        "declared": 60_000,
        "paid_limit": None,
        "settles": False,
        "rests": False,
        "schedule": [{"rounds": 20_000 * 2**phase, "delta": 1e-9 / 4**phase} for phase in range(5)],
        "delta_spent": sum(part["delta_spent"] for part in parts),
        "delta_limit": sum(part["delta_limit"] for part in parts),
        "shards": parts,
        "history": {
            "seconds": 5.0,
            "ends": NOW,
            "rates": wave,
            "lags": [None] * 6 + [max(0.0, 240 * math.sin(slot / 9) + 30) for slot in range(6, _SLOTS)],
        },
        "errors": [],
        **changes,
    }
