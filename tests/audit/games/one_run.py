"""One run with many canaries beside games: jax-privacy's audit and ours, on the same predictor.

Each canary is a row of its own cell of a table of which `statistics` releases noisy counts, if its coin says so; its
score is that count. jax-privacy works out a lower bound by Steinke, Nasr and Jagielski (2023, arXiv 2305.08846), and
`oracle.audit.attacks.coins` another; the games are those of "reader of marginals", with a plan of the same noise. It is
needed for nothing else, and has a virtual environment of its own:

    python -m venv build/audit/peers && build/audit/peers/bin/pip install jax-privacy==2.0.0
    python -m tests.audit.games.one_run build/audit/peers/bin/python
"""

import json
import subprocess
import sys
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracle.accounting.ledger import LedgerEvent, MarginalsReleased
from oracle.audit.attacks.coins import judge
from oracle.audit.games.cells import Cell, arms_of
from oracle.audit.games.sequence import play_out
from oracle.audit.games.tables import marginal_plan
from oracle.audit.games.wealth import Wealth
from oracle.audit.randomness import Draws, Randomness
from oracle.audit.runs.served import Served
from oracle.planning.attributes import Attribute
from oracle.planning.statistics.model import StatisticsModel, StatisticsPlan
from oracle.planning.statistics.tight import plan_statistics
from oracle.predictors.kinds import new_trainer

__all__ = ["canaries", "main"]

Floats = NDArray[np.float64]

_SEED: Final = bytes(range(16))
_CANARIES: Final = 1_000
_GAMES: Final = 6_000
_MISS: Final = 1e-3
_DELTA: Final = 0.01
_PEER: Final = """
import json, sys
from jax_privacy.auditing import CanaryScoreAuditor
given = json.load(sys.stdin)
audit = CanaryScoreAuditor(given["there"], given["not"])
print(json.dumps([audit.epsilon_one_run(given["miss"], given["delta"]), audit.epsilon_one_run(given["miss"], 1e-9)]))
"""


def _plan(epsilon: float) -> StatisticsPlan:
    model = StatisticsModel(
        name="audited", predictor="statistics", epsilon=epsilon, delta=_DELTA, alpha=0.3, beta=0.5, examples=_CANARIES,
        rounds=100, paid=2, attributes=(Attribute(name="a", categories=tuple(map(str, range(_CANARIES + 1)))),),
    )  # fmt: skip
    return plan_statistics(model, lambda _: None)


def canaries(plan: StatisticsPlan) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the score of each canary, and whether it was there; other rows are in a cell of their own."""
    randomness = Randomness(_SEED, "one run")
    there = Draws(randomness, 0).uniform(_CANARIES) < 0.5
    cells = np.append(np.flatnonzero(there), np.full(plan.declared - int(there.sum()), _CANARIES))
    trainer = new_trainer(plan, randomness.secret(1))
    trainer.add(cells.astype(np.float64)[:, None], np.ones(len(cells), dtype=np.bool_))
    served = Served(plan, trainer.finish())
    served.send([json.dumps({"where": {"a": ["0"]}}).encode()])
    events = [msgspec.json.decode(line, type=LedgerEvent) for line in served.ledger]
    counts = next(event.counts for event in events if isinstance(event, MarginalsReleased))
    return np.array(counts[0][:_CANARIES], dtype=np.float64), there


def main(python: str) -> int:
    """Print a line for each claim."""
    for epsilon in (1.0, 2.0, 4.0):
        plan = _plan(epsilon)
        scores, there = canaries(plan)
        given = {"there": scores[there].tolist(), "not": scores[~there].tolist(), "miss": _MISS, "delta": _DELTA}
        peer = subprocess.run(
            [python, "-c", _PEER], input=json.dumps(given), stdout=subprocess.PIPE, text=True, check=True
        )
        ours = [judge(scores - 0.5, there, delta, _MISS).lowest for delta in (_DELTA, 1e-9)]
        cell = Cell("predictor", "statistics", "reader of marginals", epsilon, _DELTA, _GAMES)
        wealth = Wealth(epsilon, _DELTA, _MISS)
        played = play_out(arms_of(cell, _SEED), wealth, _GAMES)
        theirs = json.loads(peer.stdout)
        sys.stdout.write(
            f"claimed {epsilon:g}: noise of {plan.start_slope:.3f} nats a row (games: "
            f"{marginal_plan(epsilon).start_slope:.3f}); {_CANARIES:,} canaries, one run, jax-privacy {theirs[0]:.2f} "
            f"(delta 1e-9: {theirs[1]:.2f}), `coins` {ours[0]:.2f} ({ours[1]:.2f}); "
            f"{2 * played:,} games {wealth.lowest:.2f}\n"
        )
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
