"""What plain re-implementations of predictors without armed sides have in common: rounds, phases, the running tag."""

from oracle.accounting.ledger import LedgerEvent, PhaseEnded, PhaseStarted, PlanEnded
from oracle.audit.references.keyed import Keyed
from oracle.audit.references.values import Row, numbers_of
from oracle.planning.bisection.model import BisectionPlan
from oracle.planning.classical.model import ClassicalPlan

__all__ = ["Phased"]


class Phased:
    """A predictor without armed sides.

    Args:
        plan: The plan.
        secret: The genesis key.

    Attributes:
        events: What the ledger must say.
        round: Rounds so far.
        tag: The running tag, 128 bits.
        margin: None: no points are counted.
    """

    margin: int | None = None

    def __init__(self, plan: ClassicalPlan | BisectionPlan, secret: bytes) -> None:
        self._phases = plan.phases
        self._features = plan.features
        self._keyed = Keyed(secret)
        self.events: list[LedgerEvent] = []
        self.round = self.tag = self._phase = self._phase_round = 0

    @property
    def drawn(self) -> list[tuple[int, int]]:
        """All words that were drawn."""
        return self._keyed.drawn

    def _begin(self, started: PhaseStarted) -> None:
        """Begin a phase, with a key of its own."""
        self._keyed = self._keyed.ratchet()
        self._phase += 1
        self._phase_round = 0
        self.events.append(started)

    def _took(self, hashed: int | None) -> bool:
        """Count a round; return whether its phase is over."""
        self.tag ^= self._keyed.tag(self._phase_round, hashed)
        self.round += 1
        self._phase_round += 1
        over = self._phase_round == self._phases[self._phase - 1].rounds
        if over:
            self.events.append(PhaseEnded(round=self.round, phase=self._phase, rearms=0))
            if self._phase == len(self._phases):
                self.events.append(PlanEnded(round=self.round))
        return over

    def _hash(self, query: Row | None) -> int | None:
        """Return a query's keyed hash."""
        return None if query is None else self._keyed.hash(numbers_of(self._features, query))
