"""Perpetua, broken on purpose in many ways: what an auditor is for is finding these."""

import hashlib
import itertools
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec
import numpy as np
import pytest

from connectors.base import Deliveries
from oracle.audit.games import learners
from oracle.audit.references import far_out
from oracle.codec.decoded import DecodedBatch
from oracle.mechanisms.addresses import Addresses, Purpose
from oracle.mechanisms.choice import exponential, stripes
from oracle.mechanisms.keys import PhaseKey
from oracle.mechanisms.noise import laws as noise_laws
from oracle.mechanisms.noise import tables as noise
from oracle.mechanisms.noise.tables import Edges
from oracle.mechanisms.thresholds import paid
from oracle.mechanisms.thresholds.challenge import ArmedSide
from oracle.mechanisms.thresholds.paid import HIGH, LOW, BetweenThresholds
from oracle.mechanisms.thresholds.stopper import Stopper
from oracle.mechanisms.windows import Window
from oracle.predictors import classical, rectangles, sides
from oracle.predictors.bisection import predictor, window
from oracle.predictors.bisection.trainer import BisectionTrainer
from oracle.runtime.shard import Outcome, Shard
from tests.audit.planted.distributions import MUTANTS_OF_DISTRIBUTIONS
from tests.audit.planted.ensembles import MUTANTS_OF_ENSEMBLES
from tests.audit.planted.noise import MUTANTS_OF_NOISE
from tests.audit.planted.questions import MUTANTS_OF_QUESTIONS
from tests.audit.planted.tables import MUTANTS_OF_TABLES

__all__ = ["MUTANTS", "forgetting", "planted"]

Patch = pytest.MonkeyPatch


def _louder(patch: Patch) -> None:
    """Noise of half the scale: every answer tells twice as much."""
    real = noise.edges
    patch.setattr(paid, "edges", lambda law, scale, first, last: real(law, 2.0 * scale, first, last))


def _shared_noise(patch: Patch) -> None:
    """Rounds 2i and 2i + 1 share a draw, whatever their queries."""
    real = Addresses.words

    def words(self: Addresses, purpose: Purpose, rounds: Any, sides: Any, hashes: Any) -> Any:
        if purpose == Purpose.DEPTH:
            return real(self, purpose, rounds // np.uint64(2), sides, None)
        return real(self, purpose, rounds, sides, hashes)

    patch.setattr(Addresses, "words", words)


def _drawn_again(patch: Patch) -> None:
    """Each process has noise of its own."""
    real = Addresses.__init__

    def begin(self: Addresses, key: PhaseKey, dimension: int) -> None:
        real(self, PhaseKey(hashlib.sha256(key.secret + secrets.token_bytes(8)).digest()), dimension)

    patch.setattr(Addresses, "__init__", begin)


def _no_rho(patch: Patch) -> None:
    """The Stopper's threshold is not noisy."""
    patch.setattr(Stopper, "level", lambda self, _words: self.threshold)


def _not_counted(patch: Patch) -> None:
    """Mediums are collected, and not counted."""
    real = ArmedSide.first_halt
    patch.setattr(ArmedSide, "first_halt", lambda self, medium, *rest: real(self, np.zeros_like(medium), *rest))
    patch.setattr(rectangles.RectanglesPERP, "_keep", lambda self, decided: self._pending.append(decided))


def _twice_the_points(patch: Patch) -> None:
    """A record is kept twice, so it moves a depth by 2."""
    real = Window.add

    def add(self: Window, keys: Any, records: Any) -> None:
        real(self, np.repeat(keys, 2), np.repeat(records, 2))

    patch.setattr(Window, "add", add)


def _never_capped(patch: Patch) -> None:
    """The Stopper never halts, so K mediums are no limit."""
    patch.setattr(Stopper, "halts", lambda _self, counts, *_rest: np.zeros(len(counts), dtype=np.bool_))


def _narrow(patch: Patch) -> None:
    """The thresholds are next to each other: mediums are rare, and many answers come before K of them."""

    def thresholds(instance: Any) -> BetweenThresholds:
        return BetweenThresholds(instance.law, instance.scale, instance.high - 1, instance.high, instance.points)

    patch.setattr(sides, "_thresholds", thresholds)


def _two_copies(patch: Patch) -> None:
    """A medium query also goes into the harvest."""
    real = rectangles.RectanglesPERP._settle

    def settle(self: Any) -> None:
        nowhere, positive = rectangles._NOWHERE, rectangles._POSITIVE
        self._pending += [
            one._replace(sides=np.where(one.sides >= 0, positive, nowhere).astype(one.sides.dtype))
            for one in self._pending
        ]
        real(self)

    patch.setattr(rectangles.RectanglesPERP, "_settle", settle)


def _follows_the_data(patch: Patch) -> None:
    """The noise of a round depends on the queries before it, as that of a running generator would."""
    real = Addresses.hashes

    def hashes(self: Addresses, features: Any, present: Any) -> Any:
        mixed = real(self, features, present)
        chain = getattr(self, "chain", np.uint64(0))
        mixed = np.bitwise_xor.accumulate(np.append(chain, mixed))[1:]
        self.chain = mixed[-1] if len(mixed) else chain  # type: ignore[attr-defined]  # the mutation
        return mixed

    patch.setattr(Addresses, "hashes", hashes)


def _of_the_query_alone(patch: Patch) -> None:
    """The noise is a function of the query, and not of the round."""
    real = Addresses.words

    def words(self: Addresses, purpose: Purpose, rounds: Any, sides: Any, hashes: Any) -> Any:
        if purpose == Purpose.DEPTH:
            rounds = np.zeros_like(rounds)
        return real(self, purpose, rounds, sides, hashes)

    patch.setattr(Addresses, "words", words)


def _early_exit(patch: Patch) -> None:
    """Sides behind the one that decided are not evaluated."""
    real = ArmedSide.answers
    turn = itertools.count()
    undecided = [True]

    def answers(self: ArmedSide, keys: Any, words: Any) -> Any:
        first = next(turn) % 4 == 0  # of a box with four sides
        if not first and not undecided[0]:
            return np.full(len(keys), LOW, dtype=np.int8)
        outcome = real(self, keys, words)
        undecided[0] = bool((outcome == HIGH).any())
        return outcome

    patch.setattr(ArmedSide, "answers", answers)


def _once_by_id(patch: Patch) -> None:
    """A second message with an id gets the first one's answer, and no round."""
    real = Shard.process

    def process(self: Shard, batch: DecodedBatch) -> Outcome:
        deliveries = list(batch.deliveries.rows())
        first = {msgspec.json.decode(one.body or b"")["id"]: one for one in reversed(deliveries)}
        return real(self, self.decode(Deliveries.of(one for one in deliveries if one in first.values())))

    patch.setattr(Shard, "process", process)


def _floats(patch: Patch) -> None:
    """The noise's edges are rounded to floating-point numbers."""
    real = noise.edges

    def rounded(*arguments: Any) -> Edges:
        table = real(*arguments)
        return Edges(table.first, table.high & ~np.uint64(0x7FF), np.zeros_like(table.low))

    patch.setattr(paid, "edges", rounded)


def _one_key(patch: Patch) -> None:
    """All phases have one key."""
    patch.setattr(PhaseKey, "ratchet", lambda self: self)


def _one_for_two(patch: Patch) -> None:
    """A choice whose losses may move by 2 against each other is charged as if they moved by 1."""
    real = exponential.choose_exactly
    patch.setattr(classical, "choose_exactly", lambda scale, near, bits: real(2.0 * scale, near, bits))


def _sure_edges(patch: Patch) -> None:
    """Edges by which records are assigned are the best ones, or nearly."""
    real = exponential.choose_exactly
    patch.setattr(stripes, "choose_exactly", lambda scale, near, bits: real(100.0 * scale, near, bits))


def _sure_count(patch: Patch) -> None:
    """What the sides got is counted without noise."""
    patch.setattr(rectangles, "sample", lambda _law, _scale, _words: np.zeros(1, dtype=np.int64))


def _louder_bits(patch: Patch) -> None:
    """The oracle's noise has a quarter of its scale; the learner knows."""
    real = noise_laws.named_law
    for module in (predictor, window, learners):
        patch.setattr(module, "named_law", lambda name, scale: real(name, scale / 4.0))


def _heavy_row(patch: Patch) -> None:
    """The last row counts twice in the mean."""
    real = BisectionTrainer.add

    def add(self: BisectionTrainer, features: Any, labels: Any) -> None:
        real(self, features, labels)
        self._sums += np.rint(features[-1] * labels[-1] * 2.0**30).astype(np.int64)

    patch.setattr(BisectionTrainer, "add", add)


MUTANTS: Final[dict[str, Callable[[Patch], None]]] = {
    "noise scale halved": _louder,
    "one draw for two rounds": _shared_noise,
    "noise drawn again after a restart": _drawn_again,
    "Stopper without rho": _no_rho,
    "mediums not counted": _not_counted,
    "a record twice in a side": _twice_the_points,
    "K never capped": _never_capped,
    "thresholds too close": _narrow,
    "a query in two places": _two_copies,
    "noise that follows earlier data": _follows_the_data,
    "noise of the query alone": _of_the_query_alone,
    "early exit": _early_exit,
    "one answer by id": _once_by_id,
    "float noise": _floats,
    "key not ratcheted": _one_key,
    "a side's choice pays once for two": _one_for_two,
    "edges without noise": _sure_edges,
    "a count without noise": _sure_count,
    "bits of a quarter of the noise": _louder_bits,
    "a row weighs twice in the mean": _heavy_row,
    **MUTANTS_OF_NOISE,
    **MUTANTS_OF_QUESTIONS,
    **MUTANTS_OF_TABLES,
    **MUTANTS_OF_ENSEMBLES,
    **MUTANTS_OF_DISTRIBUTIONS,
}
"""What breaks it, by name."""


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Break Perpetua for a while."""
    with forgetting(), pytest.MonkeyPatch.context() as patch:
        MUTANTS[name](patch)
        yield


@contextmanager
def forgetting() -> Iterator[None]:
    """Let nothing be remembered of a broken Perpetua, or of the real one while it is broken."""
    _forget()
    try:
        yield
    finally:
        _forget()


def _forget() -> None:
    for made in (far_out.wrong_far_out, far_out.exact_choice, noise.edges):
        made.cache_clear()
