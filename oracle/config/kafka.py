"""The tables of a configuration that serves Kafka."""

import ipaddress
import re
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, PlainValidator, SecretStr, model_validator
from pydantic_core import PydanticCustomError

from oracle.config.addresses import Servers, Topic
from oracle.config.base import ConfigTable, LocalPath, refuse_repeated
from oracle.config.offsets import OFFSETS, beginning, by_partition
from oracle.config.registry import RegistryConfig
from oracle.config.tls import TlsConfig

__all__ = ["KafkaConfig", "KafkaSinkConfig", "KafkaSourceConfig", "SaslConfig", "check_format", "check_kafka_topics"]

_OF_PASSWORDS: Final = frozenset({"username", "password_file", "password"})
_OF_FILES: Final = frozenset({"token_file", "extensions"})
_OF_ENDPOINTS: Final = frozenset(
    {"token_endpoint", "client_id", "client_secret_file", "client_secret", "scope", "token_ca_file", "extensions"}
)
_URLS: Final = '"https://HOST/PATH", or "http://..." of this machine only, as a secret is sent there'
_EXTENSIONS: Final = "names of letters, values of printable ASCII"
_NAME: Final = re.compile(r"[A-Za-z]{1,64}")
_VALUE: Final = re.compile(r"[\x20-\x7e]{1,1024}")


def _safe_url(url: str) -> str:
    """Refuse where a secret would be sent to nobody, or in the open."""
    error = PydanticCustomError("url", f"must be {_URLS}")
    try:
        found = urlsplit(url)
        host, _ = found.hostname or "", found.port
    except ValueError as exc:
        raise error from exc
    if not host or found.username is not None or not url.isascii() or not url.isprintable() or " " in url:
        raise error
    if found.scheme != "https" and not (found.scheme == "http" and _is_here(host)):
        raise error
    return url


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _named(extensions: dict[str, str]) -> dict[str, str]:
    """Refuse what would be read as another part of the message (RFC 7628, section 3.1)."""
    for name, value in extensions.items():
        if not _NAME.fullmatch(name) or name == "auth" or not _VALUE.fullmatch(value):
            raise PydanticCustomError("extensions", f"must have {_EXTENSIONS}, and not auth")
    return extensions


TokenUrl = Annotated[str, AfterValidator(_safe_url), Field(json_schema_extra={"bound": _URLS})]
Extensions = Annotated[dict[str, str], AfterValidator(_named), Field(json_schema_extra={"bound": _EXTENSIONS})]


class KafkaSourceConfig(ConfigTable):
    """`[source]`: a Kafka topic, one shard for each of its partitions.

    Attributes:
        kind: "kafka".
        topic: The model's queries.
        format: What queries are in whose headers name no content type, and their answers: "avro" and "protobuf" with
            the id of a schema in front, as Confluent's clients write them; then `[kafka.registry]` must be set.
        group: The consumer group; by default "perpetua-" and the model's name. One model, one group, but that
            `[[models]]` share one.
        first_offset: Where a state that has answered nothing begins: one number for all partitions, or a table by
            partition (0 for those that are not in it), as logs that lost records begin at different offsets. Of every
            state, a partition's unanswered queries before its offset that were deleted are given up. "latest" is the
            log's end at the state's first start, which is committed before anything is answered and stays.
        stop_at: The first offset that this model leaves to another one, for all partitions or by partition; it answers
            up to there, and `serve` ends once all its partitions have come there. By default it answers for ever.
        compressed: Whether the topic may store compressed records, where its `compression.type` cannot be changed. Who
            may ask can then stop a shard, or fill its memory, by a small message that unpacks to a large one.
        instance: A name for this process that outlives it: its restart then needs no rebalance.
        session_seconds: Silence after which the group gives our partitions to others.
        standby: Whether to follow the shards that other processes serve, in memory and without an answer, so that
            taking one over needs no restore. It takes the memory of all shards, and re-executes what others answer.
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
    compressed: bool = False
    instance: Topic | None = None
    session_seconds: Annotated[float, Field(ge=0.5, le=1800)] = 10.0
    standby: bool = False


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
    """`[kafka.sasl]`: name and password for the brokers, or a token.

    Attributes:
        mechanism: How it is proved who we are. PLAIN sends the password as it is: use it with TLS.
        username: The name; not with OAUTHBEARER.
        password_file: Holds the password.
        password: Only from the environment: PERPETUA_KAFKA__SASL__PASSWORD.
        token_file: With OAUTHBEARER: holds the token, such as Kubernetes projects one.
        token_endpoint: With OAUTHBEARER, in place of `token_file`: where an authorization server gives out tokens for
            `client_id` and its secret (OAuth 2.0, client credentials).
        client_id: Ours with the authorization server.
        client_secret_file: Holds its secret.
        client_secret: Only from the environment: PERPETUA_KAFKA__SASL__CLIENT_SECRET.
        scope: What is asked of the authorization server; by default what it gives by itself.
        token_ca_file: Certificates to trust at `token_endpoint`; by default the system's.
        extensions: With OAUTHBEARER: what some brokers ask for beside the token, such as `logicalCluster`.
    """

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
    username: str | None = None
    password_file: LocalPath | None = None
    password: SecretStr | None = None
    token_file: LocalPath | None = None
    token_endpoint: TokenUrl | None = None
    client_id: str | None = None
    client_secret_file: LocalPath | None = None
    client_secret: SecretStr | None = None
    scope: str | None = None
    token_ca_file: LocalPath | None = None
    extensions: Extensions = Field({}, max_length=20)

    @model_validator(mode="after")
    def _fitting(self) -> Self:
        """Refuse what belongs to another mechanism, and tokens from two places."""
        given = self.model_fields_set - {"mechanism"}
        if self.mechanism != "OAUTHBEARER":
            if self.username is None:
                raise PydanticCustomError("sasl", "must have a username with this mechanism")
            allowed = _OF_PASSWORDS
        elif (self.token_file is None) == (self.token_endpoint is None):
            raise PydanticCustomError("sasl", "must have either token_file or token_endpoint with OAUTHBEARER")
        elif self.token_endpoint is not None and self.client_id is None:
            raise PydanticCustomError("sasl", "must have a client_id beside token_endpoint")
        else:
            allowed = _OF_FILES if self.token_endpoint is None else _OF_ENDPOINTS
        for name in sorted(given - allowed):
            raise PydanticCustomError("sasl", f"must not have {name} with the others that it has")
        return self


class KafkaConfig(ConfigTable):
    """`[kafka]`: the cluster.

    Attributes:
        servers: Brokers to connect to first.
        tls: TLS, if the brokers speak it.
        sasl: Name and password, or a token, if they ask for one.
        registry: Where schemas are, if queries have some.
        compression: How what is written is compressed. Sizes of compressed answers tell what they say to anyone who
            sees only sizes, so it is "none" unless you accept that.
        request_seconds: Longest time for one request.
    """

    servers: Servers
    tls: TlsConfig | None = None
    sasl: SaslConfig | None = None
    registry: RegistryConfig | None = None
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"
    request_seconds: Annotated[float, Field(ge=1, le=300)] = 15.0


def check_format(source: KafkaSourceConfig, kafka: KafkaConfig | None) -> None:
    """Refuse schemas without a registry or the other way round."""
    if (source.format == "json") != (kafka is None or kafka.registry is None):
        raise PydanticCustomError("registry", 'must be set exactly if source.format is "avro" or "protobuf"')


def check_kafka_topics(source: KafkaSourceConfig, sink: KafkaSinkConfig) -> None:
    """Refuse a topic that is used for two things: answers would be taken for queries, or read by the wrong ones.

    Refuse Kafka's own topics too: what is written there could change who has which offset.
    """
    names = [source.topic, sink.topic, *sink.reply_topics, *filter(None, (sink.ledger, sink.dead_letter, sink.marks))]
    internal = next((name for name in names if name.startswith("__") or not name.strip(".")), None)
    if internal is not None:
        raise PydanticCustomError("topics", f"{internal} is Kafka's own, or no name")
    refuse_repeated(names)
