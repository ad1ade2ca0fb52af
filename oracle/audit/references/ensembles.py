"""A plain re-implementation of ensembles, round by round, from PRIVACY.md, section 15; slow, and meant to be read.

It shares the numbers of purposes with what is audited, and nothing else: noise comes from the laws themselves,
teachers straight from scikit-learn, and a life is a list of rows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from oracle.accounting.ledger import LedgerEvent, PhaseEnded, PlanEnded, SharesReleased, SideRearmed
from oracle.audit.due.live import Life
from oracle.audit.references.keyed import Keyed, discrete_laplace, logistic
from oracle.mechanisms.addresses import Purpose
from oracle.planning.ensemble.model import MISSING, EnsemblePhase, EnsemblePlan
from oracle.predictors.base import phase_started

__all__ = ["Given", "Plain", "Row"]


class Row(NamedTuple):
    """A row, the class that it was given, and the teacher that it belongs to."""

    features: tuple[float, ...]
    label: int
    teacher: int


class Given(NamedTuple):
    """What a round was answered.

    Attributes:
        label: Number of the class; None where there was no query, or a rest.
        resting: Whether the round rests.
        paid: Paid questions of its query; private.
        phase: Whose round it is.
        life: Of which life: "first" of one that began with the phase, "again" of one that was armed within it, "before"
            of one that was armed in the phase before.
    """

    label: int | None
    resting: bool
    paid: int
    phase: int
    life: Life


@dataclass
class _Life:
    """What teachers of one fit answer.

    Attributes:
        number: Of the life, from 0.
        phase: Whose slope, zone and Stopper it has.
        rows: What its teachers are fitted to, in the order of numbers.
        begun: Its first round, of all rounds.
        level: Noisy threshold of its Stopper.
        paid: Paid queries so far.
        first: Whether its first round is yet to come, before which the Stopper is not asked.
    """

    number: int
    phase: EnsemblePhase
    rows: list[Row]
    begun: int
    level: int
    paid: int = 0
    first: bool = True
    teachers: list[Any] = field(default_factory=list)


class Plain:
    """One shard of an ensemble.

    Args:
        plan: The plan.
        secret: The genesis key.
        rows: float64[n, D], as many as the plan declares.
        labels: int[n], numbers of classes; -1 for a row that is not there.

    Attributes:
        events: What the ledger must say.
        round: Rounds so far.
    """

    def __init__(
        self, plan: EnsemblePlan, secret: bytes, rows: NDArray[np.float64], labels: NDArray[np.integer[Any]]
    ) -> None:
        self._plan = plan
        self._keyed = Keyed(secret)
        first = [
            Row(tuple(row), label, self._keyed.word(Purpose.SLICE, number) >> 64)
            for number, (row, label) in enumerate(zip(rows.tolist(), labels.tolist(), strict=True))
        ]
        first = [row._replace(teacher=row.teacher % plan.teachers) for row in first if row.label >= 0]
        self.events: list[LedgerEvent] = [phase_started(plan, 1)]
        self._shares = self._released_shares(first)
        classes = range(len(plan.classes))
        self._order = sorted(classes, key=lambda number: (self._shares[number], -number))
        self._odds = {asked: self._first_odds(asked) for asked in self._order[:-1]}
        self._block, self._counts = 0, [0] * len(plan.classes)
        self.round = self._phase_round = self._phase_rearms = 0
        self._slots: list[Row | None] = []
        self._closed: int | None = None
        self._resting = False
        self._lives: list[_Life] = []
        self._phase = 0
        self._enter_phase()
        self._arm(first)

    def _released_shares(self, rows: Sequence[Row]) -> Sequence[float]:
        plan = self._plan
        if plan.shares is not UNSET:
            return plan.shares
        counts = []
        for number in range(len(plan.classes)):
            noise = discrete_laplace(float(plan.share_slope), self._keyed.word(Purpose.THRESHOLD, number))  # type: ignore[arg-type]  # it is set
            counts.append(sum(row.label == number for row in rows) + noise)
        self.events.append(SharesReleased(round=0, counts=tuple(counts)))
        return [min(max(count / plan.declared, 0.0), 1.0) for count in counts]

    @property
    def drawn(self) -> list[tuple[int, int]]:
        """All words that were drawn, but coins."""
        return self._keyed.drawn

    def _enter_phase(self) -> None:
        self._phase += 1
        self._keyed = self._keyed.ratchet()
        self._phase_round = self._phase_rearms = 0

    @property
    def _sizes(self) -> EnsemblePhase:
        return self._plan.phases[self._phase - 1]

    @property
    def _life(self) -> _Life:
        return self._lives[-1]

    def _arm(self, rows: list[Row]) -> None:
        """Begin a life: its Stopper's threshold gets its noise, and its votes' noise bounds the thresholds."""
        stopper = self._sizes.stopper
        rho = discrete_laplace(stopper.epsilon, self._keyed.word(Purpose.THRESHOLD, self._phase_round))
        life = _Life(len(self._lives), self._sizes, rows, self.round, stopper.threshold + rho)
        life.teachers = _fitted(self._plan, rows, life.number)
        self._lives.append(life)
        self._resting = False
        self._odds = {asked: self._bounded(asked, odds) for asked, odds in self._odds.items()}

    @property
    def lives(self) -> int:
        """Lives so far."""
        return len(self._lives)

    @property
    def held(self) -> tuple[list[Row], list[Row]]:
        """Rows of the life that goes on, and those that were kept since its slots were closed, in their order."""
        return self._life.rows, [row for row in self._slots if row is not None]

    def answer(self, query: Sequence[float] | None) -> Given:
        """Answer a round: a query as its row, or None."""
        self._before_the_round()
        given = self._given(None, 0) if self._resting else self._asked(query)
        self._behind_the_round()
        return given

    def _before_the_round(self) -> None:
        """End a rest; ask the Stopper, whose halt ends the life, or where that is too soon makes it rest."""
        life = self._life
        over = self.round >= life.begun + life.phase.least_rounds
        if self._resting:
            if over:
                self._rearm()
            return
        if life.first:
            life.first = False
            return
        noise = discrete_laplace(life.phase.stopper.epsilon, self._keyed.word(Purpose.STOPPER, self._phase_round))
        if life.paid + noise >= life.level or life.paid >= life.phase.stopper.cap:
            if over:
                self._rearm()
            else:
                self._resting = True

    def _rearm(self) -> None:
        """Begin the next life within the phase, from the slots that are closed, else from all."""
        self._arm(self._closed_rows())
        self._life.first = False
        self._phase_rearms += 1
        self.events.append(SideRearmed(round=self.round, phase=self._phase, side=0))

    def _closed_rows(self) -> list[Row]:
        """Return the rows that the next life learns; what came since stays for the life behind it."""
        closed = len(self._slots) if self._closed is None else self._closed
        rows, self._slots, self._closed = self._slots[:closed], self._slots[closed:], None
        return [row for row in rows if row is not None]

    def _asked(self, query: Sequence[float] | None) -> Given:
        given = self._given(None, 0)
        if query is not None:
            label, paid = self._vote(self._keyed, query)
            given = self._given(label, paid)
            self._counts[label] += 1
            self._life.paid += paid > 0
        self._keep(query, given)
        return given

    def _given(self, label: int | None, paid: int) -> Given:
        return Given(label, self._resting, paid, self._phase, self.life)

    @property
    def life(self) -> Life:
        """How the life that goes on began, as `Given.life` has it."""
        if self._life.phase.phase < self._phase:
            return "before"
        return "first" if self._life.begun == self.round - self._phase_round else "again"

    @property
    def place(self) -> tuple[int, int]:
        """The phase, and the round of it, that come next."""
        return self._phase, self._phase_round

    def would_pay(self, query: Sequence[float]) -> bool:
        """Return whether a query would be paid for in the round that comes, if no life begins before it."""
        return self._vote(Keyed(self._keyed.secret), query)[1] > 0  # what is drawn is for nothing

    def _vote(self, keyed: Keyed, query: Sequence[float]) -> tuple[int, int]:
        """Ask about one class after the other; return the label, and how many questions were paid for."""
        plan, life = self._plan, self._life
        said = [teacher(query) for teacher in life.teachers]
        hashed = keyed.hash([number + 0.0 for number in query])
        paid = 0
        for place, asked in enumerate(self._order[:-1]):
            middle = math.floor(plan.teachers / (1.0 + math.exp(-self._odds[asked])))
            low = middle - life.phase.gap // 2
            word = keyed.word(Purpose.QUESTION, self._phase_round, place, hashed)
            noisy = said.count(asked) + logistic(life.phase.slope, word)
            paid += low <= noisy <= low + life.phase.gap
            if noisy > middle:
                return asked, paid
            if paid == plan.questions:
                break
        return self._order[-1], paid

    def _keep(self, query: Sequence[float] | None, given: Given) -> None:
        """Take the round's slot, if it has one: with the row and the label given, if the query was free."""
        coin = self._keyed.word(Purpose.COIN, self._phase_round) >> 64
        if Fraction(coin, 1 << 64) >= Fraction(self._sizes.keep) or len(self._slots) >= self._sizes.slots:
            return
        teacher = (self._keyed.word(Purpose.SLICE, self._phase_round) >> 64) % self._plan.teachers
        free = query is not None and given.label is not None and not given.paid
        self._slots.append(Row(tuple(query), given.label, teacher) if free else None)  # type: ignore[arg-type]  # as `free` says

    def _behind_the_round(self) -> None:
        """End what ends behind the round: a block, the slots of a life, a phase."""
        self.round += 1
        self._phase_round += 1
        self._block += 1
        left = self._sizes.rounds - self._phase_round
        if left == 0:
            self._end_phase()
            return
        if self._block == self._plan.control.block_rounds:
            self._end_block(self._phase_round)
        old = self.round >= self._life.begun + self._life.phase.least_rounds
        if left == self._sizes.lag and old:
            self._closed = len(self._slots)

    def _end_block(self, place: int) -> None:
        """Release the noisy number of answers of each class, and move the thresholds by it."""
        control = self._plan.control
        noisy = [
            count + discrete_laplace(control.epsilon, self._keyed.word(Purpose.CHOICE, place, number))
            for number, count in enumerate(self._counts)
        ]
        for asked, odds in self._odds.items():
            share = self._share(asked)
            beyond = (noisy[asked] - share * sum(noisy)) / (share * control.block_rounds)
            moved = control.gain * min(max(beyond, -1.0), 1.0) - control.leak * (odds - self._first_odds(asked))
            self._odds[asked] = self._bounded(asked, odds + moved)
        self._block, self._counts = 0, [0] * len(self._counts)

    def _share(self, asked: int) -> float:
        """Return pi_c, as thresholds go by it."""
        return min(max(self._shares[asked], 1.0 / self._plan.control.block_rounds), 0.5)

    def _first_odds(self, asked: int) -> float:
        """Return h_c: half of the log odds of pi_c."""
        share = self._share(asked)
        return math.log(share / (1.0 - share)) / 2.0

    def _bounded(self, asked: int, odds: float) -> float:
        """Return log odds at which the life's noise makes next to no query of a class whose votes are all or none."""
        plan = self._plan
        votes = self._life.phase.slope * plan.teachers
        low = min(math.log(1.0 / (plan.alpha * self._share(asked))) / votes, 0.5)
        reach = math.log((1.0 - low) / low)
        return min(max(odds, -reach), reach)

    def _end_phase(self) -> None:
        self.events.append(PhaseEnded(round=self.round, phase=self._phase, rearms=self._phase_rearms))
        if self._phase == len(self._plan.phases):
            self.events.append(PlanEnded(round=self.round))
            return
        if self._block:
            self._end_block(0)  # by the key of the phase that ends
        self._enter_phase()
        if self._closed is not None:
            self._arm(self._closed_rows())
        self._slots = self._slots[: self._sizes.slots]
        self.events.append(phase_started(self._plan, self._phase))


def _fitted(plan: EnsemblePlan, rows: Sequence[Row], life: int) -> list[Any]:
    """Return the teachers that have rows, as functions from a row to a class."""
    shares: dict[int, list[Row]] = {}
    for row in rows:
        shares.setdefault(row.teacher, []).append(row)
    return [_teacher(plan, mine, life + number) for number, mine in sorted(shares.items())]


def _teacher(plan: EnsemblePlan, rows: Sequence[Row], seed: int) -> Any:  # noqa: ANN401 -- a function
    labels = [row.label for row in rows]
    if len(set(labels)) == 1:
        return lambda _query: labels[0]
    module, _, name = plan.learner.rpartition(".")
    learner = getattr(import_module(module), name)(**plan.parameters, random_state=seed)
    learner.fit(np.array([_coded(plan, row.features) for row in rows]), np.array(labels))
    said: dict[tuple[float, ...], int] = {}

    def vote(query: Sequence[float]) -> int:
        coded = tuple(_coded(plan, query))
        if coded not in said:
            said[coded] = int(learner.predict(np.array([coded]))[0])
        return said[coded]

    return vote


def _coded(plan: EnsemblePlan, row: Sequence[float]) -> list[float]:
    """Return numbers, then which are missing, then for each text its category, "other" or "missing" as a 1."""
    numbers = [value for value, feature in zip(row, plan.features, strict=True) if not feature.categories]
    coded = [0.0 if value == MISSING else value for value in numbers] + [float(value == MISSING) for value in numbers]
    for value, feature in zip(row, plan.features, strict=True):
        if feature.categories:
            place = len(feature.categories) + 1 if value == MISSING else int(value)
            coded += [float(number == place) for number in range(len(feature.categories) + 2)]
    return coded
