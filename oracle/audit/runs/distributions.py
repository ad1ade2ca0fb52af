"""Whole runs of distributions, from messages to replies and a ledger, beside a plain re-implementation of them.

Their plans are such in form only: no two numbers are equal, and within a hundred messages most thresholds retire, and
the comparisons are used up that the error is promised for; no accountant would pass the noise.
"""

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from oracle.accounting.ledger import LedgerEvent
from oracle.audit.randomness import Draws, Randomness
from oracle.audit.references.distributions import Given, Plain, count_of, number_of, row_of, value_of
from oracle.audit.runs.served import Served
from oracle.audit.runs.unique_noise import all_drawn, recorded
from oracle.planning.distribution.model import DistributionPlan, LadderPlan
from oracle.planning.features import Feature
from oracle.planning.plan import Phase
from oracle.planning.questions import QuestionLimits
from oracle.predictors.base import Predictor
from oracle.predictors.kinds import new_trainer

__all__ = ["TYPES", "Run", "play", "said", "trained_on", "uneven_distribution"]

TYPES: Final = (
    Feature(name="v"),
    Feature(name="v", type="string", max_bytes=2),
    Feature(name="v", type="decimal", places=3),
    Feature(name="v", type="date"),
)

_SILENT, _WRONG, _AGAIN, _QUANTILE, _LIST, _BLANK = 0.06, 0.05, 0.15, 0.2, 0.2, 0.1
_ANY: Final = 0.3
_BATCHES: Final = 12
_KNOWN, _FEW = 25, 3
"""Values that most rows have; of few, each is that of so many that searches for quantiles go on to the last step."""

_MOST: Final = 4


class Question(NamedTuple):
    """What a message asks: a row for each part; None where it is no question.

    Attributes:
        body: The message.
        at: Numbers of values.
        quantiles: Shares.
        several: Whether it is a list.
    """

    body: bytes | None
    at: Sequence[int] = ()
    quantiles: Sequence[float] = ()
    several: bool = False


class Run(NamedTuple):
    """What came of a run, and what should have.

    Attributes:
        plan: The plan.
        replies: To all messages.
        ledger: What the ledger says.
        plain: The re-implementation, which has answered the same.
        expected: What each reply says; None for that to no question.
        drawn: Whether all words of the re-implementation were drawn.
    """

    plan: DistributionPlan
    replies: Sequence[bytes]
    ledger: Sequence[LedgerEvent]
    plain: Plain
    expected: Sequence[Any]
    drawn: bool


def uneven_distribution(draws: Draws, feature: Feature) -> DistributionPlan:
    """Return a plan of a few rows and thresholds, no two numbers of which are equal.

    Args:
        draws: Sizes are drawn.
        feature: The values' feature.
    """
    rows, thresholds, gap = 90 + draws.below(40), 4 + draws.below(4), 1 + draws.below(3)
    margin = 8 + draws.below(2)
    width = -(-(rows + thresholds * (2 * margin + gap)) // (thresholds + 1))
    error = (width + 1) / (2.0 * rows)
    return DistributionPlan(
        name="audited",
        predictor="distribution",
        profile="tight",
        features=(feature,),
        epsilon=4.0,
        delta=0.01,
        alpha=error * 1.01,
        beta=0.05,
        gamma=1.0,
        examples=rows,
        declared=rows,
        questions=35,
        comparisons=18 + draws.below(60),
        paid=thresholds,
        error=error,
        ladder=LadderPlan(slope=0.5 + draws.one(), gap=gap, margin=margin, width=width),
        limits=QuestionLimits(rows=_MOST),
        phases=(Phase(phase=1, rounds=1 << 40, delta=0.01),),
        memory_bytes=0,
    )


def play(plan: DistributionPlan, randomness: Randomness, number: int, messages: int) -> Run:
    """Play a run of random rows and messages, through shards, snapshots and restarts.

    Args:
        plan: The plan.
        randomness: Of the key, the rows and the messages.
        number: Of the run; the first ones have one of each type.
        messages: How many.
    """
    secret, draws = randomness.secret(number), Draws(randomness, number)
    known = [draws.below(count_of(plan.feature)) for _ in range(_KNOWN if number < len(TYPES) else _FEW)]
    rows = [_some_value(plan, draws, known) for _ in range(plan.declared)]
    there = draws.uniform(plan.declared) >= _BLANK
    served = Served(plan, trained_on(plan, secret, rows, there.tolist()))
    questions = _questions(plan, draws, known, messages)
    with recorded() as words:
        list(served.turns([one.body for one in questions], [1 + cut for cut in draws.some(_BATCHES, messages - 1)]))
    plain = Plain(plan, secret, [row for row, present in zip(rows, there.tolist(), strict=True) if present])
    expected = [_expected(plan, plain, question) for question in questions]
    ledger = [msgspec.json.decode(line, type=LedgerEvent) for line in served.ledger]
    return Run(plan, served.replies, ledger, plain, expected, all_drawn(plain.drawn, words))


def trained_on(plan: DistributionPlan, secret: bytes, rows: Sequence[int], there: Sequence[bool]) -> Predictor:
    """Return a predictor of rows, given as numbers of their values; some may be blanked."""
    trainer = new_trainer(plan, secret)
    trainer.add(np.array([[row_of(plan.feature, row)] for row in rows]), np.array(there, dtype=np.bool_))
    return trainer.finish()


def _some_value(plan: DistributionPlan, draws: Draws, known: Sequence[int]) -> int:
    """Return one of a few values, one next to it, or any."""
    if draws.one() < _ANY:
        return draws.below(count_of(plan.feature))
    beside = known[draws.below(len(known))] + draws.below(3) - 1
    return min(max(beside, 0), count_of(plan.feature) - 1)


def _questions(plan: DistributionPlan, draws: Draws, known: Sequence[int], count: int) -> list[Question]:
    """Return questions, some of them again, some that are none, and some rounds with none."""
    questions: list[Question] = []
    while len(questions) < count:
        kind = draws.one()
        if kind < _WRONG:
            questions.append(Question(b'{"id":"w","nobody":1}'))
        elif kind < _WRONG + _SILENT:
            questions.append(Question(None))
        elif questions and kind < _WRONG + _SILENT + _AGAIN:
            questions.append(questions[draws.below(len(questions))])
        else:
            questions.append(_question(plan, draws, known, f"q{len(questions)}"))
    return questions


def _question(plan: DistributionPlan, draws: Draws, known: Sequence[int], identifier: str) -> Question:
    several = draws.one() < _LIST
    count = 1 + draws.below(_MOST) if several else 1
    if draws.one() < _QUANTILE:
        shares = draws.uniform(count).tolist()
        return Question(_body(identifier, "quantile", shares, several), quantiles=shares, several=several)
    at = [_some_value(plan, draws, known) for _ in range(count)]
    values = [value_of(plan.feature, number) for number in at]
    return Question(_body(identifier, "at", values, several), at=at, several=several)


def _body(identifier: str, field: str, values: Sequence[Any], several: bool) -> bytes:  # noqa: FBT001
    return json.dumps({"id": identifier, field: list(values) if several else values[0]}).encode()


def _expected(plan: DistributionPlan, plain: Plain, question: Question) -> Any:  # noqa: ANN401 -- JSON
    """Return what the reply to a message says."""
    if question.body is None:
        return _reply(plan, [plain.answer()], None, plain.round - 1, several=False)
    identifier, first = json.loads(question.body)["id"], plain.round
    given = [plain.answer(at=number) for number in question.at]
    given += [plain.answer(quantile=share) for share in question.quantiles]
    return _reply(plan, given, identifier, first, several=question.several) if given else None


def _reply(
    plan: DistributionPlan, given: Sequence[Given], identifier: str | None, first: int, *, several: bool
) -> dict[str, Any]:
    """Return a reply, as JSON has it, but for a quantile the number of its value."""
    error = plan.alpha if all(one.verified for one in given) else None
    around = {"id": identifier, "model": plan.name, "round": first, "error": error, "paid": given[-1].paid}
    values: list[dict[str, Any]] = [
        {"value": one.share, "verified": one.verified} | ({} if one.found is None else {"quantile": one.found})
        for one in given
    ]
    return around | ({"values": values} if several else values[0])


def said(plan: DistributionPlan, reply: bytes) -> Any:  # noqa: ANN401 -- JSON
    """Return a reply as `Run.expected` has it."""
    read = json.loads(reply)
    for one in [read, *read.get("values", ())]:
        if "quantile" in one:
            one["quantile"] = number_of(plan.feature, one["quantile"])
    return read
