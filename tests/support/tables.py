"""Plans about small tables, answers made by hand, and a predictor that makes answers up, for what stands around one."""

import json
import zlib
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracle.planning.attributes import Attribute
from oracle.planning.distribution.model import DistributionPlan
from oracle.planning.model import Limits
from oracle.planning.plan import Phase, Plan
from oracle.planning.statistics.model import NoisePlan, SparseVectorPlan, StatisticsPlan, TablePlan
from oracle.predictors.base import NO_LABEL, Answers, PublicFacts, StateArrays
from oracle.runtime.shard import Shard
from oracle.state.format import Snapshot

ATTRIBUTES = (
    Attribute(name="carrier", categories=("AA", "UA", "é")),
    Attribute(name="hour", bounds=(0.0, 24.0), bins=24),
    Attribute(name="day", bounds=(15_706.0, 15_736.0), bins=6, type="date"),  # 2013-01-01 to 2013-01-31
    Attribute(name="dest", categories=(*(f"d{number}" for number in range(105)), "other")),
)


def _common(attributes: Sequence[Attribute], changes: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": "s",
        "profile": "tight",
        "features": (),
        "attributes": tuple(attributes),
        "epsilon": 1.0,
        "delta": 1e-6,
        "alpha": 0.02,
        "beta": 0.05,
        "gamma": 1.0,
        "examples": 1000,
        "declared": 1000,
        "questions": 1000,
        "paid": 20,
        "noise": NoisePlan(law="gumbel", slope=0.01, above=5, below=5),
        "limits": Limits(),
        "phases": (Phase(phase=1, rounds=2**49, delta=1e-6),),
        "memory_bytes": 2**20,
    } | changes


def statistics_plan(attributes: Sequence[Attribute] = ATTRIBUTES, **changes: Any) -> StatisticsPlan:
    """Return a plan of `statistics` whose sizes are made up."""
    return StatisticsPlan(
        predictor="statistics", gap=0.01, complete=False, first_margin=5, margin=15, **_common(attributes, changes)
    )


def sparse_plan(attributes: Sequence[Attribute] = ATTRIBUTES, **changes: Any) -> SparseVectorPlan:
    """Return a plan of `sparse-vector` whose sizes are made up."""
    return SparseVectorPlan(predictor="sparse-vector", **_common(attributes, changes))


_PAYING: Final = (
    Attribute(name="a", categories=("x", "y")),
    Attribute(name="b", bounds=(0.0, 8.0), bins=8),
)


def paying_plan(predictor: str, paid: int = 12) -> StatisticsPlan | SparseVectorPlan:
    """Return a plan in form only, under which some `questions` about `table_cells` are paid for: all of `paid`."""
    sizes: dict[str, Any] = {
        "name": "tiny",
        "alpha": 0.05,
        "examples": 2000,
        "declared": 2000,
        "paid": paid,
        "noise": NoisePlan(law="gumbel", slope=0.5, above=20, below=5),
    }
    if predictor == "sparse-vector":
        return sparse_plan(_PAYING, **sizes)
    plan = statistics_plan(_PAYING, **sizes, start=((0,), (1,)), start_slope=1.0)
    return msgspec.structs.replace(plan, first_margin=25, margin=60)


def table_cells(plan: TablePlan) -> NDArray[np.float64]:
    """Return training rows, float64[n, A]: the first attribute decides in which half of its cells the second lies."""
    generator = np.random.default_rng(1)
    cells = np.array([generator.integers(0, size, plan.declared) for size in plan.layout.shape]).T
    half = plan.layout.shape[1] // 2
    cells[:, 1] = cells[:, 1] % half + np.where(cells[:, 0] == 0, 0, half)
    return cells.astype(np.float64)


def questions(predictor: str, count: int, seed: int = 1) -> list[bytes]:
    """Return JSON questions about the table of `paying_plan`, of which a few come again."""
    generator = np.random.default_rng(seed)
    found = []
    for number in range(count):
        low, high = sorted(generator.choice(9, 2, replace=False).tolist())
        where = {"a": [str(generator.choice(["x", "y"]))], "b": [float(low), float(high)]}
        threshold = {"above": float(generator.integers(1, 10)) / 10} if predictor == "sparse-vector" else {}
        found.append(json.dumps({"id": f"q{number}", "where": where, **threshold}).encode())
    return found


def share_answers(
    values: Sequence[float],
    paid: Sequence[int] | None = None,
    verified: Sequence[bool] | None = None,
    labels: Sequence[int] | None = None,
    first_round: int = 0,
) -> Answers:
    """Return answers to questions about a table: free and verified where nothing else is said."""
    count = len(values)
    given = [NO_LABEL if np.isnan(value) else 0 for value in values] if labels is None else labels
    return Answers(
        labels=np.array(given, dtype=np.int8),
        first_round=first_round,
        phases=np.ones(count, dtype=np.int64),
        tag=np.zeros(2, dtype=np.uint64),
        events=[],
        values=np.array(values, dtype=np.float64),
        paid=np.array([0] * count if paid is None else paid, dtype=np.int64),
        verified=np.array([True] * count if verified is None else verified, dtype=np.bool_),
    )


def code_of(row: Sequence[float] | NDArray[np.float64]) -> int:
    """Return the number of 32 bits that a made-up answer to a row follows from."""
    return zlib.crc32(np.asarray(row, dtype=np.float64).tobytes())


def made_up_shard(plan: Plan) -> Shard:
    """Return a shard at its beginning, whose predictor makes answers up from the questions alone."""
    snapshot = Snapshot.first(plan.digest, {"counts": np.zeros(2, dtype=np.int64)})
    return Shard(plan, snapshot, restore=_MadeUp)


class _MadeUp:
    """Says of each row what `code_of` makes of it; every 16th is paid. Of a sparse vector every fifth is spent."""

    def __init__(self, plan: Plan, arrays: StateArrays) -> None:
        self._plan = plan
        self._sparse = isinstance(plan, SparseVectorPlan)
        self._round, self._paid = map(int, arrays["counts"])

    def answer(self, features: NDArray[np.float64], present: NDArray[np.bool_]) -> Answers:
        codes = np.array([code_of(row) for row in features], dtype=np.int64)
        paid = self._paid + np.cumsum(present & (codes % 16 == 0))
        labels, verified, values = np.zeros(len(codes), np.int8), codes % 3 > 0, codes / 2**32
        if self._sparse:
            labels, verified = (codes % 2).astype(np.int8), codes % 5 > 0
            values = np.where(codes % 4 == 1, values, np.nan)
        tag = np.zeros(2, dtype=np.uint64)
        for number, row in enumerate(features, self._round):
            tag ^= np.frombuffer(blake2b(b"%d" % number + row.tobytes(), digest_size=16).digest(), np.uint64)
        answers = Answers(
            labels=np.where(present, labels, NO_LABEL).astype(np.int8),
            first_round=self._round,
            phases=np.ones(len(codes), np.int64),
            tag=tag,
            events=[],
            values=np.where(present, values, np.nan),
            paid=paid,
            verified=verified,
            found=features[:, :-1] if isinstance(self._plan, DistributionPlan) else None,
        )
        self._round += len(codes)
        self._paid = int(paid[-1]) if len(codes) else self._paid
        return answers

    def settle(self) -> None:
        pass

    def export(self) -> StateArrays:
        return {"counts": np.array([self._round, self._paid])}

    def facts(self) -> PublicFacts:
        return PublicFacts(self._round, 1, self._round, self._plan.phases[0].rounds, 0)
