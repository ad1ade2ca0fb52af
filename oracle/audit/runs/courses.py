"""Queries that have an ensemble's lives begin with each phase, within each and go on in the next, as runs need it.

Whether a query is paid for follows from votes, which an auditor knows, and from noise, which it works out.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from oracle.audit.due.live import Life
from oracle.audit.references.ensembles import Given, Plain
from oracle.planning.ensemble.model import EnsemblePhase, EnsemblePlan

__all__ = ["Course", "lives_of", "missing_lives"]

_TRIES: Final = 20
_ENOUGH: Final = 4
"""Rounds of a life in which a restart is, and queries before and behind it."""

Query = tuple[float, ...]


class Course:
    """What is asked in a run, so that lives of one kind or the other come.

    Args:
        plan: The plan.
        plain: What answers.
        goes_on: Whether the last life of each phase is to go on in the next; else another one begins with that.

    Attributes:
        restarts: Messages behind which a restart finds a life, or a phase, that has answered since it began.
    """

    def __init__(self, plan: EnsemblePlan, plain: Plain, *, goes_on: bool) -> None:
        self._plan, self._plain, self._goes_on = plan, plain, goes_on
        self._rounds, self._paid = Counter[tuple[int, Life]](), Counter[tuple[int, Life]]()
        self._lives, self._armed, self._rested, self._messages = plain.lives, 0, False, 0
        self._where: tuple[int, int] = (0, 0)
        self.restarts: set[int] = set()

    def instead(self, query: Query, another: Callable[[], Query]) -> Query:
        """Return a query that is paid for, or one that is not, as the run needs it; or that one.

        Args:
            query: What would be asked.
            another: Makes others.
        """
        paid = self._paying()
        tried = (query, *(another() for _ in range(_TRIES)))
        return next((one for one in tried if self._plain.would_pay(one) == paid), query)

    def _paying(self) -> bool:
        """Return whether a query should be paid for."""
        (number, at), life = self._plain.place, self._plain.life
        phase = self._plan.phases[number - 1]
        if not self._paid[number, life]:
            return True
        left = phase.rounds - at
        if not self._goes_on:
            return not self._rounds[number, "again"] and left > phase.lag + phase.least_rounds
        if number == 1 and not self._rested:
            return self._rounds[1, "first"] >= _ENOUGH
        window = phase.lag + phase.least_rounds - 1 if number < len(self._plan.phases) else phase.rounds
        return left <= window and (self._armed < number)

    def took(self, given: Given | None) -> None:
        """Note what a message was answered; None of one that took no round."""
        self._messages += 1
        if given is None:
            return
        if not given.resting:
            self._rounds[given.phase, given.life] += 1
            self._paid[given.phase, given.life] += given.paid > 0
        self._rested |= given.resting
        now = (given.phase, self._plain.lives)
        if now != self._where:
            self.restarts.add(self._messages + 1)
            self._where = now
        self._note_armed(given)

    def _note_armed(self, given: Given) -> None:
        """Remember the last phase in which a life began late enough to go on in the next."""
        if self._plain.lives > self._lives:
            self._lives = self._plain.lives
            number, at = self._plain.place
            phase = self._plan.phases[number - 1]
            if number == given.phase and (_late(phase, at) or number == len(self._plan.phases)):
                self._armed = number

    @property
    def complete(self) -> bool:
        """Whether lives of all the phases came, each with something paid, and went on behind a restart."""
        other: Life = "before" if self._goes_on else "first"
        wanted: list[tuple[int, Life]] = [(1, "first")]
        for phase in self._plan.phases:
            wanted += [(phase.phase, "again"), *([(phase.phase, other)] if phase.phase > 1 else [])]
        return all(self._rounds[one] >= _ENOUGH and self._paid[one] for one in wanted)


def _late(phase: EnsemblePhase, at: int) -> bool:
    return at > phase.rounds - phase.lag - phase.least_rounds


def lives_of(given: Iterable[Given | None]) -> set[tuple[int, Life]]:
    """Return in which phases lives of which kind were asked."""
    return {(one.phase, one.life) for one in given if one is not None and not one.resting}


def missing_lives(plan: EnsemblePlan, lives: set[tuple[int, Life]]) -> str | None:
    """Return which lives should have answered in some run and did not, if there are any."""
    kinds: tuple[Life, ...] = ("first", "again", "before")
    due = [(phase.phase, life) for phase in plan.phases for life in kinds if (phase.phase, life) != (1, "before")]
    names = {
        "first": "no life begins with it",
        "again": "no life is armed within it",
        "before": "no life of the phase before goes on",
    }
    return next((f"phase {number}: {names[life]}" for number, life in due if (number, life) not in lives), None)
