"""A process's hold on a partition, for the sink that was opened last."""

from typing import TYPE_CHECKING

from aiokafka import TopicPartition

from connectors.kafka.marks import Claim

if TYPE_CHECKING:
    from connectors.kafka.joint import JointProducer

__all__ = ["Lease"]


class Lease:
    """Which of the sinks of this process, one after the other, may commit for a partition.

    Attributes:
        query: The partition of the query topic.
        producer: Who commits; None as long as the sink does so under the partition's own id.
        last: What was committed last, once there is a producer.
        ending: True once the partition is being given back.
    """

    def __init__(self, query: TopicPartition) -> None:
        self.query = query
        self.producer: JointProducer | None = None
        self.last = Claim(0, "")
        self.ending = False

    def join(self, producer: "JointProducer", last: Claim) -> None:
        """Commit by a producer from now on; the last claim, which is committed, names it."""
        self.producer, self.last = producer, last
