"""The ten adversaries by name, and the plan that an operator would make for each."""

from dataclasses import dataclass
from functools import cache
from typing import Final

from scipy import stats

from oracle.planning.box_model import BoxModel
from oracle.planning.model import Feature
from oracle.planning.plan import BoxPlan
from oracle.planning.tight import plan_or_wish
from tests.adversaries import attacks
from tests.adversaries.honest import Atoms, Correlated, Duplicates, Law, ManyNegatives
from tests.adversaries.views import Adversary

__all__ = ["SCENARIOS", "Scenario", "planned"]

_FLIPPED: Final = 0.02


@dataclass(frozen=True)
class Scenario:
    """An attack on a kind of honest stream.

    Attributes:
        name: What the table calls it.
        attack: The adversary.
        law: The honest queries.
        flipped: Part of the training labels that is wrong.
        dimensions: Least d at which it differs from the others.
    """

    name: str
    attack: type[Adversary]
    law: type[Law] = Law
    flipped: float = 0.0
    dimensions: int = 1


SCENARIOS: Final = (
    Scenario("far-outside flood of one face", attacks.FloodFace),
    Scenario("edge hammer", attacks.EdgeHammer),
    Scenario("push-in", attacks.PushIn),
    Scenario("deep flood after a re-arm", attacks.DeepFlood),
    Scenario("exhaust and re-arm one face", attacks.ExhaustFace),
    Scenario("flood on all sides", attacks.FloodAll),
    Scenario("duplicate features", attacks.FloodAndPush, Duplicates, dimensions=2),
    Scenario("correlated features (0.99)", attacks.FloodAndPush, Correlated, dimensions=2),
    Scenario("atoms", attacks.FloodAndPush, Atoms),
    Scenario("label noise 2 %", attacks.FloodAndPush, ManyNegatives, flipped=_FLIPPED),
)


def _model(dimension: int, epsilon: float, share: float | None, trim: int, examples: int) -> BoxModel:
    return BoxModel(
        name="box",
        predictor="rectangles",
        epsilon=epsilon,
        alpha=0.1,
        gamma=0.5,
        examples=examples,
        trim=trim,
        share=share,
        features=tuple(Feature(name=f"f{index}", bounds=(0.0, 1.0)) for index in range(dimension)),
    )


@cache
def _noisy_plan(dimension: int, epsilon: float, flipped: float, negatives: float) -> BoxPlan:
    """Plan against wrong labels, from declared numbers alone.

    What an operator knows: at most a part `negatives` of the examples is negative, evenly about the sides, and a part
    `flipped` of all labels is wrong. So a side gets Bin(n, negatives flipped / S) wrong points at most: it skips as
    many as it gets but with probability 1e-3/S. And 1/(1 - flipped) times the examples are wanted, as some true points
    are lost.
    """
    sides = 2 * dimension
    trim, plan = 0, plan_or_wish(_model(dimension, epsilon, None, 0, 1))
    for _ in range(8):
        examples = int(plan.examples / (1.0 - flipped)) + 1
        wanted = int(stats.binom.isf(1e-3 / sides, examples, negatives * flipped / sides))
        if wanted <= trim and plan.declared >= examples:
            return plan
        trim = max(trim, wanted + 1)
        least = plan_or_wish(_model(dimension, epsilon, None, trim, 1)).examples
        plan = plan_or_wish(_model(dimension, epsilon, None, trim, int(least / (1.0 - flipped)) + 1))
    return plan


@cache
def _plan(dimension: int, epsilon: float, share: float | None) -> BoxPlan:
    return plan_or_wish(_model(dimension, epsilon, share, 0, 1))


def planned(scenario: Scenario, dimension: int, epsilon: float) -> BoxPlan:
    """Return the plan for a scenario: alpha = 0.1, gamma = 0.5, its law's share and its labels' trim."""
    if scenario.flipped:
        return _noisy_plan(dimension, epsilon, scenario.flipped, scenario.law.negatives)
    return _plan(dimension, epsilon, scenario.law(dimension).share)
