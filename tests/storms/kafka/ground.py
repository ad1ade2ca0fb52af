"""A model of several shards with many short phases, its endless log of queries, and what one run in memory answers."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from connectors.base import ARROW_STREAM, JSON, Delivery
from oracle.planning.plan import BoxPlan, Plan
from oracle.planning.questions import QuestionPlan
from oracle.runtime.shard import Shard
from tests.predictors.plans import (
    feature,
    tiny_bisection_plan,
    tiny_classical_plan,
    tiny_distribution_plan,
    tiny_ensemble_plan,
    tiny_plan,
    tiny_sparse_plan,
    tiny_statistics_plan,
    tiny_stumps_plan,
)
from tests.predictors.tables import drawn_message
from tests.support.sharded import shard_snapshot
from tests.support.shards import arrow_body, process

PARTITIONS: Final = 4

_PHASES: Final = 128
_PHASE_ROUNDS: Final = 150
_BATCH: Final = 100


@dataclass(frozen=True, slots=True)
class Query:
    """One message of the log.

    Attributes:
        key: Its number in its partition, as text: every message has one of its own.
        body: Its bytes; None for a tombstone.
        content_type: Of the body.
        rounds: How many rounds it takes.
    """

    key: bytes
    body: bytes | None
    content_type: str
    rounds: int


@dataclass(frozen=True, slots=True)
class Expected:
    """What one uninterrupted run makes of a partition.

    Attributes:
        bodies: Of the answers, in order.
        ledger: Events of phases and re-arms.
        phases: How many phases ended.
    """

    bodies: list[bytes]
    ledger: list[bytes]
    phases: int


@cache
def chaos_plan(predictor: str = "rectangles") -> Plan:  # noqa: PLR0911 -- one for each kind
    """Return a plan in form only: 128 phases of 150 rounds, some with a re-arm; or as many rounds of another kind."""
    features, rounds = [feature("a"), feature("b")], _PHASES * _PHASE_ROUNDS
    points = (12, 15, 10, 13) * (_PHASES // 4)
    match predictor:
        case "bisection":
            return tiny_bisection_plan(rounds // 2, rounds - rounds // 2)
        case "classical":
            return tiny_classical_plan(features, rounds=rounds)
        case "statistics":
            return tiny_statistics_plan(rounds, paid=100, epsilon=8.0, margins=(5, 40))
        case "distribution":
            return tiny_distribution_plan(rounds, alpha=0.02)
        case "ensemble":
            return tiny_ensemble_plan(features, rounds=(_PHASE_ROUNDS,) * _PHASES, threshold=6, least_rounds=20)
        case "sparse-vector":
            return tiny_sparse_plan(rounds, paid=400, epsilon=8.0)
        case "stumps":
            plan: BoxPlan = tiny_stumps_plan(features, points=points)
        case _:
            plan = tiny_plan(features, points=points)
    rearmed = plan.phases[0].rearmed
    phases = (msgspec.structs.replace(phase, rounds=_PHASE_ROUNDS, rearmed=rearmed) for phase in plan.phases)
    return msgspec.structs.replace(plan, phases=tuple(phases))


def queries(seed: int, partition: int, predictor: str = "rectangles") -> Iterator[Query]:
    """Yield a partition's messages in order, for ever: queries, with Arrow messages, tombstones and rejects."""
    rng = random.Random(f"{seed} {partition}")  # noqa: S311  # features of queries, not noise
    plan, number = chaos_plan(predictor), 0
    while True:
        yield (
            _question(rng, plan, partition, number)
            if isinstance(plan, QuestionPlan)
            else _query(rng, partition, number)
        )
        number += 1


def _question(rng: random.Random, plan: QuestionPlan, partition: int, number: int) -> Query:
    """Return a public question, a tombstone or a reject; all of them are JSON."""
    message = drawn_message(plan, np.random.default_rng(rng.getrandbits(64)), f"{partition}-{number}")
    kind = rng.random()
    body = None if kind < 0.05 else b'{"id":"bad","x":[1]}' if kind < 0.10 else msgspec.json.encode(message)
    return Query(b"%d" % number, body, JSON, 0 if 0.05 <= kind < 0.10 else 1)


def _query(rng: random.Random, partition: int, number: int) -> Query:
    key = b"%d" % number
    kind = rng.random()
    if kind < 0.05:
        return Query(key, None, JSON, 1)
    if kind < 0.10:
        return Query(key, b'{"id":"bad","x":[1]}', JSON, 0)
    if kind < 0.15:
        rows = rng.randrange(1, 8)
        columns = {name: [rng.uniform(-0.1, 1.1) for _ in range(rows)] for name in ("a", "b")}
        ids = [f"{partition}-{number}-{row}" for row in range(rows)]
        return Query(key, arrow_body(pa.table({"id": ids, **columns})), ARROW_STREAM, rows)
    point = [rng.uniform(-0.1, 1.1), rng.uniform(-0.1, 1.1)]
    return Query(key, msgspec.json.encode({"id": f"{partition}-{number}", "x": point}), JSON, 1)


def expected(seed: int, partition: int, count: int, predictor: str = "rectangles") -> Expected:
    """Answer a partition's first messages in memory, in one run, from the first snapshot."""
    plan = chaos_plan(predictor)
    shard = Shard(plan, shard_snapshot(plan, partition))
    log = [query for query, _ in zip(queries(seed, partition, predictor), range(count), strict=False)]
    deliveries = [Delivery(n, query.body, query.content_type, (), query.key) for n, query in enumerate(log, 1)]
    result = Expected([], [], 0)
    for start in range(0, count, _BATCH):
        outcome = process(shard, deliveries[start : start + _BATCH])
        assert len(outcome.commit.replies) == len(deliveries[start : start + _BATCH])
        result.bodies.extend(reply.body for reply in outcome.commit.replies.rows())
        result.ledger.extend(outcome.commit.ledger)
        shard.settle()
    return Expected(result.bodies, result.ledger, shard.facts().phase - 1)
