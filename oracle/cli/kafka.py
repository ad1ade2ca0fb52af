"""What the commands that look at a model's topics and offsets begin with."""

import logging
from pathlib import Path

from oracle.config.daemon import load_config
from oracle.errors import InputError
from oracle.hosting.kafka import KafkaModel, open_model
from oracle.telemetry.library_logs import hear_client

__all__ = ["open_kafka"]


def open_kafka(config_file: Path, what: str, partition: int | None = None) -> KafkaModel:
    """Read a configuration whose source is Kafka, and its state; silence the client's own log.

    Args:
        config_file: The configuration.
        what: What only Kafka has, for the refusal.
        partition: Of `--partition`.

    Raises:
        RefusedError: The source is another, or the state has fewer shards.
        StateError: The state folder cannot be used.
    """
    config = load_config(config_file)
    if config.source.kind != "kafka":
        raise InputError("source.kind", config.source.kind, f'must be "kafka": only Kafka has {what}')
    hear_client(logging.NullHandler())
    model = open_model(config)
    if partition is not None and partition >= model.shards:
        raise InputError("--partition", partition, f"must be below {model.shards}, the state's shards")
    return model
