"""The model of stumps, and their plan: a plan of one side, and what chooses the stump before."""

from typing import Literal

import msgspec

from oracle.errors import InputError
from oracle.planning.features import key_bytes
from oracle.planning.model import FirstShare, Model, Truth, check_features, check_truth
from oracle.planning.plan import BoxPlan

__all__ = ["SelectionPlan", "StumpsModel", "StumpsPlan", "check_stumps_model"]


class StumpsModel(Model, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[model]` table of `predictor = "stumps"`: one threshold on one feature.

    A feature's `sides` says which way a stump may cut on it: "lower" labels the largest values 1 (sigma = +1 in
    Definition 4.16 of Stemmer, 2024), "upper" the smallest; its `bounds` are not used.

    Attributes:
        profile: "tight" has our constants; "paper" Stemmer's own, whose epsilon and delta are nominal.
        first_share: Fixes alpha_1's part of alpha instead of searching it: smaller asks for more training examples
            and makes the phases shorter.
        truth: What is counted of labels that come later; see `[model.truth]`.
    """

    profile: Literal["tight", "paper"] = "tight"
    first_share: FirstShare | None = None
    truth: Truth | None = None


class SelectionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What chooses the stump from the training records, before phase 1.

    Attributes:
        candidates: Pairs of a feature and a direction.
        scale: e of the choice among them: P proportional to exp(-e * least number of errors).
        epsilon: What the choice costs a training record: e * 1 (`choice.stumps.least_losses`); in the `paper` profile
            eps/4.
        cut_law: How many records are labelled 1: by another choice, P proportional to exp(-e * errors), or, in the
            `paper` profile, by the number of positive ones with Laplace's noise (for labels that a stump fits only).
        cut_scale: e of that choice, or of the noise.
        cut_epsilon: What is charged for it: e * 2, twice what is due (PRIVACY.md, Theorem 10); in the `paper` profile
            eps/4.
        error: What choice, cut and the sample's size may add to the error of the best stump, but with probability
            beta/2 (utility only).
    """

    candidates: int
    scale: float
    epsilon: float
    cut_law: Literal["choice", "laplace"]
    cut_scale: float
    cut_epsilon: float
    error: float


class StumpsPlan(BoxPlan, frozen=True, kw_only=True):
    """A plan of stumps: `sides` are those of the one feature that will be chosen; errors are beyond the best stump's.

    Attributes:
        selection: What chooses the stump.
    """

    selection: SelectionPlan

    @property
    def training_bytes(self) -> int:
        """Bytes of all training records, of sorting a column of them, and of the first phase."""
        sorting = 3 * key_bytes(self.features) + 32
        return super().training_bytes + self.declared * (8 * self.width + sorting)

    @property
    def waiting_bytes(self) -> int:
        """As of any box, but of one feature alone."""
        return 8 * max(self._looked_at) + 18


def check_stumps_model(model: StumpsModel) -> None:
    """Check what the types of a model file's table do not say.

    Raises:
        InputError: A value is outside its bound, or two do not go together.
    """
    if model.first_share is not None and model.profile == "paper":
        raise InputError("model.first_share", model.first_share, 'cannot be set for profile = "paper"')
    check_features(model)
    check_truth(model)
