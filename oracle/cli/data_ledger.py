"""The data set that a model names: what its rows have paid for all models, kept in a ledger beside it.

A state is entered there before it is made, under a name of its own (`use`) that stands in its folder meanwhile: so the
same `init` again after a crash is entered once, and no state is made that is not entered.

What reads the ledger raises `StateError` where it is not one that this Perpetua has written; what enters something
raises `InputError`, and enters nothing, where that would pass the budget, and `StorageError` where it cannot write.
"""

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from oracle import durable
from oracle.accounting.budget import check_budget
from oracle.accounting.ledger import DataUse, LedgerEvent, PhaseStarted, ScoreReleased, StartChecked
from oracle.errors import InputError, StateError
from oracle.planning.model import Model
from oracle.planning.plan import Plan
from oracle.predictors.base import phase_started
from oracle.state.event_lines import read_events, record_event
from oracle.state.files import write_exclusive

__all__ = ["Uses", "data_ledger", "enter", "enter_score", "enter_start", "read_ledger"]

_KINDS = (PhaseStarted, StartChecked, ScoreReleased)
"""What the rows of a data set pay for: states, checks before these, and scores."""

_NOUN = "first phase of a state, checked start or released score"
_USE_BYTES = 16


def data_ledger(model: Model, model_file: Path, rows: Path) -> Path | None:
    """Return where the states of a model's data set are entered; None where it names no data set.

    Raises:
        InputError: The rows come from standard input, and no ledger is named; or its folder is not there.
    """
    if model.data is None:
        return None
    if model.data_ledger is not None:
        named = model_file.resolve().parent / model.data_ledger
        if not named.parent.is_dir():
            raise InputError("model.data_ledger", model.data_ledger, f"must be in an existing folder: {named.parent}")
        return named
    if str(rows) == "-":
        bound = "must name a file: the rows come from standard input, so there is no place beside them"
        raise InputError("model.data_ledger", None, bound)
    return rows.resolve().parent / f"{model.data}.budget.jsonl"


def enter(ledger: Path, event: PhaseStarted) -> None:
    """Enter what a state, or one more run of it, costs a row, durably, unless it is entered already."""
    if event not in read_ledger(ledger):
        record_event(ledger, _KINDS, lambda _number: _checked(ledger, event), _NOUN, "made")


def enter_start(ledger: Path, event: StartChecked, state: PhaseStarted) -> None:
    """Enter what a check before a state has released, durably, before anything of it is shown.

    The first event of the state that is to follow must have room too: else of several that are made at the same time
    each would enter its check, and all would then be in each other's way.
    """

    def entered(_number: int) -> StartChecked | PhaseStarted | ScoreReleased:
        _checked(ledger, state)
        return _checked(ledger, event)

    record_event(ledger, _KINDS, entered, _NOUN, "shown")


def enter_score(ledger: Path, event: ScoreReleased, most: tuple[float, float]) -> ScoreReleased:
    """Enter a score that is to be shown, durably; `most` is the epsilon and delta that a row of the data may pay."""
    record_event(ledger, _KINDS, lambda _number: _checked(ledger, event, most), _NOUN, "released")
    return event


def read_ledger(ledger: Path) -> Sequence[LedgerEvent]:
    """Return all that is entered; nothing where there is no file yet."""
    return read_events(ledger, _KINDS, _NOUN)


def _checked(
    ledger: Path, event: PhaseStarted | StartChecked | ScoreReleased, most: tuple[float, float] = (math.inf, math.inf)
) -> PhaseStarted | StartChecked | ScoreReleased:
    check_budget([one for one in read_ledger(ledger) if one != event], event, most)
    return event


@dataclass(frozen=True, slots=True)
class Uses:
    """Where the states of a data set are entered.

    Attributes:
        ledger: The data set's ledger; None where the model names no data set.
    """

    ledger: Path | None
    state: Path

    def named(self, plan: Plan, model: Model) -> Plan:
        """Return the plan with its data set; refuse one that passes the budget, before any work."""
        if self.ledger is None or model.data is None:
            return plan
        unset = msgspec.UNSET
        use = DataUse(
            model.data,
            model.name,
            self._unfinished() or secrets.token_hex(_USE_BYTES),
            unset if model.data_epsilon is None else model.data_epsilon,
            unset if model.data_delta is None else model.data_delta,
        )
        plan = msgspec.structs.replace(plan, data=use)
        _checked(self.ledger, phase_started(plan, 1))
        return plan

    def enter(self, plan: Plan) -> None:
        """Enter a state that is to be made now, durably, unless it is entered already."""
        event = phase_started(plan, 1)
        if self.ledger is None or not isinstance(event.data, DataUse):
            return
        if self._unfinished() is None:
            write_exclusive(self._marker, event.data.use.encode())
        enter(self.ledger, event)

    def made(self) -> None:
        """Say that the state is made: another one in its place would be a use of its own."""
        if self.ledger is not None:
            durable.remove(self._marker)

    @property
    def _marker(self) -> Path:
        return self.state / "unfinished-use"

    def _unfinished(self) -> str | None:
        """Return the use of an `init` that was cut off here."""
        try:
            use = durable.read(self._marker).decode(errors="replace")
        except (FileNotFoundError, NotADirectoryError):
            return None
        if len(use) != 2 * _USE_BYTES or not use.isalnum():
            raise StateError(f"{self._marker}: the file is damaged")
        return use
