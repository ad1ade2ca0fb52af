from collections.abc import Sequence

from aiokafka import TopicPartition

class TopicPartitionState:
    highwater: int | None
    timestamp: int | None
    def __init__(self, assignment: Assignment) -> None: ...
    @property
    def has_valid_position(self) -> bool: ...
    @property
    def position(self) -> int: ...

class Assignment:
    _topic_partitions: frozenset[TopicPartition]
    _tp_state: dict[TopicPartition, TopicPartitionState]
    @property
    def tps(self) -> frozenset[TopicPartition]: ...
    def state_value(self, tp: TopicPartition) -> TopicPartitionState: ...

class Subscription:
    assignment: Assignment

class SubscriptionState:
    subscription: Subscription
    def assign_from_user(self, partitions: Sequence[TopicPartition]) -> None: ...
