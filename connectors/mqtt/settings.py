"""Settings of an MQTT connector: where the broker is, who we are, and which topics are whose."""

from dataclasses import dataclass, field

from connectors.tls import Tls

__all__ = ["RECEIVE_MAXIMUM_LIMIT", "Login", "MqttSettings"]

RECEIVE_MAXIMUM_LIMIT = 1000
"""Most messages that either side may have unacknowledged."""


@dataclass(frozen=True, slots=True)
class Login:
    """Name and password for the broker.

    Attributes:
        password: The password, if it asks for one; never printed.
    """

    username: str
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttSettings:
    """One model on one broker.

    Attributes:
        client_id: Ours; the broker keeps the session under it. One state, one id.
        topic: The model's queries; no wildcards.
        model: The model's name, in the status message.
        reply_topics: Topic filters; a query's response topic must match one of them to be honoured.
        reply_levels: Most levels that it may have.
        reply_bytes: Most bytes of UTF-8 that it may have.
        ledger: Topic of public ledger events; None to drop them.
        dead_letter: Topic of notes on rejected messages; None for none.
        dead_letter_bodies: Whether these notes hold the message itself, which is private.
        status: Topic of the retained status message; None for none.
        keepalive_seconds: Silence after which either side takes the other for dead.
        session_seconds: How long the broker keeps our session, with what was not delivered, while we are away.
        request_seconds: Most time for one request.
        receive_maximum: Most messages that the broker may send ahead of our acknowledgements (1 to 1000).
        message_bytes: Largest packet that the broker may send us; larger ones it drops.
        body_bytes: A JSON body is kept up to one byte more than this.
        batch_bytes: The same of an Arrow body.
        largest_reply: Bytes of the largest packet that we may have to send.
    """

    host: str
    port: int
    client_id: str
    topic: str
    answers: str
    model: str
    reply_topics: tuple[str, ...] = ()
    reply_levels: int = 128
    reply_bytes: int = 1024
    ledger: str | None = None
    dead_letter: str | None = None
    dead_letter_bodies: bool = False
    status: str | None = None
    login: Login | None = None
    tls: Tls | None = None
    keepalive_seconds: int = 20
    session_seconds: int = 7 * 24 * 3600
    request_seconds: float = 10.0
    receive_maximum: int = 100
    message_bytes: int = 1 << 20
    body_bytes: int = 65_536
    batch_bytes: int = 1 << 20
    largest_reply: int = 0

    @property
    def own_topics(self) -> frozenset[str]:
        """All topics that have a meaning of their own: no response topic may be one of them."""
        named = (self.topic, self.answers, self.ledger, self.dead_letter, self.status)
        return frozenset(name for name in named if name is not None)
