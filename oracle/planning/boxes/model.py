"""The model of boxes: what its file may set beside what all models have."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta

from oracle.errors import InputError
from oracle.planning.features import Feature
from oracle.planning.model import BOX_FEATURES, FirstShare, Model, Share, Truth, check_features, check_truth
from oracle.planning.plan import Plan

__all__ = ["BoxModel", "check_box_model", "side_names", "with_slicing"]


class BoxModel(Model, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[model]` table of `predictor = "rectangles"`: a box, of which every side of every feature counts.

    Attributes:
        profile: "tight" has our constants; "paper" Stemmer's own, whose epsilon and delta are nominal.
        slicing: How a phase's points are shared out among the sides: "faces" gives a row to a side that it lies far out
            on, by edges that `init` learns; "sequential" takes one side after another and wants more rows; "rsc" as the
            paper does. Left out, "rsc" for profile "paper".
        trim: Outermost points each side skips when it is armed at a phase start, against wrong labels.
        share: Overrides the planner's estimate of the part of a stripe that `faces` gives to its side.
        first_share: Fixes alpha_1's part of alpha instead of searching it: smaller asks for more training examples
            and makes the phases shorter.
        truth: What is counted of labels that come later; see `[model.truth]`.
    """

    features: Annotated[
        tuple[Feature, ...], Meta(min_length=1, max_length=BOX_FEATURES, extra_json_schema={"unit": "features"})
    ]
    profile: Literal["tight", "paper"] = "tight"
    slicing: Literal["faces", "sequential", "rsc"] = "faces"
    trim: Annotated[int, Meta(ge=0, extra_json_schema={"unit": "points", "bound": "from 0 to examples"})] = 0
    share: Share | None = None
    first_share: FirstShare | None = None
    truth: Truth | None = None


def with_slicing(table: Mapping[str, object]) -> Mapping[str, object]:
    """Fill in the profile's own slicing where none is named."""
    return {"slicing": "rsc", **table} if table.get("profile") == "paper" else table


def side_names(of: Model | Plan) -> tuple[str, ...]:
    """Return the sides in use, in the order of Stemmer (2024), Alg. 6: left_1, right_1, left_2, ..."""
    return tuple(
        f"{feature.name}:{side}"
        for feature in of.features
        for side in ("lower", "upper")
        if feature.sides in (side, "both")
    )


def check_box_model(model: BoxModel) -> None:
    """Check what the types of a model file's table do not say.

    Raises:
        InputError: A value is outside its bound, or two do not go together.
    """
    if model.trim > model.examples:
        raise InputError("model.trim", model.trim, f"must be from 0 to examples ({model.examples})")
    check_features(model)
    for index, feature in enumerate(model.features):
        if feature.sides != "none" and model.slicing == "faces":
            _check_scale(f"model.features[{index}]", feature)
    _check_profile(model)
    check_truth(model)


def _check_scale(where: str, feature: Feature) -> None:
    if feature.kind == "string":
        bound = 'has no scale for slicing = "faces"; use slicing = "sequential", or sides = "none" here'
        raise InputError(f"{where}.type", feature.kind, bound)


def _check_profile(model: BoxModel) -> None:
    paper = model.profile == "paper"
    if paper != (model.slicing == "rsc"):
        bound = 'must be "rsc" for profile = "paper"' if paper else 'is for profile = "paper" only'
        raise InputError("model.slicing", model.slicing, bound)
    for field, unused in (("trim", 0), ("share", None), ("first_share", None)):
        if paper and getattr(model, field) != unused:
            raise InputError(f"model.{field}", getattr(model, field), 'cannot be set for profile = "paper"')
