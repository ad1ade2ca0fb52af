"""Fuzzing the codecs together with the shard: every message gets one reply, and a rejected one leaves no trace."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from connectors.base import ARROW_STREAM, JSON, Deliveries, Delivery, Reply
from oracle.codec.arrow.messages import ArrowQueries
from oracle.codec.batches import BatchCodec
from oracle.codec.decoded import DecodedBatch
from oracle.codec.guarded import Codec
from oracle.codec.rejections import Rejection
from oracle.planning.features import Feature
from oracle.planning.model import Limits
from oracle.planning.plan import BoxPlan, Plan
from oracle.predictors.base import Answers
from oracle.runtime.shard import Shard
from tests.predictors.plans import feature, tiny_ensemble_plan, tiny_plan
from tests.predictors.texts import text
from tests.storms.fuzz.distributions import distribution_plans, judge_place, place
from tests.storms.fuzz.messages import delivery
from tests.storms.fuzz.questions import judge_question, question, question_plans
from tests.storms.fuzz.verdicts import BrokenPromiseError, Verdict, expect, judge, read
from tests.support.shards import new_shard, process, same_state, state_of
from tests.support.tables import made_up_shard

RUN = 1_000
"""Messages of one run; each starts with a fresh state."""

_BATCH = 200
_SINGLY = 5  # of how many batches one is processed message by message; the others are cut into pieces of some 20
_SAMPLE = 10  # of how many rejected messages one has the whole state compared around it
_LONG = 40  # messages that are read together, at least
_MOST_ROUNDS = 3_000  # more rounds than a batch can take
_TYPED = (
    text("s"),
    feature("a"),
    Feature(name="d", type="date"),
    Feature(name="p", type="decimal", places=2),
)


_CATEGORIES = Feature(name="c", categories=("EWR", "jfk", "é", 'a"b'))
_MISSING = (
    (Feature(name="a"), Feature(name="b")),
    (Feature(name="a"), _CATEGORIES, Feature(name="b")),
    (_CATEGORIES, Feature(name="e", categories=("x", ""))),
    (_CATEGORIES, Feature(name="a"), Feature(name="d", type="date"), Feature(name="p", type="decimal", places=2)),
)


@cache
def _plans() -> tuple[BoxPlan, ...]:
    """Return models with usual names, with odd names and small limits, with one feature, and with all types."""
    many = {"points": (12, 15, 10, 13) * 4, "rounds": 400}
    usual = tiny_plan([feature("a"), feature("b")], **many)  # type: ignore[arg-type]  # both are what it takes
    odd = tiny_plan([feature("Größe"), feature("b`$.x"), feature("x.a")], **many)  # type: ignore[arg-type]
    small = Limits(body_bytes=300, batch_bytes=3_000, id_bytes=16, rows=12)
    one = tiny_plan([feature("a")], **many)  # type: ignore[arg-type]
    typed = tiny_plan(_TYPED, slicing="sequential", **many)  # type: ignore[arg-type]
    return usual, msgspec.structs.replace(odd, limits=small), one, typed


def fuzz_codecs(seed: int, run: int, counts: Counter[tuple[str, str]], messages: int = RUN) -> None:
    """Put one run of messages through, in batches and one by one, and count what became of them.

    Raises:
        BrokenPromiseError: With the message that showed it.
    """
    plan = _plans()[run % len(_plans())]
    make = partial(_shard, plan)
    target = _Target(plan, make, lambda rng, number: delivery(rng, number, plan.features), partial(judge, plan))
    _fuzz(target, f"{seed} codecs {run}", run, counts, messages)


def fuzz_questions(seed: int, run: int, counts: Counter[tuple[str, str]], messages: int = RUN) -> None:
    """Put one run of questions about a table through, as `fuzz_codecs` does.

    Raises:
        BrokenPromiseError: With the message that showed it.
    """
    plan = question_plans()[run % len(question_plans())]
    make = partial(made_up_shard, plan)
    target = _Target(plan, make, partial(question, plan), partial(judge_question, plan), "question")
    _fuzz(target, f"{seed} questions {run}", run, counts, messages)


def fuzz_distributions(seed: int, run: int, counts: Counter[tuple[str, str]], messages: int = RUN) -> None:
    """Put one run of questions about a distribution through, as `fuzz_codecs` does.

    Raises:
        BrokenPromiseError: With the message that showed it.
    """
    plan = distribution_plans()[run % len(distribution_plans())]
    make = partial(made_up_shard, plan)
    target = _Target(plan, make, partial(place, plan), partial(judge_place, plan), "place")
    _fuzz(target, f"{seed} distributions {run}", run, counts, messages)


def fuzz_missing(seed: int, run: int, counts: Counter[tuple[str, str]], messages: int = RUN) -> None:
    """Read messages of an ensemble, whose values may be missing, in batches and one by one; count what became of them.

    Raises:
        BrokenPromiseError: With the message that showed it.
    """
    rng = random.Random(f"{seed} missing {run}")  # noqa: S311  # test data
    plan = tiny_ensemble_plan(_MISSING[run % len(_MISSING)])
    codec = BatchCodec(plan)
    for start in range(0, messages, _BATCH):
        batch = [delivery(rng, start + number, plan.features) for number in range(1, _BATCH + 1)]
        whole = codec.decode(Deliveries.of(batch))
        answers = _any_answers(rng, whole.present)
        replies = codec.encode(whole, answers).rows()
        for message, reply, begin, end in zip(batch, replies, [0, *whole.ends], whole.ends, strict=False):
            rows, given = whole.features[begin:end].tolist(), answers.part(begin, end)
            alone = codec.decode(Deliveries.of([message]))
            try:
                expect(alone.features.tolist() == rows, "alone it is read as in a batch")
                expect(list(codec.encode(alone, given).rows()) == [reply], "alone it is answered as in a batch")
                verdict = judge(plan, message, reply, rows)
            except Exception as exc:
                raise BrokenPromiseError(f"{type(exc).__name__}: {exc}: {message} -> {reply}") from exc
            counts[_kind(message, "JSON"), verdict.outcome] += 1
        _read_together(codec, whole)


def _read_together(codec: BatchCodec, whole: DecodedBatch) -> None:
    """Read the good JSON queries of a batch once more, those of one form together, as they come where all are good.

    Raises:
        BrokenPromiseError: Some are read otherwise.
    """
    forms: dict[object, list[tuple[Delivery, list[float]]]] = {}
    for message, part, end in zip(whole.deliveries.rows(), whole.parts, whole.ends, strict=True):
        known = None if message.body is None else read(message.body)
        if isinstance(part, Rejection | ArrowQueries) or known is None or message.body is None:
            continue
        assert isinstance(known.document, dict)
        form = type(known.document.get("x")), frozenset(known.document) & {"a", "b", "c", "d", "e", "p"}
        line = message._replace(body=message.body.replace(b"\n", b" "))
        forms.setdefault(form, []).append((line, whole.features[end - 1].tolist()))
    for queries in forms.values():
        some = queries * -(-_LONG // len(queries))
        again = codec.decode(Deliveries.of([message for message, _ in some]))
        expect(again.features.tolist() == [row for _, row in some], f"read together they are other rows: {some}")


def _any_answers(rng: random.Random, present: NDArray[np.bool_]) -> Answers:
    labels = np.array([rng.randrange(2) if there else -1 for there in present.tolist()], dtype=np.int8)
    return Answers(labels, 0, np.ones(len(labels), np.int64), np.zeros(2, np.uint64), ())


class _Target(NamedTuple):
    """What is fuzzed: a model, how a shard of it begins, its messages, and who judges the replies."""

    plan: Plan
    fresh: Callable[[], Shard]
    delivery: Callable[[random.Random, int], Delivery]
    judge: Callable[[Delivery, Reply, Sequence[Sequence[float]]], Verdict]
    json: str = "JSON"


def _fuzz(target: _Target, seed: str, run: int, counts: Counter[tuple[str, str]], messages: int) -> None:
    rng = random.Random(seed)  # noqa: S311  # test data
    shards = _three(target)
    for start in range(0, messages, _BATCH):
        if shards[0].facts().round > target.plan.rounds - _MOST_ROUNDS:
            shards = _three(target)
        batch = [target.delivery(rng, start + number) for number in range(1, _BATCH + 1)]
        _check_batch(target, shards, batch, counts, rng, singly=start // _BATCH % _SINGLY == run % _SINGLY)


def _shard(plan: BoxPlan) -> Shard:
    return new_shard(plan)


def _three(target: _Target) -> tuple[Shard, Shard, Shard]:
    return target.fresh(), target.fresh(), target.fresh()


def _check_batch(  # noqa: PLR0913 -- all that a batch is checked with
    target: _Target,
    shards: tuple[Shard, Shard, Shard],
    batch: list[Delivery],
    counts: Counter[tuple[str, str]],
    rng: random.Random,
    *,
    singly: bool,
) -> None:
    plan = target.plan
    whole, single, kept_only = shards
    try:
        decoded = whole._codec.decode(Deliveries.of(batch))
        outcome = process(whole, batch)
    except Exception as exc:
        _one_by_one(plan, single, batch, rng)
        raise BrokenPromiseError(f"{type(exc).__name__}: {exc}, of the batch only: {batch}") from exc
    if outcome.failures:  # the net below the codec has caught them; they are faults of the codec all the same
        errors = {error for _, error in outcome.failures}
        raise BrokenPromiseError(f"{', '.join(sorted(errors))}: rejected as internal: {batch}")
    replies, ledger = (_one_by_one if singly else _in_pieces)(plan, single, batch, rng)
    given = list(outcome.commit.replies.rows()), list(outcome.commit.ledger), whole.mark
    if given != (replies, ledger, single.mark):
        raise BrokenPromiseError(f"cut otherwise, other replies are given: {batch}")
    rounds = begin = 0
    for message, reply, end in zip(batch, replies, decoded.ends, strict=True):
        try:
            verdict = target.judge(message, reply, decoded.features[begin:end].tolist())
        except Exception as exc:
            raise BrokenPromiseError(f"{type(exc).__name__}: {exc}: {message} -> {reply}") from exc
        rounds, begin = rounds + verdict.rounds, end
        counts[_kind(message, target.json), verdict.outcome] += 1
    _read_ones(whole._codec, decoded)
    if rounds != outcome.rounds:
        raise BrokenPromiseError(f"the replies tell of {rounds} rounds, {outcome.rounds} were taken: {batch}")
    kept = [message for message, reply in zip(batch, replies, strict=True) if not reply.rejected]
    answers = list(process(kept_only, kept).commit.replies.rows()) if kept else []
    if answers != [reply for reply in replies if not reply.rejected] or kept_only.mark != whole.mark:
        raise BrokenPromiseError(f"without its rejected messages the batch is answered otherwise: {batch}")
    states = [state_of(shard) for shard in shards]
    if not (same_state(states[0], states[1]) and same_state(states[0], states[2])):
        raise BrokenPromiseError(f"the states differ: {batch}")


def _read_ones(codec: Codec, whole: DecodedBatch) -> None:
    """Read the good messages of one row of JSON once more, together.

    Raises:
        BrokenPromiseError: Some are read otherwise.
    """
    parts = zip(whole.deliveries.rows(), whole.parts, whole.ends, strict=True)
    ones = [
        (message._replace(body=message.body.replace(b"\n", b" ")), whole.features[end - 1].tolist())
        for message, part, end in parts
        if message.body is not None and (part is None or isinstance(part, str | int))
    ]
    some = ones * -(-_LONG // max(len(ones), 1))
    again = codec.decode(Deliveries.of([message for message, _ in some]))
    if again.features.tolist() != [row for _, row in some]:
        raise BrokenPromiseError(f"read together they are other rows: {some}")


def _one_by_one(plan: Plan, shard: Shard, batch: list[Delivery], rng: random.Random):
    """Process messages singly; return replies and ledger."""
    replies: list[Reply] = []
    ledger: list[bytes] = []
    for message in batch:
        before = shard.mark
        state = state_of(shard) if rng.randrange(_SAMPLE) == 0 else None
        try:
            outcome = process(shard, [message])
        except Exception as exc:
            raise BrokenPromiseError(f"{plan.name}: {type(exc).__name__}: {exc}: {message}") from exc
        if len(outcome.commit.replies) != 1:
            raise BrokenPromiseError(f"{len(outcome.commit.replies)} replies: {message}")
        (reply,) = outcome.commit.replies.rows()
        if reply.rejected and (outcome.rounds or outcome.commit.ledger or shard.mark != before):
            raise BrokenPromiseError(f"a rejected message took a round: {message}")
        if shard.mark.round != before.round + outcome.rounds:
            raise BrokenPromiseError(f"other rounds than were told: {message}")
        if reply.rejected and state is not None and not same_state(state, state_of(shard)):
            raise BrokenPromiseError(f"a rejected message changed the state: {message}")
        replies.append(reply)
        ledger += outcome.commit.ledger
    return replies, ledger


def _in_pieces(_plan: Plan, shard: Shard, batch: list[Delivery], rng: random.Random):
    """Process messages in pieces; return replies and ledger."""
    replies: list[Reply] = []
    ledger: list[bytes] = []
    start = 0
    while start < len(batch):
        commit = process(shard, batch[start : (start := start + rng.randint(1, 40))]).commit
        replies += commit.replies.rows()
        ledger += commit.ledger
    return replies, ledger


def _kind(message: Delivery, json: str) -> str:
    if message.body is None:
        return "tombstone"
    return {JSON: json, ARROW_STREAM: "Arrow"}.get(message.content_type, "other content")
