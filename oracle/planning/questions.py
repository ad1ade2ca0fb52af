"""What models and plans have in common whose questions and answers are public, and paid for by the training rows."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

from msgspec import Meta, ValidationError, convert, to_builtins

from oracle.errors import InputError, PlanError
from oracle.mechanisms.addresses import MAX_ROUNDS
from oracle.planning.model import Limits, Model
from oracle.planning.plan import Plan

__all__ = [
    "MOST_ROWS",
    "ROUNDS",
    "STEEPEST",
    "QuestionLimits",
    "QuestionModel",
    "QuestionPlan",
    "check_questions",
    "refuse_many",
]

ROUNDS: Final = MAX_ROUNDS // 2
"""Rounds of the one phase: nobody will see its end."""

MOST_ROWS: Final = 2**40
"""Rows that a model may declare at most."""

STEEPEST: Final = 64.0
"""The largest slope that noise tables have."""

ModelT = TypeVar("ModelT", bound="QuestionModel")

_SAME: Final = ("name", "predictor", "profile", "features", "epsilon", "delta", "alpha", "beta", "gamma")

_HONEST: Final = "1: questions are not protected, and anybody may choose them"


class QuestionLimits(Limits, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a message may be at most, to count as a question.

    Attributes:
        batch_bytes: Of no use: questions are JSON.
        rows: Most cells of one message with `by`, most values of one with many; the answer has all of them.
    """

    rows: Annotated[int, Meta(ge=1, le=2**24)] = 4096


class QuestionModel(Model, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What models of questions have in common.

    Attributes:
        delta: Of each training row, for ever. Questions are not protected, so there is no sum over them.
        gamma: 1: the error holds whoever asks.
        rounds: Questions that the error is promised for; the privacy holds for any number.
        limits: What a message may be at most; see `[model.limits]`, but `rows` is 4,096 where it is not set.
    """

    gamma: Annotated[float, Meta(ge=1.0, le=1.0, extra_json_schema={"unit": "share of queries", "bound": _HONEST})] = (
        1.0
    )
    delta: Annotated[float, Meta(ge=1e-18, le=0.1, extra_json_schema={"unit": "probability"})] = 1e-6
    examples: Annotated[int, Meta(ge=1, le=2**40, extra_json_schema={"unit": "rows"})]
    rounds: Annotated[int, Meta(ge=1, le=2**40, extra_json_schema={"unit": "questions"})] = 1_000_000
    limits: QuestionLimits = QuestionLimits()


class QuestionPlan(Plan, frozen=True, kw_only=True):
    """What plans of questions have in common. `Plan` explains the shared fields.

    Attributes:
        delta: Of each training row, for ever.
        questions: k, questions that the error is promised for.
        paid: K, answers that the rows pay for at most.
        phases: One, without an end that anybody will see; its delta is a row's.
    """

    if TYPE_CHECKING:  # see `Plan`
        questions: int
        paid: int
        limits: QuestionLimits

    @property
    def protects_queries(self) -> bool:
        """False: questions and answers are public."""
        return False

    @property
    def answers(self) -> Literal["label", "value"]:
        """Numbers."""
        return "value"

    @property
    def paid_limit(self) -> int | None:
        """K."""
        return self.paid

    @property
    def sums_delta(self) -> bool:
        """False: delta is that of each row."""
        return False

    def delta_spent(self, phase: int, rounds: int) -> float:  # noqa: ARG002 -- the signature is every plan's
        """Return a row's delta: all of it is spent from the start, and no question adds to it."""
        return self.phases[0].delta


def refuse_many(model: QuestionModel, least: int) -> None:
    """Refuse a model that wants more rows than can be declared.

    Raises:
        PlanError: It does.
    """
    if least > MOST_ROWS:
        msg = f"model.alpha = {model.alpha!r}: {least:,} examples would be needed; at most 2^40 can be declared"
        raise PlanError(msg)


def check_questions(plan: QuestionPlan, kind: type[ModelT], check: Callable[[ModelT], None], **also: Any) -> ModelT:  # noqa: ANN401 -- any declarations
    """Return the model that declares a plan; refuse one that none does, or of other phases than one.

    Args:
        plan: The plan.
        kind: Class of its model.
        check: What that is checked by.
        also: Further declarations of the model.

    Raises:
        PlanError: It is one.
    """
    declared = {name: getattr(plan, name) for name in _SAME} | {"examples": plan.declared, "rounds": plan.questions}
    try:
        model = convert(to_builtins(declared | also), kind)
        check(model)
    except (ValidationError, InputError) as exc:
        raise PlanError(f"plan: no model declares this (rows as examples, questions as rounds): {exc}") from exc
    phases = plan.phases
    if len(phases) != 1 or phases[0].phase != 1 or not 1 <= phases[0].rounds <= ROUNDS:
        raise PlanError("plan.phases: must be one, of number 1 and 1 to 2^49 rounds")
    return model
