"""`perpetua hypothesis`: write what a predictor of numbers answers by, which its answers have made public."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oracle.cli.options import KeyFile
from oracle.cli.output import print_json
from oracle.cli.states import present, state_plan
from oracle.errors import InputError, RefusedError
from oracle.planning.bisection.model import BisectionPlan
from oracle.planning.distribution.model import DistributionPlan
from oracle.planning.plan import Plan
from oracle.planning.statistics.model import StatisticsPlan
from oracle.predictors.bisection.predictor import Bisection
from oracle.state.folder import FolderStore
from oracle.state.keys import read_key_file
from oracle.state.shards import refuse_sharded

if TYPE_CHECKING:
    from oracle.state.format import Snapshot

__all__ = ["run"]


def run(
    state: Annotated[
        Path, typer.Argument(metavar="STATE", help="The state folder of a bisection or a statistics model.")
    ],
    key: KeyFile = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Statistics: write the cells, or rows, to this new .csv or .parquet.")
    ] = None,
    sample: Annotated[
        int | None, typer.Option("--sample", min=1, help="Statistics: write so many rows, drawn by the shares.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of --sample: the same seed, the same rows.")] = 0,
) -> None:
    """Write what a bisection or a statistics model answers by, as of its newest snapshot.

    Of bisection: the vector w, one weight a feature, as JSON. Of
    statistics: the share of each cell of the table, to a file; with
    --sample, rows drawn by these shares, each number uniformly in its
    bin. Printed as JSON: how many answers were paid, and of a start that
    was uniform how far they have moved it (KL, in nats). Both are
    functions of what the answers have made public, so they cost the
    training rows nothing beyond the plan. They protect no query.
    """
    refuse_sharded(state)
    with FolderStore.open(state, read_key_file(key or state / "key")) as store:
        plan = state_plan(state)
        _check(plan, state, out, sample)
        snapshot = present(store.load_latest(plan.digest), state)
    if isinstance(plan, StatisticsPlan):
        from oracle.cli.hypothesis.cube import write_cube, write_sample
        from oracle.predictors.statistics.trainer import restore_hypothesis

        assert out is not None  # noqa: S101 -- `_check`
        shares = restore_hypothesis(plan, snapshot.arrays)
        if sample is None:
            write_cube(out, plan.attributes, shares)
        else:
            write_sample(out, plan.attributes, shares, sample, seed)
        _print_odometer(plan, snapshot)
        return
    assert isinstance(plan, BisectionPlan)  # noqa: S101 -- `_check`
    _print_weights(plan, snapshot)


def _check(plan: Plan, state: Path, out: Path | None, sample: int | None) -> None:
    """Refuse models that have nothing to show, and options that are not for them."""
    if not isinstance(plan, BisectionPlan | StatisticsPlan):
        asked = plan.released or isinstance(plan, DistributionPlan)
        why = "is not printed, but may be asked" if asked else "is never released"
        raise RefusedError(
            f"{state}: what predictor {plan.predictor} has learned {why}; this command is for bisection and statistics"
        )
    if isinstance(plan, StatisticsPlan):
        if out is None:
            raise InputError("--out", None, f"must name a file for the {plan.layout.size:,} cells, .csv or .parquet")
    elif out is not None or sample is not None:
        raise InputError("--out" if out is not None else "--sample", str(out or sample), "is for statistics")


def _print_odometer(plan: StatisticsPlan, snapshot: "Snapshot") -> None:
    """Print how far the hypothesis has moved: never further than the rows were from its start (Theorem 24c)."""
    moved = snapshot.arrays.get("moved")
    document = {"model": plan.name, "round": snapshot.round, "paid": snapshot.paid, "paid_at_most": plan.paid}
    print_json(document if not plan.complete or moved is None else {**document, "moved": round(float(moved[0]), 6)})


def _print_weights(plan: BisectionPlan, snapshot: "Snapshot") -> None:
    predictor = Bisection.restore(plan, snapshot.arrays)
    weights = dict(zip((feature.name for feature in plan.features), predictor.hypothesis().tolist(), strict=True))
    learned = min(snapshot.round, plan.phases[0].rounds)
    document = {"model": plan.name, "round": snapshot.round, "learned_from": learned, "weights": weights}
    print_json(document)
