"""Games against ensembles, and the plain re-implementation that their runs are compared with."""

import numpy as np
import pytest

from oracle.audit.games.cells import Cell, run_cell
from oracle.audit.games.ensembles import ATTACKS
from oracle.audit.randomness import Draws, Randomness
from oracle.audit.references.ensembles import Given
from oracle.audit.references.keyed import discrete_laplace, logistic
from oracle.audit.runs.ensembles import play, uneven_plan
from oracle.audit.structure.ensembles import differs
from oracle.mechanisms.noise.tables import sample
from oracle.planning.planner import verify_plan

SEED = bytes(range(32, 48))


@pytest.mark.parametrize("slope", [0.12, 0.7, 2.5])
@pytest.mark.parametrize(("law", "plain"), [("logistic", logistic), ("discrete-laplace", discrete_laplace)])
def test_plain_noise_is_the_tables(law, plain, slope):
    """The same bits give the same integers, at both ends too."""
    words = np.random.default_rng(1).integers(0, 2**64, (3_000, 2), dtype=np.uint64)
    words[:4, 0] = [1 << 20, (1 << 64) - (1 << 20), 1 << 63, (1 << 63) - 1]
    found = [plain(slope, (int(high) << 64) | int(low)) for high, low in words.tolist()]
    assert found == sample(law, slope, words).tolist()


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda one: one.name)
def test_every_attack_plays(attack):
    """On a plan that is proved, and refutes nothing."""
    verify_plan(attack.plan(2.0))
    found = run_cell(Cell("predictor", "ensemble", attack.name, 2.0, 0.01, 48), SEED, 1e-3, limit=False)
    assert found.lowest <= 2.0
    assert found.record == attack.record


@pytest.mark.slow
def test_someone_sees_something_of_a_training_row():
    """Poisoned data and chosen queries show a part of the claim, and not more than all of it."""
    found = run_cell(
        Cell("predictor", "ensemble", "poisoned data, training row", 4.0, 0.01, 1_500), SEED, 1e-2, limit=False
    )
    assert 0.2 < found.lowest <= 4.0


def test_a_reply_that_is_not_right_shows():
    """One other label, or one reply to what was no query, is told apart."""
    randomness = Randomness(SEED[:16], "runs")
    run = play(uneven_plan(Draws(randomness, 9), 3, resting=True), randomness, 1)
    assert differs(run) is None
    for place in [next(i for i, one in enumerate(run.given) if wanted(one)) for wanted in (_answered, _resting)]:
        given = [*run.given[:place], Given(2, resting=False, paid=0, phase=1, life="first")]
        assert differs(run._replace(given=[*given, *run.given[place + 1 :]])) == f"the reply to message {place}"
    assert differs(run._replace(ledger=run.ledger[:-1])) == "the ledger"


def _answered(given):
    return given is not None and given.label == 0


def _resting(given):
    return given is not None and given.resting
