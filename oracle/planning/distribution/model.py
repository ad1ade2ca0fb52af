"""The model of `distribution`, and its plan."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from oracle.errors import InputError, PlanError
from oracle.mechanisms.domains import Dates, Decimals, Domain, Numbers, Texts
from oracle.planning.features import Feature, key_bytes
from oracle.planning.model import check_features
from oracle.planning.plan import PLAN_VERSION, Phase
from oracle.planning.questions import QuestionLimits, QuestionModel, QuestionPlan

__all__ = [
    "DistributionModel",
    "DistributionPlan",
    "LadderPlan",
    "PartitionPlan",
    "check_distribution_model",
    "domain_of",
    "question_steps",
]

_ONE: Final = "one: the values whose distribution it is"


class DistributionModel(QuestionModel, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[model]` table of `predictor = "distribution"`: shares of the rows up to a value, and quantiles.

    Attributes:
        profile: "tight" is proved here; "paper" has the constants of Bun, Steinke and Ullman (2017).
        alpha: Error of any answer, as a share of the rows.
        features: One, of any type that has an order; without `sides` and `bounds`, which are refused.
    """

    profile: Literal["tight", "paper"] = "tight"
    features: Annotated[
        tuple[Feature, ...], Meta(min_length=1, max_length=1, extra_json_schema={"unit": "features", "bound": _ONE})
    ]


class LadderPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The thresholds of profile `tight`, and the noise that counts are compared with them by (PRIVACY.md, section 16).

    Attributes:
        slope: e of the logistic noise (nats).
        gap: g, rows between the lower and the upper end of each threshold's zone.
        margin: l, rows that noise moves a count the wrong way at most, but with probability beta.
        width: Rows between the bounds that any answer is the middle of, at most.
    """

    slope: float
    gap: int
    margin: int
    width: int


class PartitionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes of profile `paper`: AdaptiveThresholds over a partition (Bun, Steinke and Ullman, 2017, Figs. 7 to 10).

    Attributes:
        rows: Rows that each chunk is cut or filled up to.
        partition_slope: Inverse scale of the noise of each node of the tree that cuts are drawn from (per row).
        threshold_slope: Inverse scale of the noise on a chunk's two thresholds (per row).
        slope: Inverse scale of the noise on counts (per row).
        low: Lower threshold of a chunk, in rows.
        high: The upper one.
    """

    rows: int
    partition_slope: float
    threshold_slope: float
    slope: float
    low: int
    high: int


class DistributionPlan(QuestionPlan, frozen=True, kw_only=True):
    """A plan of a distribution. `Plan` and `QuestionPlan` explain the shared fields.

    Attributes:
        paid: K, how many thresholds there are; of profile `paper` chunks. Each is paid for once.
        comparisons: N, comparisons with noise that the error is promised for.
        error: Of any answer, as a share of the rows: at most alpha.
        ladder: Of profile `tight`.
        partition: Of profile `paper`.
    """

    version: int = PLAN_VERSION
    name: str
    predictor: str
    profile: Literal["tight", "paper"]
    features: tuple[Feature, ...]
    epsilon: float
    delta: float
    alpha: float
    beta: float
    gamma: float
    examples: int
    declared: int
    questions: int
    comparisons: int
    paid: int
    error: float
    ladder: LadderPlan | msgspec.UnsetType = msgspec.UNSET
    partition: PartitionPlan | msgspec.UnsetType = msgspec.UNSET
    limits: QuestionLimits
    phases: tuple[Phase, ...]
    memory_bytes: int

    @property
    def settles(self) -> bool:
        """True: where every threshold has retired, each value is known to lie between two."""
        return True

    @property
    def feature(self) -> Feature:
        """The values' feature."""
        return self.features[0]

    @property
    def width(self) -> int:
        """Numbers of a question's row: of a value, and -1 for the share up to it; or zeros, and a quantile's p."""
        return super().width + 1

    @property
    def thresholds(self) -> LadderPlan:
        """The thresholds of profile `tight`.

        Raises:
            PlanError: The profile has none.
        """
        if self.ladder is msgspec.UNSET:
            raise PlanError("plan.ladder: must be set")
        return self.ladder

    @property
    def lows(self) -> tuple[int, ...]:
        """Lower ends of all thresholds' zones, in rows, ascending: evenly between the lowest and the highest."""
        ladder = self.thresholds
        first = ladder.width - ladder.margin - ladder.gap
        last = self.declared + ladder.margin - ladder.width
        return tuple(first + (last - first) * number // (self.paid - 1) for number in range(self.paid))

    @property
    def training_bytes(self) -> int:
        """Bytes of all training rows, of their keys, twice while they are sorted, and of what is made of them."""
        return self.declared * (8 * super().width + 2 * key_bytes(self.features)) + self.memory_bytes


def domain_of(feature: Feature) -> Domain[Any]:
    """Return all values of a feature's type."""
    match feature.kind:
        case "string":
            return Texts(feature.longest)
        case "date":
            return Dates()
        case "decimal":
            return Decimals(feature.decimals)
        case _:
            return Numbers()


def question_steps(feature: Feature, paid: int) -> int:
    """Return how many comparisons one question takes at most: those of a search for a quantile, and of its share.

    Args:
        feature: The values' feature.
        paid: K.
    """
    return domain_of(feature).size.bit_length() + 1 + paid.bit_length()


def check_distribution_model(model: DistributionModel) -> None:
    """Check what the types of a model file's table do not say.

    Raises:
        InputError: A value is outside its bound, or two do not go together.
    """
    check_features(model)
    feature = model.features[0]
    if feature.sides != "both":
        raise InputError("model.features[0].sides", feature.sides, "must be left out: a distribution has no sides")
    if feature.bounds is not None:
        raise InputError("model.features[0].bounds", "...", "must be left out: a distribution needs none")
