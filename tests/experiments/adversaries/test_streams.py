"""Bisection against streams that are chosen against it: what `streams.py` says is promised."""

import numpy as np
import pytest

from oracle.accounting.events import ThresholdBitsEvent
from oracle.accounting.threshold_bits import bits_rho
from oracle.mechanisms.thresholds.bits import BinaryThresholdOracle
from oracle.planning.bisection.model import BisectionPlan
from oracle.predictors.bisection.predictor import Bisection
from oracle.predictors.bisection.trainer import BisectionTrainer
from tests.experiments.adversaries.streams import STREAMS, Stream
from tests.predictors.plans import tiny_bisection_plan
from tests.predictors.suite import same_state

LEARNING, AFTER, BATCH = 480, 96, 16

PLANS = {
    "efficient": tiny_bisection_plan(LEARNING, AFTER, features=("a", "b", "c")),
    "efficient, warm-up": tiny_bisection_plan(LEARNING, AFTER, warmup=40, features=("a", "b", "c")),
    "paper": tiny_bisection_plan(LEARNING, AFTER, profile="paper", features=("a", "b", "c")),
    "paper, warm-up": tiny_bisection_plan(LEARNING, AFTER, profile="paper", warmup=40, features=("a", "b", "c")),
}


def trained(plan: BisectionPlan, mean: float) -> Bisection:
    """Return a predictor of rows with about this mean."""
    trainer = BisectionTrainer(plan, bytes(range(32)))
    rows = np.random.default_rng(1).uniform(0.0, 2.0 * mean, (plan.declared, len(plan.features)))
    trainer.add(rows, np.ones(plan.declared, dtype=np.bool_))
    return trainer.finish()


def play(predictor: Bisection, stream: Stream, batches: int, first: int = 0) -> list[str]:
    """Let the adversary ask so many batches, seeing the hypothesis before each; return all answers."""
    generator, values = np.random.default_rng((2, first)), []
    for batch in range(first, first + batches):
        hypothesis = predictor.hypothesis()
        queries = np.array([stream(BATCH * batch + row, hypothesis, generator) for row in range(BATCH)])
        answers = predictor.answer(queries, np.ones(BATCH, dtype=np.bool_))
        assert answers.values is not None
        assert np.isfinite(answers.values).all()
        values += [value.hex() for value in answers.values.tolist()]
    return values


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_no_stream_takes_more_than_the_ledger_has(plan, stream):
    """Answers and hypothesis stay finite, the bits' cost below what the plan accounts for, and w* goes in the end."""
    predictor = trained(plan, 0.4)
    play(predictor, stream, LEARNING // BATCH)
    ledger = predictor.ledger
    planned = ThresholdBitsEvent(
        bits=LEARNING, law=plan.noise, scale=plan.scale, shift=1.0 / len(plan.features), dimension=len(plan.features)
    )
    assert 0 <= ledger.bits <= LEARNING
    assert ledger.cost <= bits_rho(planned) * (1.0 + 1e-12)
    assert np.isfinite(predictor.hypothesis()).all()
    assert "database" not in predictor.export()
    play(predictor, stream, AFTER // BATCH, LEARNING // BATCH)
    assert predictor.ledger == ledger


def test_some_stream_takes_all_of_it():
    """The costliest query, asked in every round, spends just what the plan accounts for: the bound is no looser."""
    plan = PLANS["efficient"]
    predictor = trained(plan, 0.4)
    play(predictor, STREAMS["all ones"], LEARNING // BATCH)
    shift = 1.0 / len(plan.features)
    assert predictor.ledger.bits == LEARNING
    assert predictor.ledger.cost == pytest.approx(LEARNING * 0.5 * (shift / plan.scale) ** 2, rel=1e-9)


def told_the_same(monkeypatch: pytest.MonkeyPatch, plan: BisectionPlan, stream: Stream) -> bool:
    """Play over two sets of rows, but give the second the first one's bits; return whether all else is the same too."""
    bits: list[np.ndarray] = []
    ask = BinaryThresholdOracle.ask

    def recorded(self, queries, thresholds, words):
        bits.append(ask(self, queries, thresholds, words))
        return bits[-1]

    def repeated(self, queries, thresholds, words):
        ask(self, queries, thresholds, words)
        return bits.pop(0)

    batches = (LEARNING - 2 * BATCH) // BATCH
    answers, states = [], []
    for mean, oracle in ((0.2, recorded), (0.45, repeated)):
        monkeypatch.setattr(BinaryThresholdOracle, "ask", oracle)
        predictor = trained(plan, mean)
        answers.append(play(predictor, stream, batches))
        states.append(dict(predictor.export()))
    databases = [state.pop("database").tobytes() for state in states]
    assert databases[0] != databases[1]
    return answers[0] == answers[1] and same_state(*states)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_nothing_but_bits_comes_from_the_rows(monkeypatch, plan, stream):
    """Over other rows, but given the same bits, answers, ledger and state are the same but for w*."""
    assert told_the_same(monkeypatch, plan, stream)


def test_a_look_at_the_rows_is_noticed(monkeypatch):
    """A learner that looks at w* itself, however little, gives other answers."""
    learn = Bisection._learn

    def peek(self, segment):
        return learn(self, segment) + 1e-12 * segment.features @ self._database

    monkeypatch.setattr(Bisection, "_learn", peek)
    assert not told_the_same(monkeypatch, PLANS["efficient"], STREAMS["all ones"])


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_a_restored_state_answers_on(plan, stream):
    """Killed anywhere, the adversary gets the same answers again, for the same bits."""
    predictor = trained(plan, 0.4)
    play(predictor, stream, 5)
    again = Bisection.restore(plan, predictor.export())
    assert play(predictor, stream, 20, 5) == play(again, stream, 20, 5)
    assert predictor.ledger == again.ledger
