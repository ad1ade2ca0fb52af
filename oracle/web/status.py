"""The JSON behind the status page."""

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from oracle.telemetry.health import NotReady
from oracle.telemetry.records import ProcessTelemetry, ShardTelemetry, whole_seconds
from oracle.telemetry.trends import HISTORY_SECONDS, Trends

__all__ = ["status_json"]


def status_json(telemetry: ProcessTelemetry, not_ready: Sequence[NotReady], trends: Trends, now: float) -> bytes:
    """Return the status as JSON; `epsilon` is per record, in one shard only; the deltas are sums over our shards."""
    plan = telemetry.plan
    return msgspec.json.encode(
        {
            "version": telemetry.version,
            "model": plan.name,
            "profile": plan.profile,
            "predictor": plan.predictor,
            "alpha": plan.alpha,
            "promise": telemetry.promise,
            "proved": not plan.nominal,
            "protects_queries": plan.protects_queries,
            "released": plan.released,
            "sums_delta": plan.sums_delta,
            "now": now,
            "started": telemetry.started,
            "ready": not not_ready,
            "not_ready": not_ready,
            "epsilon": plan.epsilon,
            "declared": plan.declared,
            "paid_limit": plan.paid_limit,
            "settles": plan.settles,
            "rests": plan.rests,
            "schedule": [{"rounds": phase.rounds, "delta": phase.delta} for phase in plan.phases],
            "delta_spent": math.fsum(record.delta_spent for record in telemetry.shards),
            "delta_limit": math.fsum(record.delta_limit for record in telemetry.shards),
            "shards": [_shard(record, trends.rate(record.shard)) for record in telemetry.shards],
            "history": {
                "seconds": HISTORY_SECONDS,
                "ends": whole_seconds(trends.ends),
                "rates": trends.rates,
                "lags": trends.lags,
            },
            "errors": telemetry.incidents,
        }
    )


def _shard(record: ShardTelemetry, rate: float) -> dict[str, Any]:
    return {
        "shard": record.shard,
        "state": record.state,
        "round": record.round,
        "phase": record.phase,
        "phases": record.phases,
        "phase_round": record.phase_round,
        "phase_rounds": record.phase_rounds,
        "rearms": record.rearms,
        "paid": record.paid,
        "rested": record.rested,
        "rest_left": record.rest_left,
        "delta": record.delta,
        "delta_spent": record.delta_spent,
        "delta_limit": record.delta_limit,
        "batches": record.batches,
        "rejections": {reason.value: count for reason, count in record.rejections.items() if count},
        "lag_records": None if record.lag is None else record.lag.records,
        "lag_seconds": None if record.lag is None else record.lag.seconds,
        "snapshot_at": record.snapshot_at,
        "snapshot_bytes": record.snapshot_bytes,
        "rate": rate,
    }
