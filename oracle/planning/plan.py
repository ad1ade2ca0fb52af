"""`Plan`: every number that a run is bound to, fixed and printed before any data is read.

A plan is public. Its canonical JSON is what the snapshots are bound to (`digest`), so nothing that decides
whether a message is a query, or what a round costs, can change under a running state. Fields that came later are
left out of it where they are not set, so that older plans keep their digest.

Each predictor has a plan class of its own (`oracle.planning.kinds`); what everybody may ask of any of them is `Plan`.
"""

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from oracle.accounting.budget import person_bound
from oracle.accounting.ledger import DataUse, PersonBound
from oracle.errors import PlanError
from oracle.planning.features import Feature, columns_of, key_bytes
from oracle.planning.model import Limits, Model, Truth

__all__ = [
    "PLAN_VERSION",
    "SEGMENT_BYTES",
    "BoxPlan",
    "CheckPlan",
    "InstancePlan",
    "Phase",
    "PhasePlan",
    "Plan",
    "ScalePlan",
    "StopperPlan",
    "refuse_too_few",
    "truth_of",
]

PLAN_VERSION = 1
"""Format version of `Plan`; a plan of a higher version is refused."""

SEGMENT_ROWS = 16_384
"""Rows that a predictor works on at once at most: few enough to stay in cache."""

_LEARNING_BYTES = 40
"""Bytes of a training record for each side while edges are learned: its place, its coins and what sorts them."""

SEGMENT_BYTES = 80 << 20
"""Bytes that these take at most, however wide they are."""


class InstancePlan(msgspec.Struct, frozen=True, kw_only=True):
    """One armed side: a BetweenThresholds instance (PRIVACY.md, Theorem 5).

    Attributes:
        law: Law of the noise.
        scale: Its inverse scale e (nats per point of depth).
        low: Threshold t_l: the answer is low if depth + noise < low.
        high: Threshold t_h: the answer is high if depth + noise > high.
        points: M, how many points the side holds; where that is noisy, the most it can hold.
        trim: Outermost points skipped before the M kept ones.
        mediums: K, the number of medium answers the guarantee is computed for, over all instances of the record.
        instances: How many instances one record may sit in (1; S for sequential slices).
        epsilon: The (epsilon, delta_between) that the instance is accounted at.
        delta_between: Its delta by PRIVACY.md, Theorem 5 (or Theorem 4); in the `paper` profile by Theorem 4.3 of
            Stemmer (2024).
        base: Of a slice by RSC, m: it holds m + G points (`rsc` only).
        slice_scale: Inverse scale of G, P(G >= g) = exp(-slice_scale g) (`rsc` only).
    """

    law: Literal["logistic", "discrete-laplace", "laplace"]
    scale: float
    low: int
    high: int
    points: int
    trim: int
    mediums: int
    instances: int
    epsilon: float
    delta_between: float
    base: int | msgspec.UnsetType = msgspec.UNSET
    slice_scale: float | msgspec.UnsetType = msgspec.UNSET


class StopperPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The Stopper beside each instance (PRIVACY.md, Theorem 7; in the `paper` profile Algorithm 2 of Stemmer, 2024).

    Attributes:
        epsilon: eps_S (nats); what a medium query pays.
        threshold: k, the noisy threshold on the number of mediums.
        cap: K = k + s; more mediums than K happen with probability at most delta_cap.
        delta_cap: The probability just named, for one instance.
        law: Law of its noise, where it is not the discrete Laplace law.
        scale: Inverse scale of its noise, where it is not `epsilon`.
    """

    epsilon: float
    threshold: int
    cap: int
    delta_cap: float
    law: Literal["laplace"] | msgspec.UnsetType = msgspec.UNSET
    scale: float | msgspec.UnsetType = msgspec.UNSET


class ScalePlan(msgspec.Struct, frozen=True, kw_only=True):
    """How the edges are learned by which `faces` gives positive records to sides (`oracle.mechanisms.choice.stripes`).

    Attributes:
        rank: Which positive training record from outside an edge aims at.
        scale: e of each side's choice, P proportional to exp(-e * loss); one record changes a loss by at most 1.
    """

    rank: int
    scale: float


class CheckPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How `init` finds out, for a release of its own, whether each side of phase 1 holds what it needs.

    Attributes:
        epsilon: Inverse scale of the discrete Laplace noise on the least number of points held beyond those needed.
        needed: Points that each side needs.
        margin: The noisy number must be so much at least.
        miss: Probability that a state is made although a side holds too few.
        stripe: So many of its outermost positive records is a side to have its points among; 0 where positive
            records are counted as a whole, as sides take theirs one after another, or there is one side.
    """

    epsilon: float
    needed: int
    margin: int
    miss: float
    stripe: int


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """One phase of any plan.

    Attributes:
        phase: Its number, from 1.
        rounds: t_p.
        delta: Per-record delta of its records, all parts included.
    """

    phase: int
    rounds: int
    delta: float


class PhasePlan(Phase, frozen=True, kw_only=True):
    """One phase of a box plan.

    Attributes:
        delta_noise: The part of delta that pays for the Stopper tables' distance from the ideal law.
        alpha: Error budget of the phase (probability mass of all its stripes).
        beta: Probability of missing the utility bound in this phase.
        margin: l, the margin in noise units (nats).
        start: Instances armed at the beginning of the phase.
        rearmed: Instances armed afresh within the phase.
        stopper: The Stopper of both.
        memory_bytes: Bytes of private arrays and noise tables held during the phase; of numbers, but for the batch
            that is being answered, and of strings with one of 16,384 queries.
    """

    delta_noise: float
    alpha: float
    beta: float
    margin: float
    start: InstancePlan
    rearmed: InstancePlan
    stopper: StopperPlan
    memory_bytes: int


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What every plan has; all that knows no predictor by name reads these fields only.

    Attributes:
        version: `PLAN_VERSION`.
        name: The model's name.
        predictor: Which predictor runs it.
        profile: Which accounting it stands on.
        features: The features, in the order of a query's `x`.
        epsilon: Largest per-record epsilon (nats).
        delta: delta_star, bound on the sum of delta over the training set and all rounds.
        alpha: Error on honest queries.
        beta: Probability of missing alpha.
        gamma: Share of the stream that is honest.
        examples: Least number of training examples that this plan works with.
        declared: Declared number of training examples, at least `examples`; delta_1 is shared by these.
        limits: Size limits of a query.
        phases: The phases in order, at least one.
        memory_bytes: Bytes of private arrays and tables held at most.
        data: Of a state: the data set that it was trained on, if that is named.
        at_most: Of a state: M, if of each person at most so many rows were used.
    """

    data: DataUse | msgspec.UnsetType = msgspec.UNSET
    at_most: int | msgspec.UnsetType = msgspec.UNSET
    if TYPE_CHECKING:  # each kind declares them itself: the canonical JSON has the order of declaration
        version: int = PLAN_VERSION
        name: str
        predictor: str
        profile: str
        features: tuple[Feature, ...]
        epsilon: float
        delta: float
        alpha: float
        beta: float
        gamma: float
        examples: int
        declared: int
        limits: Limits
        phases: tuple[Phase, ...]
        memory_bytes: int

    def encode(self) -> bytes:
        """Return the canonical JSON: field order as declared, shortest round-trip floats."""
        return msgspec.json.encode(self)

    @property
    def nominal(self) -> bool:
        """True if epsilon and delta are names and not bounds: no explicit theorem covers the `paper` profile."""
        return self.profile == "paper"

    @property
    def person(self) -> PersonBound | msgspec.UnsetType:
        """The guarantee of all training rows of a person together, where these are limited."""
        if self.at_most is msgspec.UNSET:
            return msgspec.UNSET
        return person_bound(self.epsilon, self.phases[0].delta, self.at_most)

    @property
    def protects_queries(self) -> bool:
        """True if epsilon and delta are those of every record; False if of the training records only."""
        return True

    @property
    def held_phases(self) -> int:
        """Earlier phases whose queries a state may hold."""
        return 1

    @property
    def why(self) -> str:
        """What is said of `examples` where too few are declared."""
        return ""

    @property
    def sums_delta(self) -> bool:
        """True if `delta` bounds a sum over records; False if it is what each of them pays at most."""
        return True

    @property
    def answers(self) -> Literal["label", "value"]:
        """What a query is answered with: a label, 0 or 1, or a number."""
        return "label"

    @property
    def takes_missing(self) -> bool:
        """True if any value of a query may be missing."""
        return False

    @property
    def labels(self) -> Sequence[str | int]:
        """What labels are called, by their numbers."""
        return (0, 1)

    @property
    def released(self) -> bool:
        """True if answers follow from what was released for good when the state was made: then they cost nothing."""
        return False

    @property
    def paid_limit(self) -> int | None:
        """K, how many answers the data pay for at most; None where no answer is paid for."""
        return None

    @property
    def settles(self) -> bool:
        """True if paid answers, once all are given, settle every other one: then the promise outlasts them."""
        return False

    @property
    def rests(self) -> bool:
        """True if there may be rounds that rest: their queries get no answer (PRIVACY.md, section 15)."""
        return False

    @property
    def digest(self) -> bytes:
        """SHA-256 of the canonical JSON, 32 bytes."""
        return hashlib.sha256(self.encode()).digest()

    @property
    def width(self) -> int:
        """D, how many numbers a query's features take: as many as there are features, but for strings."""
        return columns_of(self.features)[-1]

    @property
    def rounds(self) -> int:
        """Rounds that all phases together answer."""
        return sum(phase.rounds for phase in self.phases)

    @property
    def state_bytes(self) -> int:
        """Bytes of a snapshot, at most."""
        return self.memory_bytes

    @property
    def training_bytes(self) -> int:
        """Bytes that the trainer of a state holds, about."""
        return self.memory_bytes

    @property
    def working_bytes(self) -> int:
        """Bytes that a row takes while it is answered, at most: its copies, and the blocks that it is hashed by."""
        return 64 * self.width + 128

    @property
    def waiting_bytes(self) -> int:
        """Bytes that a row takes between its answer and the bookkeeping."""
        return 0

    @property
    def cache_bytes(self) -> int:
        """Bytes of what is kept beside the state, to answer sooner."""
        return 0

    @property
    def segment_rows(self) -> int:
        """Rows that a predictor works on at once: enough to pay for NumPy's calls, few enough for a bound on memory."""
        return max(min(SEGMENT_ROWS, SEGMENT_BYTES // self.working_bytes), 1)

    def first_round(self, phase: int) -> int:
        """Return the first round of a phase, in [1, number of phases]: the sum of the rounds of those before."""
        return sum(part.rounds for part in self.phases[: phase - 1])

    def delta_spent(self, phase: int, rounds: int) -> float:
        """Return the sum of delta over the training set and all rounds so far, whether they held a query or not.

        Every training record pays delta_1, every round of phase p pays delta_p (Definition 3.9 of Stemmer, 2024).

        Args:
            phase: The current phase, in [1, number of phases].
            rounds: Rounds answered in it, in [0, its rounds].
        """
        before = sum(part.rounds * part.delta for part in self.phases[: phase - 1])
        return self.declared * self.phases[0].delta + before + rounds * self.phases[phase - 1].delta


class BoxPlan(Plan, frozen=True, kw_only=True):
    """A plan of boxes: sides, and what each phase arms them with. `Plan` explains the shared fields.

    Attributes:
        profile: Which accounting it stands on: `tight` is proved; `paper` is nominal, see `nominal`.
        features: Names, sides and bounds, in the order of a query's `x`.
        sides: The sides in use, "NAME:lower" or "NAME:upper", in the order of Alg. 6 of Stemmer (2024).
        slicing: Rule that gives each positive record to a side.
        coin: Probability of a uniformly random side under `faces`.
        share: Part of a side's stripe that the slicing rule gives it (utility only).
        expected_error: The error on honest queries that the plan stays below, but with probability beta. It takes it
            that a side loses at most 0.9 of its stripe: an estimate that simulations support, not a proof.
        deep_error: The part of it that a query far inside pays.
        stopper_share: eps_S / epsilon.
        first_share: Part of alpha given to phase 1.
        contamination: eta, bound on the part of a side's points an adversary can place, from the margin's equation.
        memory_bytes: Largest `PhasePlan.memory_bytes`.
        nominal_privacy: True where epsilon and delta are names and not bounds (the `paper` profile).
        scale: How the edges of `faces` are learned from the training records; where it is not set, declared bounds are
            its scale, as they were for all plans before.
        check: How the points that the sides of phase 1 hold are counted; not set in plans of before, and for stumps.
        truth: What is counted of labels that come later, where any is; a query pays for it within `epsilon`.
    """

    version: int = PLAN_VERSION
    name: str
    predictor: str
    profile: Literal["tight", "paper"]
    features: tuple[Feature, ...]
    sides: tuple[str, ...]
    slicing: Literal["faces", "sequential", "rsc"]
    coin: float
    share: float
    epsilon: float
    delta: float
    alpha: float
    beta: float
    gamma: float
    examples: int
    declared: int
    expected_error: float
    deep_error: float
    stopper_share: float
    first_share: float
    contamination: float
    limits: Limits
    phases: tuple[PhasePlan, ...]
    memory_bytes: int
    nominal_privacy: bool | msgspec.UnsetType = msgspec.UNSET
    scale: ScalePlan | msgspec.UnsetType = msgspec.UNSET
    check: CheckPlan | msgspec.UnsetType = msgspec.UNSET
    truth: Truth | msgspec.UnsetType = msgspec.UNSET

    @property
    def training_bytes(self) -> int:
        """Bytes of the first phase's arrays and tables; with a scale to learn, of all training records too."""
        first = self.phases[0].memory_bytes
        if self.scale is msgspec.UNSET:
            return first
        return first + self.declared * (8 * self.width + 8 * sum(self._looked_at) + len(self.sides) * _LEARNING_BYTES)

    @property
    def working_bytes(self) -> int:
        """Beside what every plan counts, for each side: keys, and two blocks of noise with what they are made of."""
        return super().working_bytes + (len(self.sides) + 2) * (2 * key_bytes(self.features) + 64)

    @property
    def waiting_bytes(self) -> int:
        """The numbers of the features that sides look at, a round, a hash, and which side decided."""
        return 8 * sum(self._looked_at) + 18

    @property
    def _looked_at(self) -> list[int]:
        """How many numbers each feature takes that may have a side."""
        return [feature.width for feature in self.features if feature.sides != "none"]


def truth_of(plan: Plan) -> Truth | None:
    """Return what is counted of labels that come later; None where nothing is."""
    found: Truth | msgspec.UnsetType = getattr(plan, "truth", msgspec.UNSET)
    return None if found is msgspec.UNSET else found


def refuse_too_few(model: Model, plan: Plan) -> None:
    """Refuse a plan that wants more examples than its model declares.

    Raises:
        PlanError: It does.
    """
    if plan.declared > model.examples:
        msg = (
            f"model.examples = {model.examples}: too few training examples for this model; "
            f"{plan.declared:,} would be enough{plan.why}"
        )
        raise PlanError(msg)
