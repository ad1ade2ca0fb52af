"""The models of `statistics` and `sparse-vector`, and their plans."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from oracle.errors import InputError, PlanError
from oracle.mechanisms.noise.tables import tail_reach
from oracle.mechanisms.thresholds.paid import PaidLaw
from oracle.planning.attributes import WORD, Attribute, Layout, check_attributes
from oracle.planning.features import Feature
from oracle.planning.model import check_model_name
from oracle.planning.plan import PLAN_VERSION, Phase
from oracle.planning.questions import QuestionLimits, QuestionModel, QuestionPlan

__all__ = [
    "UNDECLARED",
    "NoisePlan",
    "NumericSparsePlan",
    "SparseVectorModel",
    "SparseVectorPlan",
    "StatisticsModel",
    "StatisticsPlan",
    "TableModel",
    "TablePlan",
    "check_table_model",
    "noise_bytes",
    "sparse_bytes",
    "statistics_bytes",
]

UNDECLARED: Final = 0.01
"""Share of a uniform start that is spread over all cells; the rest is on the declared ones."""

_KEPT_CELLS: Final = 1 << 24
"""Cells of all sums that are kept."""

_REPEATS: Final = 1 << 16
"""Answers that are kept for questions that come again."""

_Attributes = Annotated[
    tuple[Attribute, ...], Meta(min_length=1, max_length=64, extra_json_schema={"unit": "attributes"})
]
_Paid = Annotated[int, Meta(ge=1, le=2**20, extra_json_schema={"unit": "answers"})]
_NO_FEATURES = "none: questions are about attributes"


class TableModel(QuestionModel, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What models about a table have in common.

    Attributes:
        features: None: a table has attributes.
        attributes: The table's attributes.
    """

    features: Annotated[
        tuple[Feature, ...], Meta(max_length=0, extra_json_schema={"unit": "features", "bound": _NO_FEATURES})
    ] = ()
    attributes: _Attributes


class StatisticsModel(TableModel, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[model]` table of `predictor = "statistics"`: shares of the rows, by private multiplicative weights.

    Attributes:
        profile: "tight" is proved here; "paper" has the constants of the lecture (Ziani, PrivateMW).
        alpha: Error of any answer, as a share of the rows.
        paid: Answers that the data pay for; left out: as many as can ever be needed.
    """

    profile: Literal["tight", "paper"] = "tight"
    paid: _Paid | None = None


class SparseVectorModel(TableModel, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[model]` table of `predictor = "sparse-vector"`: is a share above a threshold?

    Attributes:
        alpha: Shares that are further than this from their threshold are told right.
        paid: How often "above" is said, with the noisy share.
    """

    profile: Literal["tight"] = "tight"
    paid: _Paid


class NoisePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The noise of paid questions (PRIVACY.md, section 13).

    Attributes:
        law: "gumbel" on counts, or "exponential": one-sided on counts, and once on all thresholds.
        slope: e on counts (nats).
        threshold_slope: e on thresholds (nats); for "exponential" only.
        above: U: no count so far below its threshold is paid, but with half of beta; whole rows, rounded up.
        below: D: no count so far above its threshold is free, but with the other half.
    """

    law: PaidLaw
    slope: float
    threshold_slope: float | msgspec.UnsetType = msgspec.UNSET
    above: int
    below: int

    @property
    def window(self) -> int:
        """Rows whose answer may be either: U + D."""
        return self.above + self.below


class NumericSparsePlan(msgspec.Struct, frozen=True, kw_only=True):
    """NumericSparse and multiplicative weights with the lecture's constants (corrected: PRIVACY.md, section 14).

    Attributes:
        threshold: T, as a share of the rows.
        threshold_slope: Inverse scale of the noise on T (per row), drawn anew behind each paid answer.
        slope: Inverse scale of the noise that is compared.
        value_slope: Inverse scale of the noise of a value.
        rate: eta, the learning rate.
    """

    threshold: float
    threshold_slope: float
    slope: float
    value_slope: float
    rate: float


class TablePlan(QuestionPlan, frozen=True, kw_only=True):
    """What plans about a table have in common. `Plan` and `QuestionPlan` explain the shared fields.

    Attributes:
        attributes: The table's attributes, in the order of a question's row.
        noise: Of the paid questions; not set in profile `paper`.
    """

    version: int = PLAN_VERSION
    name: str
    predictor: str
    profile: Literal["tight", "paper"]
    features: tuple[Feature, ...]
    attributes: tuple[Attribute, ...]
    epsilon: float
    delta: float
    alpha: float
    beta: float
    gamma: float
    examples: int
    declared: int
    questions: int
    paid: int
    noise: NoisePlan | msgspec.UnsetType = msgspec.UNSET
    limits: QuestionLimits
    phases: tuple[Phase, ...]
    memory_bytes: int

    @property
    def paid_noise(self) -> NoisePlan:
        """The noise of paid questions.

        Raises:
            PlanError: The profile has none.
        """
        if self.noise is msgspec.UNSET:
            raise PlanError("plan.noise: must be set")
        return self.noise

    @property
    def layout(self) -> Layout:
        """Where attributes stand in the table and in a row."""
        return Layout.of(self.attributes)

    @property
    def width(self) -> int:
        """Numbers of a question's row."""
        return self.layout.width

    @property
    def cache_bytes(self) -> int:
        """Bytes of the sums over cells that are kept, of the hypothesis and of the rows, at most."""
        marginals = 1
        for cells in self.layout.shape:
            marginals = min(marginals * (cells + 1), _KEPT_CELLS)
        return 2 * 8 * marginals

    @property
    def training_bytes(self) -> int:
        """Bytes of all training rows, of numbering their cells, and of what is made of them."""
        return self.declared * (8 * len(self.attributes) + 24) + self.memory_bytes

    @property
    def working_bytes(self) -> int:
        """Beside what every plan counts, the bits of one attribute's words, twice, and those of all as flags."""
        return super().working_bytes + 64 * self.width + 17 * WORD * max(self.layout.words)


class StatisticsPlan(TablePlan, frozen=True, kw_only=True):
    """A plan of private multiplicative weights.

    Attributes:
        gap: gamma, the least true gap of an answer that is paid for at the last margin, as a share of the rows.
        complete: True if K cannot be passed by the questions that the error is promised for (but for beta).
        first_margin: Rows beyond what the hypothesis expects from which on the first answer is paid.
        margin: The same, of the last answer; T = alpha n - D, rounded down, so that alpha is kept.
        start: Which attributes' marginals the hypothesis starts from; none where it starts uniform.
        start_slope: Inverse scale of the discrete Laplace noise on every cell of these.
        paper: Sizes of profile `paper`.
    """

    gap: float
    complete: bool
    first_margin: int
    margin: int
    start: tuple[tuple[int, ...], ...] = ()
    start_slope: float | msgspec.UnsetType = msgspec.UNSET
    paper: NumericSparsePlan | msgspec.UnsetType = msgspec.UNSET

    @property
    def why(self) -> str:
        """What makes so many rows necessary."""
        if self.noise is msgspec.UNSET:
            return ""
        if self.complete:
            return "; with `paid` declared fewer would be"
        return f": a window of {self.noise.window:,} rows is to be three quarters of alpha at most"

    def margin_at(self, paid: int) -> int:
        """Return from how many rows beyond the expected ones on an answer is paid, after `paid` of them.

        It rises with them, so that an early error is found while answers are plenty, and K is not spent early.
        """
        return self.first_margin + (self.margin - self.first_margin) * paid // self.paid


class SparseVectorPlan(TablePlan, frozen=True, kw_only=True):
    """A plan of a sparse vector: a question's row has one number more, its threshold as a share of the rows.

    A noisy count y is paid for where y - `shift` is n times the threshold or more, and is told as (y - `shift`)/n.
    """

    @property
    def shift(self) -> int:
        """Rows by which noise makes a count larger, in the middle of what it may: (U - D)/2, rounded down."""
        return 0 if self.noise is msgspec.UNSET else (self.noise.above - self.noise.below) // 2

    @property
    def width(self) -> int:
        """Numbers of a question's row: of its cells, and the threshold."""
        return super().width + 1


def check_table_model(model: TableModel) -> None:
    """Check what the types of a model file's table do not say.

    Raises:
        InputError: A value is outside its bound, or two do not go together.
    """
    check_model_name(model.name)
    check_attributes(model.attributes)
    if isinstance(model, StatisticsModel) and model.profile == "paper" and model.paid is not None:
        raise InputError("model.paid", model.paid, 'must be left out for profile = "paper", whose constants say it')


def noise_bytes(noise: NoisePlan) -> int:
    """Return the bytes of the noise's table: two words for each edge, and as many again while it is made."""
    return 2 * 16 * 2 * tail_reach(noise.slope)


def sparse_bytes(attributes: tuple[Attribute, ...], rows: int, paid: int) -> int:
    """Return the bytes of rows, each its cell as one number and its place along each attribute, and of answers.

    Args:
        attributes: Of the table.
        rows: n.
        paid: K; of each paid answer its question and its interval are kept.
    """
    each = 8 * Layout.of(attributes).width
    return rows * (8 + 4 * len(attributes)) + paid * (each + 24) + 16 * _REPEATS


def statistics_bytes(attributes: tuple[Attribute, ...], rows: int, paid: int) -> int:
    """Return the bytes of rows, the hypothesis, paid questions with their intervals, and answers that are kept.

    Args:
        attributes: Of the table.
        rows: n.
        paid: K.
    """
    return sparse_bytes(attributes, rows, paid) + 8 * Layout.of(attributes).size
