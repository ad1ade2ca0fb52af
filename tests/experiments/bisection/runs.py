"""One run of a learner over a stream, and what a set of them says."""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.mechanisms.noise.laws import named_law
from oracle.mechanisms.thresholds.bits import BinaryThresholdOracle
from oracle.planning.bisection.bound import average_error_bound
from oracle.predictors.bisection.hypercube import OnlineBisection
from oracle.predictors.bisection.learner import Learner
from oracle.predictors.bisection.newton import StochasticNewton
from tests.experiments.bisection.streams import StreamKind, blocks, cone_probability, queries

Profile = Literal["paper", "efficient"]

DIMENSION: Final = 8
"""D of all runs."""

LAW: Final = named_law("laplace", 0.1)
"""E of all runs; the oracle's noise is D E."""


class Outcome(NamedTuple):
    """What one run came to.

    Attributes:
        profile: Which learner.
        kind: Which stream.
        directions: d.
        rounds: T.
        error: Mean of |z - w*.q| over the T rounds.
        last: The same of w_T over a fresh piece of the stream (Corollary 2.1).
        start: The same of the first hypothesis.
        bits: Bits asked.
        bound: Theorem 2.1's bound on `error`, with its constants.
    """

    profile: Profile
    kind: StreamKind
    directions: int
    rounds: int
    error: float
    last: float
    start: float
    bits: int
    bound: float


def play(profile: Profile, kind: StreamKind, directions: int, rounds: int, seed: int) -> Outcome:
    """Run one learner over the whole stream, against a random database: one for each seed, whatever T."""
    database = np.random.default_rng(seed).random(DIMENSION)
    generator = np.random.default_rng([seed, directions, rounds])
    basis = blocks(directions, DIMENSION)
    learner: Learner = OnlineBisection(basis, LAW, rounds) if profile == "paper" else StochasticNewton(basis, LAW)
    oracle = BinaryThresholdOracle(database, LAW, most_bits=rounds)
    fresh = np.concatenate(list(queries(kind, directions, DIMENSION, 20_000, generator)))

    def missed() -> float:
        return float(np.abs(fresh @ (learner.hypothesis() - database)).mean())

    start, total = missed(), 0.0
    for batch in queries(kind, directions, DIMENSION, rounds, generator):
        values = learn(learner, oracle, batch, generator)
        total += float(np.abs(values - batch @ database).sum())
    bound = average_error_bound(LAW, directions, DIMENSION, rounds, cone_probability(kind, directions))
    return Outcome(profile, kind, directions, rounds, total / rounds, missed(), start, oracle.ledger.bits, bound)


def learn(
    learner: Learner, oracle: BinaryThresholdOracle, batch: NDArray[np.float64], generator: np.random.Generator
) -> NDArray[np.float64]:
    """Let the learner answer a batch against the oracle, whose noise is the generator's."""
    words = generator.integers(0, 2**64, (len(batch), 2), dtype=np.uint64)
    everything = np.ones(len(batch), dtype=np.bool_)
    return learner.learn(batch, everything, lambda rows, at: oracle.ask(batch[rows], at, words[rows]))


def slope(outcomes: Sequence[Outcome], least: int) -> float:
    """Return the slope of ln(error) over ln(T), by least squares over the runs with T of at least `least`."""
    used = [outcome for outcome in outcomes if outcome.rounds >= least]
    lengths = np.log([outcome.rounds for outcome in used])
    return float(np.polyfit(lengths, np.log([outcome.error for outcome in used]), 1)[0])
