"""The JSON behind the status page."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from oracle.telemetry.health import NotReady
from oracle.telemetry.observers import Observers
from oracle.telemetry.records import ProcessTelemetry, ShardTelemetry, whole_seconds
from oracle.telemetry.trends import HISTORY_SECONDS, Trends

__all__ = ["status_json", "status_of"]


def status_of(observers: Observers, name: str) -> bytes:
    """Return the status of a model as JSON; where the process has many, with the list of them.

    Of one whose state was never opened there is no more than why.
    """
    one, now, models = observers.of(name), observers.now(), observers.models
    listed = [{"model": each, "ready": observers.is_ready(each)} for each in models.names] if models.are_many else []
    if one is not None:
        not_ready = observers.not_ready_of(name)
        return status_json(one.registry.telemetry, not_ready, one.health.trends, now, models=listed)
    told = {"version": models.version, "model": name, "now": now, "ready": False}
    return msgspec.json.encode({**told, "not_ready": observers.not_ready_of(name), "models": listed})


def status_json(
    telemetry: ProcessTelemetry,
    not_ready: Sequence[NotReady],
    trends: Trends,
    now: float,
    *,
    models: Sequence[Mapping[str, Any]] = (),
) -> bytes:
    """Return the status as JSON; `epsilon` is per record, in one shard only; the deltas are sums over our shards.

    `models` are those of the process, where these are many.
    """
    plan = telemetry.plan
    return msgspec.json.encode(
        {
            "version": telemetry.version,
            "model": telemetry.model,
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
            **({"models": models} if models else {}),
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
