"""The model of a classical learner, and its plan: one choice for each side, and then nothing more to pay."""

from collections.abc import Mapping
from typing import Final, Literal

from oracle.errors import InputError
from oracle.planning.features import Feature, refuse_types
from oracle.planning.model import BOX_FEATURES, Limits, Model, Share, check_features
from oracle.planning.plan import PLAN_VERSION, Phase, Plan

__all__ = ["NO_STRINGS", "ClassicalModel", "ClassicalPlan", "check_classical_model", "with_faces"]

NO_STRINGS: Final = (
    'cannot be for predictor = "classical": it chooses among all edges of a finite grid, float64, and strings have none'
)
"""Why a string can be no feature."""


class ClassicalModel(Model, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[model]` table of `predictor = "classical"`: a box or a stump, learned once and released.

    A feature's `sides` are those of a box, or the ways a stump may cut on it. `delta` and `gamma` are not used: nothing
    is paid after the start, and no query changes what another one is answered.

    Attributes:
        profile: There is only this one.
        concept: What is learned: a box around the examples labelled 1, or the stump that gets fewest wrong.
        slicing: "faces" sends each positive example to one side of a box, so that each side has all of epsilon, and
            takes `bounds` that lie about the examples; "whole" shows every side all of them, and each has its part of
            epsilon. (To learn the scale of "faces" would cost as much as the edges themselves do under "whole".) Left
            out, "faces" where `share` is set.
        share: Overrides the planner's estimate of the part of a stripe that `faces` gives to its side.
    """

    profile: Literal["tight"] = "tight"
    concept: Literal["box", "stump"] = "box"
    slicing: Literal["faces", "whole"] = "whole"
    share: Share | None = None


class ClassicalPlan(Plan, frozen=True, kw_only=True):
    """A plan of a classical learner. `Plan` explains the shared fields.

    Attributes:
        concept: As in the model.
        sides: The sides in use, or the stumps to choose from: "NAME:lower" says 1 above its edge.
        slicing: As in the model; "whole" for a stump.
        coin: Probability of a uniformly random side under `faces`.
        share: Part of a side's stripe that the slicing gives it (utility only).
        delta: 0.
        scale: e of each choice: P proportional to exp(-e * loss), exactly, over all float64 edges.
        spread: The changes that one record makes to the losses lie within so much of each other.
        choices: How many choices one record has a part in; e * spread * choices is at most epsilon.
        rank: Which example from outside an edge of a box aims at; 0 for a stump.
        expected_error: Bound on the error with the declared examples (of a stump: beyond the best one's), but with
            probability beta.
        phases: One; it lasts as long as rounds can be counted.
    """

    version: int = PLAN_VERSION
    name: str
    predictor: str
    profile: Literal["tight"]
    concept: Literal["box", "stump"]
    features: tuple[Feature, ...]
    sides: tuple[str, ...]
    slicing: Literal["faces", "whole"]
    coin: float
    share: float
    epsilon: float
    delta: float
    alpha: float
    beta: float
    gamma: float
    examples: int
    declared: int
    scale: float
    spread: int
    choices: int
    rank: int
    expected_error: float
    limits: Limits
    phases: tuple[Phase, ...]
    memory_bytes: int

    @property
    def released(self) -> bool:
        """True: the hypothesis is a private release, and answers follow from it."""
        return True

    @property
    def training_bytes(self) -> int:
        """Bytes of all training records, and of putting a column of them in order."""
        return self.declared * (8 * len(self.features) + 150)


def with_faces(table: Mapping[str, object]) -> Mapping[str, object]:
    """Fill in the slicing that a box's side has a share under, where that is set and no slicing is."""
    return {"slicing": "faces", **table} if "share" in table else table


def check_classical_model(model: ClassicalModel) -> None:
    """Check what the types of a model file's table do not say.

    Raises:
        InputError: A value is outside its bound, or two do not go together.
    """
    if model.concept == "box" and len(model.features) > BOX_FEATURES:
        raise InputError("model.features", len(model.features), f"must be 1 to {BOX_FEATURES} features of a box")
    check_features(model)
    refuse_types(model.features, ("number", "date", "decimal"), NO_STRINGS)
    if model.concept == "stump" or model.slicing == "whole":
        if model.share is not None:
            raise InputError("model.share", model.share, 'is for boxes with slicing = "faces" only')
        return
    for index, feature in enumerate(model.features):
        if feature.bounds is None and feature.sides != "none":
            where = f"model.features[{index}].bounds"
            raise InputError(where, None, 'must be declared as [low, high] for slicing = "faces"; "whole" takes none')
