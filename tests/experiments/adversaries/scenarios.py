"""The adversaries by name, of boxes and of stumps, and the plan that an operator would make for each.

Two other predictors have no row. *Classical*: its hypothesis is released once, nothing is armed again, and no query
changes another answer; its error is that of the training set for ever, and its tests measure it. *Bisection*: its error
is promised for queries that are drawn from a law, so there is no bound that an adversary could break; what holds
against one all the same is in `tests/experiments/adversaries/streams.py`. Ensembles have their own,
`tests/experiments/adversaries/ensembles.py`.
"""

from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Final

from scipy import stats

from oracle.planning.boxes.model import BoxModel
from oracle.planning.boxes.tight import plan_boxes
from oracle.planning.model import Feature
from oracle.planning.plan import BoxPlan
from tests.experiments.adversaries import attacks
from tests.experiments.adversaries.compressed import Compressed
from tests.experiments.adversaries.honest import Atoms, Correlated, Duplicates, Law, ManyNegatives
from tests.experiments.adversaries.stumps import Examples, compressed_stump, stumps_plan
from tests.experiments.adversaries.views import Adversary

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

    predictor: ClassVar[str] = "rectangles"

    def driver(self, dimension: int, epsilon: float, seed: int) -> tuple[BoxPlan, Compressed]:
        """Return the plan, and the simulator behind a trainer of boxes."""
        plan = planned(self, dimension, epsilon)
        return plan, Compressed(plan, self.law(dimension), self.attack(), seed, flipped=self.flipped)


@dataclass(frozen=True)
class StumpScenario:
    """An attack on a stump.

    Attributes:
        name: What the table calls it.
        attack: The adversary.
        law: How the features of the honest queries hang together.
        flipped: Part of the training labels that is wrong.
        unfit: True if no stump fits the labels.
        dimensions: Least d at which it differs from the others.
    """

    name: str
    attack: type[Adversary]
    law: type[Law] = Law
    flipped: float = 0.0
    unfit: bool = False
    dimensions: int = 1

    predictor: ClassVar[str] = "stumps"

    def driver(self, dimension: int, epsilon: float, seed: int) -> tuple[BoxPlan, Compressed]:
        """Return the plan, and the simulator behind a trainer of stumps; the plan knows neither law nor labels.

        Raises:
            WrongStumpError: The trainer did not choose the best stump, nor a copy of it.
        """
        plan = stumps_plan(dimension, epsilon)
        law = Examples(dimension, self.law, unfit=self.unfit)
        return plan, compressed_stump(plan, law, self.attack(), seed, flipped=self.flipped)


SCENARIOS: Final[tuple[Scenario | StumpScenario, ...]] = (
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
    StumpScenario("far-outside flood", attacks.FloodFace),
    StumpScenario("edge hammer", attacks.EdgeHammer),
    StumpScenario("push-in", attacks.PushIn),
    StumpScenario("deep flood after a re-arm", attacks.DeepFlood),
    StumpScenario("exhaust and re-arm", attacks.ExhaustFace),
    StumpScenario("duplicate features", attacks.FloodAndPush, Duplicates, dimensions=2),
    StumpScenario("correlated features (0.99)", attacks.FloodAndPush, Correlated, dimensions=2),
    StumpScenario("atoms", attacks.FloodAndPush, Atoms),
    StumpScenario("label noise 2 %", attacks.FloodAndPush, flipped=_FLIPPED),
    StumpScenario("labels that no stump fits", attacks.FloodAndPush, unfit=True),
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
    trim, plan = 0, plan_boxes(_model(dimension, epsilon, None, 0, 1))
    for _ in range(8):
        examples = int(plan.examples / (1.0 - flipped)) + 1
        wanted = int(stats.binom.isf(1e-3 / sides, examples, negatives * flipped / sides))
        if wanted <= trim and plan.declared >= examples:
            return plan
        trim = max(trim, wanted + 1)
        least = plan_boxes(_model(dimension, epsilon, None, trim, 1)).examples
        plan = plan_boxes(_model(dimension, epsilon, None, trim, int(least / (1.0 - flipped)) + 1))
    return plan


@cache
def _plan(dimension: int, epsilon: float, share: float | None) -> BoxPlan:
    return plan_boxes(_model(dimension, epsilon, share, 0, 1))


def planned(scenario: Scenario, dimension: int, epsilon: float) -> BoxPlan:
    """Return the plan for a scenario: alpha = 0.1, gamma = 0.5, its law's share and its labels' trim."""
    if scenario.flipped:
        return _noisy_plan(dimension, epsilon, scenario.flipped, scenario.law.negatives)
    return _plan(dimension, epsilon, scenario.law(dimension).share)
