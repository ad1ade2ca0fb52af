"""`OnlineClassifier`: River's interface, which needs no River."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from oracle.api.training import Training
from oracle.errors import InputError
from oracle.planning.plan import Plan
from oracle.predictors.base import NO_LABEL

if TYPE_CHECKING:
    from oracle.api.predictor import TrainedPredictor

__all__ = ["OnlineClassifier"]


class OnlineClassifier:
    """A classifier with `learn_one` and `predict_one`, as in River.

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
        self._wanted = "must be a value, or None" if plan.takes_missing else "must be a number"
        self._training: Training | None = Training(plan, key)
        self.predictor: TrainedPredictor | None = None

    def learn_one(self, x: Mapping[str, Any], y: bool | int | str) -> Self:  # noqa: FBT001 -- River's signature
        """Take one example in; the last declared one makes the predictor.

        Args:
            x: A finite number for each feature, by its name, of an ensemble any value or None; others are ignored.
            y: The label; of an ensemble one of its classes.

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

    def predict_one(self, x: Mapping[str, Any]) -> bool | int | str | None:
        """Answer one query, which takes a round; None, without a round, while there is no predictor.

        None, with a round, also where the model rests. A class other than 0 and 1 is returned by its name.

        Args:
            x: As in `learn_one`.

        Raises:
            InputError: A feature is missing, or a value is wrong.
            PlanExhaustedError: The plan has no round left.
        """
        row = self._row(x)
        if self.predictor is None:
            return None
        answer: bool | int | str | None = self.predictor.answer([row]).tolist()[0]
        if tuple(self.predictor.plan.labels) != (0, 1):
            return answer
        return None if answer == NO_LABEL else bool(answer)

    def _row(self, x: Mapping[str, Any]) -> list[Any]:
        for name in self._names:
            if name not in x:
                raise InputError(f"x[{name!r}]", None, self._wanted)
        return [x[name] for name in self._names]
