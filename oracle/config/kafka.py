"""The tables of a configuration that serves Kafka."""

from typing import Annotated, Literal

from pydantic import Field, PlainValidator, SecretStr
from pydantic_core import PydanticCustomError

from oracle.config.addresses import Servers, Topic
from oracle.config.base import ConfigTable, LocalPath, refuse_repeated
from oracle.config.offsets import OFFSETS, beginning, by_partition
from oracle.config.registry import RegistryConfig
from oracle.config.tls import TlsConfig

__all__ = ["KafkaConfig", "KafkaSinkConfig", "KafkaSourceConfig", "SaslConfig", "check_kafka_topics"]


class KafkaSourceConfig(ConfigTable):
    """`[source]`: a Kafka topic, one shard for each of its partitions.

    Attributes:
        kind: "kafka".
        topic: The model's queries.
        format: What queries are in whose headers name no content type, and their answers: "avro" and "protobuf" with
            the id of a schema in front, as Confluent's clients write them; then `[kafka.registry]` must be set.
        group: The consumer group; by default "perpetua-" and the model's name. One model, one group.
        first_offset: Where a state that has answered nothing begins: one number for all partitions, or a table by
            partition (0 for those that are not in it), as logs that lost records begin at different offsets. Of every
            state, a partition's unanswered queries before its offset that were deleted are given up. "latest" is the
            log's end at the state's first start, which is committed before anything is answered and stays.
        stop_at: The first offset that this model leaves to another one, for all partitions or by partition; it answers
            up to there, and `serve` ends once all its partitions have come there. By default it answers for ever.
        instance: A name for this process that outlives it: its restart then needs no rebalance.
        session_seconds: Silence after which the group gives our partitions to others.
    """

    kind: Literal["kafka"]
    topic: Topic
    format: Literal["json", "avro", "protobuf"] = "json"
    group: Topic | None = None
    first_offset: Annotated[
        int | Literal["latest"] | dict[int, int],
        PlainValidator(beginning),
        Field(json_schema_extra={"bound": f'{OFFSETS}, or "latest"'}),
    ] = 0
    stop_at: Annotated[
        int | dict[int, int] | None, PlainValidator(by_partition), Field(json_schema_extra={"bound": OFFSETS})
    ] = None
    instance: Topic | None = None
    session_seconds: Annotated[float, Field(ge=0.5, le=1800)] = 10.0


class KafkaSinkConfig(ConfigTable):
    """`[sink]`: Kafka topics, exactly once for readers of committed records.

    Attributes:
        kind: "kafka".
        topic: The model's answers.
        reply_topics: Topics that a query's `reply-topic` header may name.
        ledger: Public ledger events (a compacted topic).
        dead_letter: Notes on rejected messages.
        dead_letter_bodies: Whether these notes contain the messages, which are private.
        marks: Our own record of how far the queries are answered (a compacted topic with as many partitions as the
            queries have); by default the group's name and ".marks".
        transaction_seconds: Longest time that one commit may take.
    """

    kind: Literal["kafka"]
    topic: Topic
    reply_topics: list[Topic] = Field([], max_length=1000)
    ledger: Topic | None = None
    dead_letter: Topic | None = None
    dead_letter_bodies: bool = False
    marks: Topic | None = None
    transaction_seconds: Annotated[float, Field(ge=1, le=900)] = 30.0


class SaslConfig(ConfigTable):
    """`[kafka.sasl]`: name and password for the brokers.

    Attributes:
        mechanism: How the password is proved. PLAIN sends it as it is: use it with TLS.
        username: The name.
        password_file: Holds the password.
        password: Only from the environment: PERPETUA_KAFKA__SASL__PASSWORD.
    """

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    username: str
    password_file: LocalPath | None = None
    password: SecretStr | None = None


class KafkaConfig(ConfigTable):
    """`[kafka]`: the cluster.

    Attributes:
        servers: Brokers to connect to first.
        tls: TLS, if the brokers speak it.
        sasl: Name and password, if they ask for one.
        registry: Where schemas are, if queries have some.
        request_seconds: Longest time for one request.
    """

    servers: Servers
    tls: TlsConfig | None = None
    sasl: SaslConfig | None = None
    registry: RegistryConfig | None = None
    request_seconds: Annotated[float, Field(ge=1, le=300)] = 15.0


def check_kafka_topics(source: KafkaSourceConfig, sink: KafkaSinkConfig) -> None:
    """Refuse a topic that is used for two things: answers would be taken for queries, or read by the wrong ones.

    Refuse Kafka's own topics too: what is written there could change who has which offset.
    """
    names = [source.topic, sink.topic, *sink.reply_topics, *filter(None, (sink.ledger, sink.dead_letter, sink.marks))]
    internal = next((name for name in names if name.startswith("__") or not name.strip(".")), None)
    if internal is not None:
        raise PydanticCustomError("topics", f"{internal} is Kafka's own, or no name")
    refuse_repeated(names)
