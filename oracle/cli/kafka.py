"""A model on Kafka as commands look at it: its configuration, and where a partition stands."""

from collections.abc import Callable

from connectors.base import Committed
from connectors.kafka.committed_offset import committed_offset
from connectors.kafka.settings import KafkaSettings
from connectors.kafka.source import KafkaSource
from oracle.config.daemon import Config
from oracle.errors import InputError
from oracle.hosting.kafka import KafkaModel, open_model
from oracle.telemetry.client_logs import hear_client

__all__ = ["last_commit", "open_kafka"]


def open_kafka(config: Config, what: str, partition: int | None = None) -> KafkaModel:
    """Read the state of a configuration whose source must be Kafka, as only it has `what`; silence the client.

    Raises:
        RefusedError: The source is another, or the state has fewer shards.
        StateError: The state folder cannot be used.
    """
    if config.source.kind != "kafka":
        raise InputError("source.kind", config.source.kind, f'must be "kafka": only Kafka has {what}')
    hear_client()
    model = open_model(config)
    if partition is not None and partition >= model.shards:
        raise InputError("--partition", partition, f"must be below {model.shards}, the state's shards")
    return model


async def last_commit(settings: KafkaSettings, partition: int) -> tuple[Committed | None, Callable[[], KafkaSource]]:
    """Return what was last committed of a partition, and what makes a source that goes on there, not yet open.

    Raises:
        StateError: Nothing says for sure what was committed.
        BusError: The brokers do not answer.
    """
    found = await committed_offset(settings, partition)

    def source() -> KafkaSource:
        made = KafkaSource(settings, partition)
        if found is not None:
            made.progress.expect(*found)
        return made

    return None if found is None else Committed(found[0], found[1].mark), source
