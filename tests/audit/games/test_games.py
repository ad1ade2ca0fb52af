"""The games against what is shipped: no claim is refuted, and somebody comes near every kind of claim."""

import math
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from oracle.accounting.accountant import delta_at
from oracle.audit.findings import NEAR
from oracle.audit.games import game
from oracle.audit.games.adversaries import ADVERSARIES, KNOWN_LIFE
from oracle.audit.games.cells import Cell, all_cells, run_cell
from oracle.audit.games.game import Game
from oracle.audit.games.learners import LEARNERS, shadow_bits
from oracle.audit.games.plans import TARGETS, WIDE, between_instance, small_plan
from oracle.audit.games.policies import between_policy, halting_law, stopper_shapes, worst_depth
from oracle.audit.games.questions import QUESTIONERS, play_questions, questioner
from oracle.audit.games.sequence import play_out
from oracle.audit.games.wealth import Wealth, ceiling
from oracle.audit.randomness import Randomness
from oracle.errors import InputError
from oracle.mechanisms.choice.edges import cut_candidates
from oracle.mechanisms.grid import EDGES, number_at
from oracle.mechanisms.thresholds.stopper import Stopper
from oracle.planning.bisection.model import BisectionPlan
from oracle.planning.guarantees import query_guarantee, training_event
from oracle.planning.kinds import KINDS
from oracle.planning.planner import verify_plan
from oracle.predictors import sides
from oracle.predictors.bisection.predictor import Bisection
from oracle.predictors.kinds import new_trainer
from tests.accounting.worst_case import worst_delta
from tests.audit.games.recorded import recorded

SEED = bytes(range(16, 32))


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
@pytest.mark.parametrize("law", ["logistic", "discrete-laplace"])
def test_between_thresholds_stays_below_its_claim_and_comes_near(law, epsilon):
    """The exact worst strategy proves more than a quarter of the claim, and not more than all of it."""
    found = run_cell(Cell("between-thresholds", law, "dynamic program", epsilon, 0.01, 20_000), SEED, 1e-3, limit=False)
    assert epsilon / NEAR < found.lowest <= epsilon


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [2.0, 4.0])
@pytest.mark.parametrize(("law", "strategy"), QUESTIONERS)
def test_paid_questions_stay_below_their_claim_and_are_come_near(law, strategy, epsilon):
    """They prove more than a quarter of the claim (an eighth of one without delta), and not more than all of it."""
    delta = 0.0 if law == "exponential" else 0.01
    found = run_cell(Cell("paid-questions", law, strategy, epsilon, delta, 12_000), SEED, 1e-3, limit=False)
    assert epsilon / (2.0 * NEAR if law == "exponential" else NEAR) < found.lowest <= epsilon


@pytest.mark.long
@pytest.mark.parametrize("law", ["gumbel", "logistic", "exponential"])
def test_the_loss_of_paid_questions_is_that_of_their_law(law):
    """Its exponential has mean 1 in the world without the record, and falls by as much in the other."""
    strategy = next(name for its, name in QUESTIONERS if its == law)
    shape = questioner(law, strategy, 1.0, 0.0 if law == "exponential" else 0.01)
    absent, present = (
        play_questions(shape, 6_000, Randomness(SEED, f"{law}{world}"), present=bool(world))[:, 0] for world in (0, 1)
    )
    for ratios in (np.exp(absent), np.exp(-present)):
        assert abs(ratios.mean() - 1.0) < 5.0 * ratios.std() / math.sqrt(len(ratios))
    assert ratios.std() > 0.1


def test_a_strategy_is_for_its_law():
    """Gumbel noise is not asked between two thresholds."""
    with pytest.raises(InputError, match="strategy"):
        questioner("gumbel", "rarely not above", 1.0, 0.01)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_the_stopper_stays_below_its_claim_and_comes_near(epsilon):
    """The strongest attack by the exact law of halting proves more than a quarter of the claim."""
    shape = next(iter(stopper_shapes(Stopper(epsilon, 20), 4_000)))
    cell = Cell(
        "stopper",
        "discrete-laplace",
        f"{shape.count} of 20 mediums held for {shape.rounds} rounds",
        epsilon,
        0.0,
        8_000,
    )
    found = run_cell(cell, SEED, 1e-3, limit=False)
    assert epsilon / NEAR < found.lowest <= epsilon


@pytest.mark.slow
def test_a_whole_predictor_stays_below_its_claim_and_comes_near():
    """Against a whole predictor the strongest adversary proves more than a quarter of the claim."""
    cell = Cell("predictor", TARGETS[0].name, "hammer", 4.0, 0.01, 5_000)
    found = run_cell(cell, SEED, 1e-3, limit=False)
    assert 4.0 / NEAR < found.lowest <= 4.0


@pytest.mark.parametrize(("phase", "adversary"), [(0, "hammer"), (1, "phase-end crosser")])
def test_a_side_with_next_to_no_noise_is_found_where_it_is(monkeypatch, phase, adversary):
    """In either phase it shows at the edge only, where the claimed noise would tell less: with few games."""

    def quiet(plan, secret):
        phases = list(plan.phases)
        start = phases[phase].start
        phases[phase] = msgspec.structs.replace(
            phases[phase], start=msgspec.structs.replace(start, scale=30.0 * start.scale)
        )
        return new_trainer(msgspec.structs.replace(plan, phases=tuple(phases)), secret)

    cell = Cell("predictor", TARGETS[0].name, adversary, 1.0, 0.01, 400)
    monkeypatch.setattr(game, "new_trainer", quiet)
    found = run_cell(cell, SEED, 1e-4, limit=False)
    assert found.refutes
    assert found.games < 200
    assert found.aim == "edge"


@pytest.mark.slow
def test_a_side_armed_again_with_next_to_no_noise_is_found(monkeypatch):
    """By who knows all of its points but one; with the noise that is claimed nothing is refuted."""
    cell = Cell("predictor", WIDE.name, KNOWN_LIFE, 2.0, 0.01, 400)
    assert not run_cell(replace(cell, games=64), SEED, 1e-5, limit=False).refutes
    real = sides.SideBank.__dict__["begin"].__func__

    def begin(cls, phase, *rest):
        rearmed = msgspec.structs.replace(phase.rearmed, scale=30.0 * phase.rearmed.scale)
        return real(cls, msgspec.structs.replace(phase, rearmed=rearmed), *rest)

    monkeypatch.setattr(sides.SideBank, "begin", classmethod(begin))
    assert run_cell(cell, SEED, 1e-5, limit=False).refutes


@pytest.mark.parametrize("target", TARGETS, ids=lambda one: one.name)
@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_every_adversary_plays_every_predictor(target, adversary):
    """A few games of each: the same numbers of features, and no refuted claim."""
    cell = Cell("predictor", target.name, adversary, 8.0, 0.05, 16)
    found = run_cell(cell, SEED, 1e-6, limit=False)
    assert found.lowest <= 8.0
    assert found.nominal == (target.profile == "paper")


@pytest.mark.parametrize("target", [one for one in TARGETS if one.profile == "tight"], ids=lambda one: one.name)
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_small_plans_are_proved(target, epsilon):
    """The accountant passes every figure of the plans under attack, and none of one that claims a tenth less."""
    plan = small_plan(target, epsilon, 0.01)
    verify_plan(plan)
    for index in range(len(plan.phases)):
        assert query_guarantee(plan, index).delta <= 0.01
    assert delta_at(training_event(plan), 0.9 * plan.epsilon) > 0.7 * 0.01


def test_the_policy_reaches_what_the_accountants_dynamic_program_says():
    """Its value is no more than the worst case over both orders, and not far below it."""
    instance = between_instance("discrete-laplace", 2.0, 0.01, 4)
    ours = between_policy(instance, 4, 2.0).value
    worst = worst_delta("discrete-laplace", instance.scale, instance.high - instance.low, 4, 2.0, cells=6, reach=6)
    assert 0.8 * worst < ours < 1.05 * worst


def test_the_law_of_halting_is_the_mechanisms():
    """Frequencies of the real Stopper's halting rounds agree with the exact law that steers the attacks."""
    stopper = Stopper(1.0, 20)
    law = halting_law(stopper, 18, 6)
    assert law.sum() == pytest.approx(1.0, abs=1e-9)
    rng = np.random.default_rng(6)
    halted = np.zeros(7)
    for _ in range(3_000):
        level = stopper.level(rng.integers(0, 2**64, 2, dtype=np.uint64))
        words = rng.integers(0, 2**64, (6, 2), dtype=np.uint64)
        halts = stopper.halts(np.full(6, 18), level, words)
        halted[int(halts.argmax()) if halts.any() else 6] += 1
    expected = 3_000 * law
    assert float(((halted - expected) ** 2 / expected).sum()) < 28.0  # chi-squared of 6 degrees, 1e-4


def test_the_worst_depth_is_above_the_window():
    """Where mediums are rare, many answers come before the halt."""
    instance = between_instance("logistic", 2.0, 0.01, 12)
    assert instance.high <= worst_depth(instance, 12, 10_000) < instance.points


def test_the_adversary_has_one_record():
    """A second hidden record is refused, and so are queries before the training rows."""
    plan = small_plan(TARGETS[0], 4.0, 0.01)
    game = Game(plan, bytes(32), present=True)
    with pytest.raises(InputError, match="rows"):
        game.ask(np.array([1.0]))
    game.train(np.array([1.0]), np.array([True]), challenge=0)
    with pytest.raises(InputError, match="challenge"):
        game.challenge(1.0)


def test_the_hidden_record_is_all_that_differs():
    """Without the record its row is blanked, or its round has no query; all else is the same, round for round."""
    plan = small_plan(TARGETS[0], 4.0, 0.01)
    rounds = []
    for present in (False, True):
        game = Game(plan, bytes(32), present=present)
        game.train(np.array([1.0, 2.0]), np.array([True, True]))
        game.challenge(1.5)
        assert len(game.ask(np.array([1.0, 5.0]))) == 2
        rounds.append(game.round)
    assert rounds == [3, 3]


def test_the_matrix_holds_every_predictor_and_profile():
    """Every kind of predictor, in every profile, is attacked at every claim, and no cell comes twice."""
    cells = all_cells(1_000, (2.0, 4.0))
    assert len({cell.name for cell in cells}) == len(cells)
    assert {target.predictor for target in TARGETS} | {learner.predictor for learner in LEARNERS} == set(KINDS)
    attacked = {(cell.target, cell.adversary, cell.epsilon) for cell in cells if cell.level == "predictor"}
    others = len(ADVERSARIES) - 1  # a known life has a target of its own
    assert len(attacked) == 2 * (len(TARGETS) * others + len(LEARNERS) + 1)
    assert {name for _, name, _ in attacked} >= {*ADVERSARIES}


def test_whoever_attacks_a_proved_claim_could_refute_it():
    """Every attack has so many games that something with no privacy at all would be refuted by them."""
    nominal = {target.name for target in TARGETS if target.profile == "paper"}
    cells = all_cells(1_000, (2.0, 4.0))
    assert len(cells) < 900
    for cell in cells:
        if cell.target not in nominal:
            assert ceiling(cell.games, cell.delta, 1e-3 / len(cells)) > cell.epsilon, cell


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda one: one.name)
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_plans_of_learners_are_the_planners(learner, epsilon):
    """Every figure of a plan without armed sides is the planner's own, at the claim that is attacked."""
    plan = learner.plan(epsilon)
    verify_plan(plan)
    assert plan.epsilon == epsilon
    assert max(phase.delta for phase in plan.phases) <= learner.delta


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "games", "factor"),
    [
        ("classical box, one side", 1_000, 2.6),
        ("classical box, whole", 1_000, 4.0),
        ("classical box, faces", 1_200, 5.0),
        ("classical stump", 1_000, 2.5),
        ("bisection, efficient", 700, 4.0),
        ("sparse vector, few", 1_000, 7.0),
        ("sparse vector", 2_000, 8.0),
    ],
)
def test_learners_stay_below_their_claims_and_someone_comes_near(name, games, factor):
    """Against what is released without armed sides, the adversary proves a good part of the claim."""
    learner = next(one for one in LEARNERS if one.name == name)
    found = run_cell(Cell("predictor", name, learner.adversary, 4.0, learner.delta, games), SEED, 1e-2, limit=False)
    assert 4.0 / factor < found.lowest <= 4.0


def test_a_vote_stays_below_its_claim():
    """The `paper` profile of OnlineBisection shows one cut of its cube, which is worth less than it is charged."""
    learner = next(one for one in LEARNERS if one.name == "bisection, paper")
    found = run_cell(
        Cell("predictor", learner.name, learner.adversary, 4.0, learner.delta, 1_200), SEED, 1e-2, limit=False
    )
    assert 0.1 < found.lowest <= 4.0


@pytest.mark.long
@pytest.mark.parametrize("name", ["statistics", "statistics, complete"])
def test_statistics_stay_below_their_claim(name):
    """Neither who reads the marginals nor who asks where the hypothesis is wrong comes near: there is one of each."""
    learner = next(one for one in LEARNERS if one.name == name)
    found = run_cell(Cell("predictor", name, learner.adversary, 4.0, learner.delta, 400), SEED, 1e-2, limit=False)
    assert found.lowest <= 4.0


def test_a_shadow_reads_every_bit(monkeypatch):
    """What the adversary's own learner infers of the bits is what the oracle gave."""
    plan = LEARNERS[4].plan(4.0)
    assert isinstance(plan, BisectionPlan)
    game = Game(plan, bytes(range(32)), present=True)
    game.train(np.ones(1), np.ones(1, dtype=np.bool_), challenge=0)
    predictor, given = game.predictor, []
    assert isinstance(predictor, Bisection)
    real = predictor._oracle.ask

    def ask(*asked):
        given.append(real(*asked))
        return given[-1]

    monkeypatch.setattr(predictor._oracle, "ask", ask)
    assert [bit for _, bit in shadow_bits(plan, predictor)] == np.concatenate(given).tolist()


def test_blanking_a_row_as_0_is_an_exchange_for_stumps():
    """A row labelled 0 costs a stump's edges a loss of their own: there only a row that is left out is not there.

    An edge gets the row at 0.7 labelled 1 wrong if it is above, and labelled 0 if it is below: the losses change by
    amounts within 2 of each other, where the plan pays for 1.
    """
    grid, labels = np.array([10, 70], dtype=np.uint64), np.array([True, True])
    changes = []
    for other in ((grid[:1], labels[:1]), (grid, np.array([True, False]))):
        losses = [np.zeros(100, dtype=np.int64) for _ in range(2)]
        for loss, (records, marks) in zip(losses, ((grid, labels), other), strict=True):
            candidates = cut_candidates(records, marks, 0, 100)
            for start, width, value in zip(candidates.starts, candidates.widths, candidates.losses, strict=True):
                loss[int(start) : int(start + width)] = value
        changes.append(losses[0] - losses[1])
    assert np.ptp(changes[0]) == 1
    assert np.ptp(changes[1]) == 2


def test_a_blanked_row_would_refute_a_stump():
    """Were a row not there taken for one labelled 0, the game would prove more than the claim."""
    learner = LEARNERS[3]
    plan = learner.plan(2.0)
    rest = plan.declared - 1
    views = []
    for world in (0, 1):
        found = []
        for number in range(1_000):
            trainer = new_trainer(plan, bytes([world]) + number.to_bytes(31, "big"))
            labels = np.append(np.arange(rest) < rest // 2, bool(world))
            middle = number_at(int(0.1 * EDGES))
            rows = np.append(np.where(labels[:-1], number_at(EDGES - 2), number_at(0)), middle)
            trainer.add(rows[:, None], labels)
            state = trainer.finish().export()
            found.append(float(state["lower"][0] <= middle and np.isinf(state["upper"][0])))
        views.append(np.array(found)[:, None])
    wealth = Wealth(plan.epsilon, 0.0, 1e-3)
    play_out([recorded(views[0], views[1])], wealth, 1_000)
    assert wealth.refuted
