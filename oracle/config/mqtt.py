"""The tables of a configuration that serves MQTT."""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, SecretStr
from pydantic_core import PydanticCustomError

from oracle.config.base import ConfigTable, LocalPath, refuse_repeated
from oracle.config.tls import TlsConfig

__all__ = ["LoginConfig", "MqttConfig", "MqttSinkConfig", "MqttSourceConfig", "Topic", "check_mqtt_topics"]

_LONGEST: Final = 65_535
_LARGEST_PORT: Final = 65_535
_TOPICS: Final = "a topic of 1 to 65,535 bytes, without + and #, that does not begin with $"
_CLIENTS: Final = "1 to 128 of letters, digits and the characters . _ -"
_FILTERS: Final = "a topic filter: + for one level, # for all that follow, at the end"


def _named(topic: str) -> str:
    """Refuse what is no topic of ours to publish to or to subscribe to."""
    if topic.startswith("$share/"):
        raise PydanticCustomError(
            "topic",
            "must not be a shared subscription: a model's queries are one stream in one order, which the broker would "
            "deal out; serve one daemon for each topic, and use more topics for more daemons",
        )
    if not 0 < len(topic.encode()) <= _LONGEST or topic.startswith("$") or set(topic) & set("+#\0"):
        raise PydanticCustomError("topic", f"must be {_TOPICS}")
    return topic


def _filter(wildcard: str) -> str:
    """Refuse what is no filter, and one that would let a query name any topic of the broker."""
    levels = wildcard.split("/")
    whole = all(len(level) == 1 or not set(level) & set("+#") for level in levels) and "#" not in levels[:-1]
    if not whole or "\0" in wildcard or not 0 < len(wildcard.encode()) <= _LONGEST:
        raise PydanticCustomError("topic", f"must be {_FILTERS}")
    if levels[0] in {"+", "#"} or wildcard.startswith("$"):
        raise PydanticCustomError(
            "topic",
            "must begin with a name, not with a wildcard or $: a query could otherwise have us write to any topic",
        )
    return wildcard


def _server(address: str) -> str:
    """Refuse a port that there is none of: the system's own calls end in errors of their own there."""
    if not 0 < int(address.rpartition(":")[2]) <= _LARGEST_PORT:
        raise PydanticCustomError("server", "must end in a port of 1 to 65,535")
    return address


Topic = Annotated[str, AfterValidator(_named), Field(json_schema_extra={"bound": _TOPICS})]
"""An MQTT topic."""

Filter = Annotated[str, AfterValidator(_filter), Field(json_schema_extra={"bound": _FILTERS})]
"""An MQTT topic filter."""


class MqttSourceConfig(ConfigTable):
    """`[source]`: an MQTT topic, journalled on this machine before it is acknowledged.

    Attributes:
        kind: "mqtt".
        topic: The model's queries.
        journal: Folder of the journal; by default `journal` in the state folder. It belongs to the state.
        journal_bytes: At this size, take nothing more from the broker until a snapshot lets the journal shrink.
        receive_maximum: Most messages that the broker may send ahead of our acknowledgements.
        message_bytes: Largest packet that the broker may send us; it drops larger ones without telling anybody.
    """

    kind: Literal["mqtt"]
    topic: Topic
    journal: LocalPath | None = None
    journal_bytes: Annotated[int, Field(ge=1 << 20, le=1 << 40)] = 1 << 30
    receive_maximum: Annotated[int, Field(ge=1, le=1000, json_schema_extra={"unit": "messages"})] = 100
    message_bytes: Annotated[int, Field(ge=1 << 12, le=268_435_455)] = 1 << 20


class MqttSinkConfig(ConfigTable):
    """`[sink]`: MQTT topics, at least once, repeats byte-identical.

    Attributes:
        kind: "mqtt".
        topic: The model's answers.
        reply_topics: Topic filters: where one of them matches a query's response topic, the answer goes there.
        reply_levels: Most levels of such a topic; above its own limit a broker ends the connection.
        reply_bytes: Most bytes of such a topic.
        ledger: Public ledger events.
        dead_letter: Notes on rejected messages.
        dead_letter_bodies: Whether these notes contain the messages, which are private.
        status: Whether the daemon is connected; retained.
        outbox_bytes: At this size of unpublished answers, answer nothing more; nor with more than 64 MiB of them in
            memory.
    """

    kind: Literal["mqtt"]
    topic: Topic
    reply_topics: list[Filter] = Field([], max_length=1000)
    reply_levels: Annotated[int, Field(ge=1, le=65_535, json_schema_extra={"unit": "levels"})] = 128
    reply_bytes: Annotated[int, Field(ge=1, le=65_535)] = 1024
    ledger: Topic | None = None
    dead_letter: Topic | None = None
    dead_letter_bodies: bool = False
    status: Topic | None = None
    outbox_bytes: Annotated[int, Field(ge=1 << 20, le=1 << 40)] = 1 << 28


class LoginConfig(ConfigTable):
    """`[mqtt.login]`: name and password for the broker. They are sent as they are: use TLS with them.

    Attributes:
        username: The name.
        password_file: Holds the password.
        password: Only from the environment: PERPETUA_MQTT__LOGIN__PASSWORD.
    """

    username: Annotated[str, Field(min_length=1)]
    password_file: LocalPath | None = None
    password: SecretStr | None = None


class MqttConfig(ConfigTable):
    """`[mqtt]`: the broker.

    Attributes:
        server: The broker.
        client_id: Under which the broker keeps our session; by default "perpetua-" and the model's name.
        tls: TLS, if the broker speaks it.
        login: Name and password, if it asks for one.
        keepalive_seconds: Silence after which either side takes the other for gone.
        session_seconds: How long the broker keeps our session, with what was not delivered, while we are away.
        request_seconds: Longest time for one request.
    """

    server: Annotated[
        str,
        Field(
            pattern=r"^[^\s,@/]+:[0-9]{1,5}$", json_schema_extra={"bound": '"host:port", with a port of 1 to 65,535'}
        ),
        AfterValidator(_server),
    ]
    client_id: (
        Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{1,128}$", json_schema_extra={"bound": _CLIENTS})] | None
    ) = None
    tls: TlsConfig | None = None
    login: LoginConfig | None = None
    keepalive_seconds: Annotated[int, Field(ge=5, le=65_535)] = 20
    session_seconds: Annotated[int, Field(ge=60, le=2**32 - 1)] = 7 * 24 * 3600
    request_seconds: Annotated[float, Field(ge=1, le=300)] = 10.0


def check_mqtt_topics(source: MqttSourceConfig, sink: MqttSinkConfig) -> None:
    """Refuse a topic that is used for two things: answers would be taken for queries, or read by the wrong ones."""
    names = [source.topic, sink.topic, *filter(None, (sink.ledger, sink.dead_letter, sink.status))]
    refuse_repeated(names)
