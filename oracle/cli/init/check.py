"""What `perpetua init` does with a noisy count of its sides' points, or classes: it records it, and may stop there."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from msgspec import UNSET

from oracle.accounting.ledger import StartChecked
from oracle.cli.data_ledger import enter_start
from oracle.errors import PlanError, RefusedError
from oracle.planning.boxes.edges import counted
from oracle.planning.boxes.model import BoxModel
from oracle.planning.boxes.tight import plan_boxes
from oracle.planning.ensemble.model import EnsemblePlan
from oracle.planning.ensemble.tight import too_rare
from oracle.planning.plan import BoxPlan, CheckPlan, Plan
from oracle.predictors.base import phase_started
from oracle.state.starts import record_start, start_event, starts_path

__all__ = ["StartCheck"]

_SAFELY: Final = 0.9
"""Part of the share that was seen which a remedy counts on."""

_LEAST: Final = 0.01
"""Least share that more rows are recommended for."""

_POWER: Final = 1.8
"""Rows that are wanted fall about as this power of epsilon."""


@dataclass(frozen=True, slots=True)
class StartCheck:
    """The check of one `init`: of the plan of one shard, and the state folder that is to be made."""

    plan: Plan
    shards: int
    state: Path
    data_ledger: Path | None = None

    def confirm(self, shard: int, beyond: int | None) -> None:
        """Record what was released of a shard's rows; return if they suffice.

        Args:
            shard: Its number.
            beyond: By how many points the side that holds the least, or rows the rarest class, exceeds what it needs,
                with noise; None if the plan has no check.

        Raises:
            RefusedError: They do not, or the noise may hide that they do not.
        """
        event = start_event(self.plan, shard, beyond)
        if event is None:
            return
        if self.data_ledger is not None:
            enter_start(self.data_ledger, event, phase_started(self.plan, 1))
        record_start(self.state, event)
        if not event.passed:
            where = f"shard {shard}: " if self.shards > 1 else ""
            found, remedies = self._found(event)
            raise RefusedError(
                f"data: {where}no state was made: {found}. The rows have paid epsilon = {event.epsilon:.3g}, "
                f"delta = {event.delta:.2g} for this number, as {starts_path(self.state)} says; nothing else was "
                f"released. {remedies}".rstrip()
            )

    def _found(self, event: StartChecked) -> tuple[str, str]:
        """Return what was found, and what could be done about it."""
        plan = self.plan
        if isinstance(plan, EnsemblePlan):
            return too_rare(plan, event.beyond), ""
        if not isinstance(plan, BoxPlan) or plan.check is UNSET:
            return "too few rows", ""
        check = plan.check
        return (
            f"{counted(check, len(plan.sides), event.beyond)}, with noise; to be {1.0 - check.miss:.2%} sure it takes "
            f"{check.margin:,} more than are needed"
        ), "; ".join(self._remedies(plan, check, event.beyond))

    def _remedies(self, plan: BoxPlan, check: CheckPlan, beyond: int) -> Iterator[str]:
        """Yield what could be done and what it costs; all of it follows from the plan and what was released."""
        rows = self._more_rows(plan, check, beyond)
        if rows is None:
            yield "More rows do not help: too few rows are labelled 1, or their features follow one another"
        else:
            share, needed = rows
            what = f"Give more rows: examples = {needed:,}"
            yield what + (f" with share = {share:.2g}" if share else "") + f" instead of {self._whole(plan.declared):,}"
            ratio = needed / self._whole(plan.declared)
            also = f", share = {share:.2g}" if share else ""
            yield f"or about epsilon = {plan.epsilon * ratio ** (1.0 / _POWER):.2g}{also}, with the same rows"
            if plan.alpha * ratio < 0.5:  # noqa: PLR2004 -- what a model may declare
                yield f"or about alpha = {plan.alpha * ratio:.2g}{also}"
        if len(plan.sides) > 1:
            yield 'or leave out sides that the box does not need (sides = "lower", "upper" or "none")'
        if check.stripe:
            wanted = self._wanted(plan, slicing="sequential")
            if wanted:
                yield f'or slicing = "sequential", where no side can starve: examples = {wanted:,}'

    def _more_rows(self, plan: BoxPlan, check: CheckPlan, beyond: int) -> tuple[float | None, int] | None:
        """Return with which share how many rows would do; None where it cannot be said."""
        held = check.needed + beyond
        if not check.stripe:  # so many rows labelled 1 there are to S sides
            there = len(plan.sides) * check.needed + beyond
            ratio = (len(plan.sides) * check.needed + 2 * check.margin) / max(there, 1)
            return (None, self._whole(math.ceil(plan.declared * ratio / _SAFELY))) if there > check.margin else None
        share = _SAFELY * held / check.stripe
        if share < _LEAST:
            return None
        share = math.floor(share * 100.0) / 100.0
        wanted = self._wanted(plan, slicing="faces", share=share)
        return (share, wanted) if wanted else None

    def _wanted(
        self, plan: BoxPlan, *, slicing: Literal["faces", "sequential"], share: float | None = None
    ) -> int | None:
        """Return how many examples the same promises want for all shards together, None if any number is too few."""
        model = BoxModel(
            name=plan.name,
            predictor=plan.predictor,
            epsilon=plan.epsilon,
            examples=1,
            features=plan.features,
            delta=plan.delta,
            alpha=plan.alpha,
            beta=plan.beta,
            gamma=plan.gamma,
            slicing=slicing,
            trim=plan.phases[0].start.trim,
            share=share,
        )
        try:
            return self._whole(plan_boxes(model).declared)
        except PlanError:
            return None

    def _whole(self, examples: int) -> int:
        return self.shards * examples
