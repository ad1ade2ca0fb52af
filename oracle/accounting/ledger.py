"""Public ledger events: what happened, when (in rounds), and the guarantee it stands under.

Evolution policy: kinds are never removed, fields are never re-used, new fields have defaults, and the meaning of a
field never changes. A reader that meets an unknown kind must refuse, not guess.
"""

from typing import Literal

import msgspec

__all__ = [
    "AnswerPaid",
    "DataUse",
    "LedgerEvent",
    "MarginalsReleased",
    "MessageSkipped",
    "ModelRetired",
    "PersonBound",
    "PhaseEnded",
    "PhaseStarted",
    "PlanEnded",
    "ReplayForked",
    "ScoreReleased",
    "ShardStarted",
    "ShardStopped",
    "SharesReleased",
    "SideRearmed",
    "StartChecked",
    "decode",
    "encode",
]


class DataUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which data set a state was trained on, and what its owner declares of that.

    Attributes:
        name: The owner's name for it.
        model: The model's name.
        use: Random, 32 hex digits: tells states of one name apart.
        epsilon: What a row of the data set may pay for all models together, in nats.
        delta: The same, of delta.
    """

    name: str
    model: str
    use: str
    epsilon: float | msgspec.UnsetType = msgspec.UNSET
    delta: float | msgspec.UnsetType = msgspec.UNSET


class PersonBound(msgspec.Struct, frozen=True):
    """The guarantee of all training rows of one person together.

    Attributes:
        rows: M, how many of them were used at most.
        epsilon: In nats.
        delta: Of the person.
    """

    rows: int
    epsilon: float
    delta: float


class PhaseStarted(msgspec.Struct, frozen=True, tag_field="kind", tag="phase-started"):
    """A phase began.

    Attributes:
        round: First global round of the phase.
        phase: Its number, from 1.
        rounds: How many rounds it lasts.
        epsilon: Per-record epsilon of every record of the phase (nats).
        delta: Per-record delta of every record of the phase.
        delta_spent: Sum of delta over the training records and all rounds before this phase.
        nominal: True where epsilon and the deltas are names only and no proof bounds them (the `paper` profile).
        covers: "training" where they are those of the training records only, and queries are not protected.
        data: Of the first phase: the data set that the training records are of, if it is named.
        person: Of the first phase: the guarantee of a person, if a person's rows were limited.
    """

    round: int
    phase: int
    rounds: int
    epsilon: float
    delta: float
    delta_spent: float
    nominal: bool | msgspec.UnsetType = msgspec.UNSET
    covers: Literal["training"] | msgspec.UnsetType = msgspec.UNSET
    data: DataUse | msgspec.UnsetType = msgspec.UNSET
    person: PersonBound | msgspec.UnsetType = msgspec.UNSET


class PhaseEnded(msgspec.Struct, frozen=True, tag_field="kind", tag="phase-ended"):
    """A phase ended; its key is ratcheted away.

    Attributes:
        round: First global round that does not belong to it any more.
        phase: Its number.
        rearms: Times that a side was armed afresh in it.
    """

    round: int
    phase: int
    rearms: int


class SideRearmed(msgspec.Struct, frozen=True, tag_field="kind", tag="side-rearmed"):
    """A side's Stopper halted, and the side was armed afresh from the queries it had collected.

    Attributes:
        round: The round before whose query it happened.
        phase: The phase.
        side: The side's number in the plan's order.
    """

    round: int
    phase: int
    side: int


class PlanEnded(msgspec.Struct, frozen=True, tag_field="kind", tag="plan-ended"):
    """The last planned phase is over.

    Attributes:
        round: Rounds answered in all.
    """

    round: int


class ReplayForked(msgspec.Struct, frozen=True, tag_field="kind", tag="replay-forked"):
    """Another log was to be answered from a snapshot, under a key of its own: a second run on the records in it.

    It is written before the first answer, so a run that was broken off counts. The log's queries are records of that
    run, at the epsilon and delta of their phases.

    Attributes:
        round: Rounds answered before the snapshot.
        phase: The snapshot's phase.
        fork: What the run's key was derived with, 64 hex digits; it is no secret.
        number: 1 for the first run that was forked from this state or genesis file, then 2, ...
        epsilon: What every record that the snapshot may hold pays for this run, beyond all it paid before (nats).
        delta: The same, of delta.
        delta_sum: Bound on the sum of that delta over all records that the snapshot may hold; of a table, that of one.
    """

    round: int
    phase: int
    fork: str
    number: int
    epsilon: float
    delta: float
    delta_sum: float


class ScoreReleased(msgspec.Struct, frozen=True, tag_field="kind", tag="score-released"):
    """A noisy count of wrong answers of one trial was released (`perpetua evaluate --release`): a run of its own.

    It is written before the score is shown. What a record pays is beyond all that it pays for any state.

    Attributes:
        model: The model's name.
        data: What the owner calls the data that the training and the test rows are of.
        trial: Random, 32 hex digits: tells trials apart.
        wrong: The noisy count, cut off at 0 and at `round`.
        round: Rounds of the trial, one for each test row.
        noise: Inverse scale of the count's discrete Laplace noise (nats), at most.
        epsilon: What any record of the data pays at most: the larger one of the next two, as no row is in both files.
        epsilon_training: What a training row pays.
        epsilon_test: What a test row pays.
        delta: What either pays at most, of delta.
        delta_sum: Bound on the sum of that delta over all training and test rows.
    """

    model: str
    data: str
    trial: str
    wrong: int
    round: int
    noise: float
    epsilon: float
    epsilon_training: float
    epsilon_test: float
    delta: float
    delta_sum: float


class StartChecked(msgspec.Struct, frozen=True, tag_field="kind", tag="start-checked"):
    """The sides of phase 1, or the classes, were counted before a state was made, and a noisy number was released.

    It is written before anything of it is shown. Where a state was made, its epsilon and delta have this in them; where
    none was, the training rows have paid what stands here, beyond all they pay for any state.

    Attributes:
        round: 0: none has been answered.
        model: The model's name.
        shard: The shard's number, from 0.
        beyond: By how many points the side that holds the least exceeds what it needs, with noise; of an ensemble, by
            how many rows the rarest class does.
        least: What it had to be at least; below, no state was made.
        noise: Inverse scale of its discrete Laplace noise (nats).
        passed: Whether it was.
        epsilon: What a training row pays if no state was made (nats): for this number and what it depends on.
        delta: The same, of delta.
        data: The data set that the rows are of, if it is named.
        start: Random, 32 hex digits: tells tries apart that released the same number.
    """

    round: int
    model: str
    shard: int
    beyond: int
    least: int
    noise: float
    passed: bool
    epsilon: float
    delta: float
    data: DataUse | msgspec.UnsetType = msgspec.UNSET
    start: str | msgspec.UnsetType = msgspec.UNSET


class MarginalsReleased(msgspec.Struct, frozen=True, tag_field="kind", tag="marginals-released"):
    """The noisy counts that a hypothesis about a table starts from: all that is public of it before the first round.

    Attributes:
        round: 0: none has been answered.
        counts: Of each marginal of the plan, for each of its cells (C order), the noisy number of rows.
    """

    round: int
    counts: tuple[tuple[int, ...], ...]


class SharesReleased(msgspec.Struct, frozen=True, tag_field="kind", tag="shares-released"):
    """Noisy counts of the training rows of each class: all that is public of them before the first round.

    Attributes:
        round: 0: none has been answered.
        counts: Of each class of the plan, in its order, the noisy number of rows.
    """

    round: int
    counts: tuple[int, ...]


class AnswerPaid(msgspec.Struct, frozen=True, tag_field="kind", tag="answer-paid"):
    """The data paid for an answer, and the noisy count that was compared was released with it.

    Attributes:
        round: The question's round; it pays once at most.
        paid: Paid answers so far, this one included.
        count: How many rows satisfy the question, with noise; of a distribution, are at most what was compared last.
        above: Whether it was asked if they are more than expected; else, if they are fewer. Not set of a distribution:
            it was asked whether they are near a threshold.
    """

    round: int
    paid: int
    count: int
    above: bool | msgspec.UnsetType = msgspec.UNSET


class MessageSkipped(msgspec.Struct, frozen=True, tag_field="kind", tag="message-skipped"):
    """An operator has passed over a message that could not be answered; it took no round.

    Attributes:
        round: Rounds answered before it.
        position: Position in the log just after it.
    """

    round: int
    position: int


class _ShardSummary(msgspec.Struct, frozen=True, tag_field="kind"):
    """A shard's round, phase and spending.

    Attributes:
        round: Rounds answered so far.
        phase: The current phase.
        rearms: Times that any side was armed afresh so far.
        epsilon: Per-record epsilon of every record of the phase (nats).
        delta: Per-record delta of every record of the phase.
        delta_spent: Sum of delta over the training records and all rounds so far.
        delta_limit: Its bound for ever.
        version: The software's version.
        nominal: As in `PhaseStarted`.
        covers: As in `PhaseStarted`.
        begins: On Kafka the offset from which on it answers queries.
        stops: On Kafka the first offset that it leaves to another model, if it is told of one.
        paid: Answers that the data paid for so far, where any can be.
    """

    round: int
    phase: int
    rearms: int
    epsilon: float
    delta: float
    delta_spent: float
    delta_limit: float
    version: str
    nominal: bool | msgspec.UnsetType = msgspec.UNSET
    covers: Literal["training"] | msgspec.UnsetType = msgspec.UNSET
    begins: int | msgspec.UnsetType = msgspec.UNSET
    stops: int | msgspec.UnsetType = msgspec.UNSET
    paid: int | msgspec.UnsetType = msgspec.UNSET


class ShardStarted(_ShardSummary, frozen=True, tag="shard-started"):
    """A process has taken over a shard on a bus, with all that was committed, and answers from here on."""


class ShardStopped(_ShardSummary, frozen=True, tag="shard-stopped"):
    """It has stopped cleanly, or handed the shard over. After a crash this event is missing."""


class ModelRetired(_ShardSummary, frozen=True, tag="model-retired"):
    """The model's keys were erased: nothing is answered any more. What it has spent stays spent."""


LedgerEvent = (
    PhaseStarted
    | PhaseEnded
    | SideRearmed
    | PlanEnded
    | ReplayForked
    | ScoreReleased
    | StartChecked
    | MarginalsReleased
    | SharesReleased
    | AnswerPaid
    | MessageSkipped
    | ShardStarted
    | ShardStopped
    | ModelRetired
)


def encode(event: LedgerEvent) -> bytes:
    """Encode one event as one line of JSON, without the line feed.

    >>> encode(SideRearmed(round=7, phase=1, side=2))
    b'{"kind":"side-rearmed","round":7,"phase":1,"side":2}'
    """
    return msgspec.json.encode(event)


def decode(line: bytes) -> LedgerEvent:
    """Decode one event; an unknown kind is refused.

    Raises:
        msgspec.ValidationError: The kind is unknown or a field has the wrong type.
    """
    event: LedgerEvent = msgspec.json.decode(line, type=LedgerEvent)
    return event
