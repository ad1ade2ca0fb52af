"""What may be told of true labels: noisy counts, and how many messages were none. Nothing else is kept here."""

from dataclasses import dataclass, field

from oracle.codec.rejections import Reason
from oracle.mechanisms.truth import NoisyPeriod

__all__ = ["TruthTelemetry"]


@dataclass(slots=True)
class TruthTelemetry:
    """The public facts of one process that counts true labels.

    Attributes:
        model: The model's name.
        alpha: The error that was asked of its plan.
        epsilon: Inverse scale of the noise (nats).
        released: The newest release of each shard.
        rejected: Messages that were no true labels, by shard and reason, since the process began.
        ready: The shards whose logs are open.
    """

    model: str
    alpha: float
    epsilon: float
    released: dict[int, NoisyPeriod] = field(default_factory=dict)
    rejected: dict[tuple[int, Reason], int] = field(default_factory=dict)
    ready: dict[int, bool] = field(default_factory=dict)
