"""`OnlineClassifier`: River's interface, which needs no River."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from oracle.api.training import Training
from oracle.errors import InputError
from oracle.planning.plan import Plan

if TYPE_CHECKING:
    from oracle.api.predictor import TrainedPredictor

__all__ = ["OnlineClassifier"]


class OnlineClassifier:
    """A binary classifier with `learn_one` and `predict_one`, as in River.

    It trains once, on the first `plan.declared` examples; later ones are not used, as an everlasting predictor never
    learns from labels again. `oracle.train` says what is guaranteed, and what is lost when the process ends; save the
    state with `predictor.save`.

    Args:
        plan: A plan whose answers are labels.
        key: As in `oracle.train`.

    Attributes:
        predictor: The predictor; None until the last declared example was learned.

    Raises:
        InputError: The plan's answers are numbers.
    """

    def __init__(self, plan: Plan, *, key: bytes | None = None) -> None:
        if plan.answers != "label":
            raise InputError("plan.predictor", plan.predictor, "must be one whose answers are labels")
        self._names = [feature.name for feature in plan.features]
        self._training: Training | None = Training(plan, key)
        self.predictor: TrainedPredictor | None = None

    def learn_one(self, x: Mapping[str, float], y: bool) -> Self:  # noqa: FBT001 -- River's signature
        """Take one example in; the last declared one makes the predictor.

        Args:
            x: A finite number for each feature, by its name; others are ignored.
            y: The label.

        Raises:
            InputError: A feature is missing, or a value is wrong; nothing was learned.
            DataError: All declared examples have the same label.
            RefusedError: See `oracle.train`.
        """
        training = self._training
        if training is not None:
            training.add([self._row(x)], [y])
            if training.missing == 0:
                self._training = None  # it cannot be finished twice
                self.predictor = training.finish()
        return self

    def predict_one(self, x: Mapping[str, float]) -> bool | None:
        """Answer one query, which takes a round; None, without a round, while there is no predictor.

        Args:
            x: A finite number for each feature, by its name; others are ignored.

        Raises:
            InputError: A feature is missing, or a value is wrong.
            PlanExhaustedError: The plan has no round left.
        """
        row = self._row(x)
        return None if self.predictor is None else bool(self.predictor.answer([row])[0])

    def _row(self, x: Mapping[str, float]) -> list[float]:
        for name in self._names:
            if name not in x:
                raise InputError(f"x[{name!r}]", None, "must be a number")
        return [x[name] for name in self._names]
