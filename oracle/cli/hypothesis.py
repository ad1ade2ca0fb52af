"""`perpetua hypothesis`: write the vector that a predictor of numbers answers by (online-to-batch conversion)."""

from pathlib import Path
from typing import Annotated

import typer

from oracle.cli.options import KeyFile
from oracle.cli.output import print_json
from oracle.cli.states import present, state_plan
from oracle.errors import RefusedError
from oracle.planning.bisection.model import BisectionPlan
from oracle.predictors.bisection.predictor import Bisection
from oracle.state.folder import FolderStore
from oracle.state.keys import read_key_file
from oracle.state.shards import refuse_sharded

__all__ = ["run"]


def run(
    state: Annotated[Path, typer.Argument(metavar="STATE", help="The state folder of a bisection model.")],
    key: KeyFile = None,
) -> None:
    """Print the vector w by which a bisection model answers, as of its newest snapshot: one weight a feature, as JSON.

    It is a function of the oracle's bits, so it costs the training rows nothing beyond the plan. It protects no query.
    """
    refuse_sharded(state)
    with FolderStore.open(state, read_key_file(key or state / "key")) as store:
        plan = state_plan(state)
        if not isinstance(plan, BisectionPlan):
            why = "is not printed, but may be asked at no cost" if plan.released else "is never released"
            raise RefusedError(
                f"{state}: what predictor {plan.predictor} has learned {why}; this command is for bisection"
            )
        snapshot = present(store.load_latest(plan.digest), state)
    predictor = Bisection.restore(plan, snapshot.arrays)
    weights = dict(zip((feature.name for feature in plan.features), predictor.hypothesis().tolist(), strict=True))
    learned = min(snapshot.round, plan.phases[0].rounds)
    document = {"model": plan.name, "round": snapshot.round, "learned_from": learned, "weights": weights}
    print_json(document)
