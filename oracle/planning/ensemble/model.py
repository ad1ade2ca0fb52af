"""The model of an ensemble of any learner, and its plan."""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from oracle.planning.features import Feature
from oracle.planning.model import Limits, Model, Truth
from oracle.planning.plan import PLAN_VERSION, Phase, Plan, StopperPlan

__all__ = [
    "LABEL_BYTES",
    "MISSING",
    "MOST_CLASSES",
    "PATH",
    "Class",
    "ControlPlan",
    "EnsembleModel",
    "EnsemblePhase",
    "EnsemblePlan",
    "Parameter",
    "Transformer",
]

MISSING: Final = -1.7976931348623157e308
"""What stands in a row for a value that is missing: the least float64 number, which no value may be."""

MOST_CLASSES: Final = 32
"""Most classes."""

LABEL_BYTES: Final = 5
"""Bytes of a kept row's label and of its teacher's number."""

_LATE: Final = 20
"""The life after the next fills its slots by itself: of the lag it gets a twentieth of them."""

Class = str | int
"""What a class is called."""

Parameter = str | int | float | bool | None | list[Any]
"""What a learner's parameter may be: what TOML can say of it, but for tables and dates."""

PATH: Final = "the import path of a class: letters, digits, '_' and points"
_Path = Annotated[str, Meta(max_length=256, extra_json_schema={"bound": PATH})]
_Parameters = Annotated[dict[str, Parameter], Meta(max_length=64, extra_json_schema={"unit": "parameters"})]
_Share = Annotated[float, Meta(gt=0.0, lt=1.0)]
_SHARES = "a number above 0 for each class, 1 together"
_Shares = Annotated[tuple[_Share, ...], Meta(extra_json_schema={"unit": "share of rows", "bound": _SHARES})]


class Transformer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A step before the learner: fitted by each teacher on its own rows.

    Attributes:
        transformer: Import path of a scikit-learn transformer.
        parameters: What it is made with.
    """

    transformer: _Path
    parameters: _Parameters = msgspec.field(default_factory=dict)


class EnsembleModel(Model, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[model]` table of `predictor = "ensemble"`: teachers of any learner, each on rows of its own, vote.

    A feature has a name and a type, or `categories`; neither sides nor bounds. Any value may be missing.

    Attributes:
        profile: There is only this one.
        learner: Import path of a scikit-learn classifier.
        parameters: What it is made with.
        preprocessing: What goes before it, in order.
        teacher_rows: Rows of a teacher of the first life, on average.
        contested: Share of honest queries whose votes for a class lie within a twentieth of the teachers of its
            threshold; `perpetua evaluate` measures it.
        classes: What a label may be, in any order.
        shares: Share of each class among the training rows, where it is public; else a noisy count says it, once.
        alpha: Share of the answers to honest queries that noise may change.
        truth: What is counted of labels that come later; see `[model.truth]`.
    """

    profile: Literal["tight"] = "tight"
    learner: _Path
    parameters: _Parameters = msgspec.field(default_factory=dict)
    preprocessing: Annotated[tuple[Transformer, ...], Meta(max_length=16, extra_json_schema={"unit": "steps"})] = ()
    teacher_rows: Annotated[int, Meta(ge=1, le=2**20, extra_json_schema={"unit": "rows"})] = 25
    contested: Annotated[float, Meta(gt=0.0, le=1.0, extra_json_schema={"unit": "share of queries"})] = 0.1
    classes: Annotated[
        tuple[Class, ...], Meta(min_length=2, max_length=MOST_CLASSES, extra_json_schema={"unit": "classes"})
    ] = (0, 1)
    shares: _Shares | None = None
    alpha: Annotated[float, Meta(ge=1e-6, le=0.5, extra_json_schema={"unit": "share of answers"})] = 0.05
    truth: Truth | None = None

    def __hash__(self) -> int:
        """Return a hash that leaves parameters out: tables have none."""
        return hash((self.name, self.learner, self.epsilon, self.alpha, self.examples, self.teacher_rows))


class ControlPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How thresholds are steered so that each class is answered as often as it is there.

    After each block the number of answers of every class is released with discrete Laplace noise. One query is in one
    block and has one answer, so it moves one number, by 1.

    Attributes:
        block_rounds: Rounds of a block.
        epsilon: Inverse scale of the noise, and what one query pays for these numbers (nats).
        gain: How far the log odds of a threshold move, as a share of the teachers, where a class is not answered at
            all, or twice as often as it should be.
        leak: Part of the way that they are drawn back towards where they started.
    """

    block_rounds: int
    epsilon: float
    gain: float
    leak: float


class EnsemblePhase(Phase, frozen=True, kw_only=True):
    """One phase of an ensemble: a sequence of lives, each with teachers of its own.

    A life has the slope, zone and Stopper of the phase it was armed in until it ends, which is in the next phase at the
    latest.

    Attributes:
        delta_noise: The part of delta that pays for the distance of the Stopper's and counts' tables from their laws.
        slope: e of the logistic noise on votes (nats a vote).
        gap: g = t_h - t_l of the zone about a threshold in which an answer is paid for: g + 1 counts, as many of them
            beyond it as not, or one fewer.
        paid: K, questions that the data of a life pay for at most.
        stopper: The Stopper that counts paid queries, and halts at its cap in any case: K over the paid questions of
            one query. With probability `delta_cap` at most it gets to one less.
        least_rounds: A life that its Stopper ends sooner rests until so many rounds are over.
        kept_rows: Most queries that are kept for the next life.
        keep: Probability that a round has a slot among these; whether it had a query, and was free, decides nothing
            but whether the slot is used.
        lag: Rounds before the phase's end from which on queries are kept for the life after the next, if the life is of
            `least_rounds` by then; else it goes on into the next phase.
        memory_bytes: Bytes of private arrays held during the phase, at most.
    """

    delta_noise: float
    slope: float
    gap: int
    paid: int
    stopper: StopperPlan
    least_rounds: int
    kept_rows: int
    keep: float
    lag: int
    memory_bytes: int

    @property
    def slots(self) -> int:
        """Slots of a pool: what the next life wants, and some of what comes while it is fitted."""
        return self.kept_rows + min(self.lag, self.kept_rows // _LATE + 1)


class EnsemblePlan(Plan, frozen=True, kw_only=True):
    """A plan of an ensemble. `Plan` explains the shared fields.

    Attributes:
        learner: Import path of the classifier.
        parameters: What it is made with.
        preprocessing: What goes before it.
        classes: What labels are called, by their numbers.
        shares: Declared shares of the classes; none where a noisy count says them.
        teachers: T.
        teacher_rows: As in the model.
        contested: As in the model.
        questions: Paid questions of one query, at most: 1, or 2 of more than two classes.
        share_slope: Inverse scale of the noise on each class's count, where shares are counted (nats).
        control: How thresholds are steered.
        changed: Share of the answers to honest queries that noise changes, by the estimate.
        memory_bytes: Largest `EnsemblePhase.memory_bytes`.
        truth: As in the model.
    """

    version: int = PLAN_VERSION
    name: str
    predictor: str
    profile: Literal["tight"]
    learner: str
    parameters: dict[str, Parameter]
    preprocessing: tuple[Transformer, ...]
    features: tuple[Feature, ...]
    classes: tuple[Class, ...]
    shares: tuple[float, ...] | msgspec.UnsetType = msgspec.UNSET
    teachers: int
    teacher_rows: int
    contested: float
    questions: int
    epsilon: float
    delta: float
    alpha: float
    beta: float
    gamma: float
    examples: int
    declared: int
    share_slope: float | msgspec.UnsetType = msgspec.UNSET
    control: ControlPlan
    changed: float
    limits: Limits
    phases: tuple[EnsemblePhase, ...]
    memory_bytes: int
    truth: Truth | msgspec.UnsetType = msgspec.UNSET

    def __hash__(self) -> int:
        """Return a hash that leaves parameters out: tables have none."""
        return hash((self.name, self.learner, self.epsilon, self.declared, self.classes, self.phases))

    @property
    def why(self) -> str:
        """What makes so many rows necessary."""
        return (
            f" with contested = {self.contested:g}, declared or assumed; the less contested, the fewer: `perpetua "
            "evaluate` measures it"
        )

    @property
    def state_bytes(self) -> int:
        """Bytes of a snapshot, at most: two pools."""
        slots = max(self.declared, *(phase.slots for phase in self.phases))
        return 2 * slots * (8 * self.width + LABEL_BYTES)

    @property
    def takes_missing(self) -> bool:
        """True: any value may be missing."""
        return True

    @property
    def rests(self) -> bool:
        """True: a life that is spent before its least rounds rests until they are over."""
        return True

    @property
    def held_phases(self) -> int:
        """Two: a life may outlive its phase, with queries that the life before answered, which had outlived its own."""
        return 2

    @property
    def labels(self) -> Sequence[Class]:
        """What labels are called, by their numbers."""
        return self.classes
