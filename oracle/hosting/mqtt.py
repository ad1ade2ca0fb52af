"""From a configuration to the MQTT connector."""

import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from connectors.base import Committed
from connectors.events import AnswerIds
from connectors.journal.journal import Journal
from connectors.journal.source import JournalSource
from connectors.mqtt.client import matches
from connectors.mqtt.link import Link
from connectors.mqtt.messages import delivery
from connectors.mqtt.outbox import Outbox
from connectors.mqtt.settings import Login, MqttSettings
from connectors.mqtt.sink import MqttSink
from connectors.mqtt.source import MqttSource
from oracle.config.credentials import secret_of, tls_of
from oracle.config.daemon import Config
from oracle.config.mqtt import LoginConfig, MqttConfig, MqttSinkConfig, MqttSourceConfig
from oracle.errors import BusError, InputError, MisplacedError, RefusedError, StateError
from oracle.hosting.kafka_settings import largest_reply
from oracle.planning.plan import Plan
from oracle.state.keys import journal_key, read_key_file
from oracle.telemetry.log import PublicLog
from oracle.telemetry.reporter import Reporter

__all__ = [
    "LoggingObserver",
    "asker_settings",
    "broker_settings",
    "last_commit",
    "misplaced",
    "mqtt_settings",
    "open_bus",
    "open_journals",
    "open_offline",
    "open_questions",
    "query_topic",
    "reply_topic",
]

_QUIET_SECONDS: Final = 10.0
_ASKERS_SESSION: Final = 600
"""Seconds that answers wait for an asker whose connection was lost."""

_LARGEST_PACKET: Final = 268_435_455
_NOTE: Final = 4096
"""Bytes of all else in a note on a rejected message."""


def mqtt_settings(config: Config, plan: Plan) -> MqttSettings:
    """Return the connector's settings.

    Raises:
        InputError: The configuration does not name an MQTT source and sink.
        StorageError: A password file cannot be read.
    """
    source, sink, mqtt = _tables(config)
    return replace(
        broker_settings(mqtt, mqtt.client_id or f"perpetua-{plan.name}", source.topic, sink.topic),
        model=plan.name,
        reply_topics=tuple(sink.reply_topics),
        reply_levels=sink.reply_levels,
        reply_bytes=sink.reply_bytes,
        ledger=sink.ledger,
        dead_letter=sink.dead_letter,
        dead_letter_bodies=sink.dead_letter_bodies,
        status=sink.status,
        session_seconds=mqtt.session_seconds,
        receive_maximum=source.receive_maximum,
        message_bytes=source.message_bytes,
        body_bytes=plan.limits.body_bytes,
        batch_bytes=plan.limits.batch_bytes,
        largest_reply=max(largest_reply(plan, source.message_bytes), _largest_note(plan, sink)),
    )


def asker_settings(config: Config, replies: str) -> MqttSettings:
    """Return what somebody connects by who asks questions, under an id of his own, and reads a topic of replies.

    Raises:
        InputError: The configuration does not name an MQTT source and sink.
        StorageError: A password file cannot be read.
    """
    _, _, mqtt = _tables(config)
    own_id = f"perpetua-ask-{secrets.token_hex(8)}"
    settings = broker_settings(mqtt, own_id, replies, replies)
    return replace(settings, message_bytes=_LARGEST_PACKET, session_seconds=_ASKERS_SESSION)


def broker_settings(mqtt: MqttConfig, client_id: str, topic: str, answers: str) -> MqttSettings:
    """Return how to connect, to read one topic and to write on another.

    Raises:
        StorageError: A password file cannot be read.
    """
    host, _, port = mqtt.server.rpartition(":")
    return MqttSettings(
        host=host.strip("[]"),
        port=int(port),
        client_id=client_id,
        topic=topic,
        answers=answers,
        model="",
        login=_login_of(mqtt.login),
        tls=tls_of(mqtt.tls, "mqtt.tls"),
        keepalive_seconds=mqtt.keepalive_seconds,
        request_seconds=mqtt.request_seconds,
    )


def query_topic(config: Config) -> str:
    """Return where queries go."""
    return _tables(config)[0].topic


def reply_topic(config: Config, named: str | None = None) -> str:
    """Return where the answer to one query may go: a topic of its own if the allow-list has room, or all answers'.

    Raises:
        InputError: One is named that the allow-list does not have.
    """
    source, sink, _ = _tables(config)
    if named is not None:
        if named == source.topic or not any(matches(named, one) for one in sink.reply_topics):
            raise InputError("reply_topic", named, "must match a filter of sink.reply_topics")
        return named
    wildcards = [one for one in sink.reply_topics if set(one) & set("+#")]
    if not wildcards:
        return sink.topic
    own = secrets.token_hex(8)
    return "/".join(own if level in {"+", "#"} else level for level in wildcards[0].split("/"))


def _largest_note(plan: Plan, sink: MqttSinkConfig) -> int:
    """Return the bytes of the largest note on a rejected message, which may hold it in base64."""
    kept = max(plan.limits.body_bytes, plan.limits.batch_bytes) + 1
    return 4 * kept // 3 + _NOTE if sink.dead_letter is not None and sink.dead_letter_bodies else 0


def _tables(config: Config) -> tuple[MqttSourceConfig, MqttSinkConfig, MqttConfig]:
    source, sink, mqtt = config.source, config.sink, config.mqtt
    if not isinstance(source, MqttSourceConfig) or not isinstance(sink, MqttSinkConfig) or mqtt is None:
        raise InputError("source.kind", config.source.kind, 'must be "mqtt" for this')
    return source, sink, mqtt


def _login_of(table: LoginConfig | None) -> Login | None:
    if table is None:
        return None
    password = table.password.get_secret_value() if table.password is not None else None
    return Login(table.username, password or secret_of("mqtt.login.password_file", table.password_file))


def open_journals(config: Config, plan: Plan) -> tuple[Journal, Outbox]:
    """Return the journal of queries and the outbox, not yet open.

    Raises:
        StateError: The key file cannot be used.
    """
    source, sink, _ = _tables(config)
    key = _key(config, plan)
    folder = _journal_folder(config)
    queries = Journal(folder / "queries", key, "queries", limit=source.journal_bytes)
    return queries, Outbox(Journal(folder / "answers", key, "answers", limit=sink.outbox_bytes))


def _key(config: Config, plan: Plan) -> bytes:
    return journal_key(read_key_file(config.state.key_path), plan.digest)


def _answer_ids(config: Config, plan: Plan) -> AnswerIds:
    return AnswerIds(_key(config, plan), query_topic(config))


def _journal_folder(config: Config) -> Path:
    return _tables(config)[0].journal or config.state.folder / "journal"


def misplaced(config: Config, error: MisplacedError) -> StateError:
    """Return what is said on MQTT where a snapshot is ahead of what was committed."""
    return StateError(
        f"journal {_journal_folder(config)}: {error}. On MQTT this folder is log and sink: put the newest one back, "
        "never an older copy, as other queries would get the noise of those that it lacks"
    )


def open_bus(config: Config, plan: Plan, log: PublicLog, reporter: Reporter) -> tuple[MqttSource, MqttSink]:
    """Return both ends of the bus that the configuration names, not yet open; open the sink first."""
    settings = mqtt_settings(config, plan)
    queries, outbox = open_journals(config, plan)
    reporter.link_awaited()

    def reload() -> MqttSettings:
        return replace(settings, login=_login_of(_tables(config)[2].login))

    link = Link(settings, queries, outbox, LoggingObserver(log, reporter), reload)
    return MqttSource(queries, link, _answer_ids(config, plan)), MqttSink(settings, outbox, link)


def open_offline(config: Config, plan: Plan) -> tuple[JournalSource, MqttSink]:
    """Return what is journalled as a source that ends, and a sink that publishes nothing; not yet open."""
    outbox = open_journals(config, plan)[1]
    return open_questions(config, plan), MqttSink(mqtt_settings(config, plan), outbox, None)


def open_questions(config: Config, plan: Plan) -> JournalSource:
    """Return what is journalled as a source that ends, not yet open."""
    queries, _ = open_journals(config, plan)
    queries.inspect()
    return JournalSource(queries, partial(delivery, answer_ids=_answer_ids(config, plan)), live=False)


def last_commit(config: Config, plan: Plan) -> Committed | None:
    """Return the outbox's last commit without opening it.

    Raises:
        StateError: It belongs to another state.
        StorageError: It is damaged.
    """
    return open_journals(config, plan)[1].inspect()


class LoggingObserver:
    """Tells the log and the reporter how the link fares; the same words at most once in ten seconds.

    Args:
        clock: Seconds, monotone.
    """

    def __init__(self, log: PublicLog, reporter: Reporter, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._reporter = reporter
        self._clock = clock
        self._said: dict[str, float] = {}

    def connected(self) -> None:
        """See `Observer.connected`."""
        self._reporter.link_found()
        self._log.info("bus.connected")

    def lost(self, error: BusError) -> None:
        """See `Observer.lost`."""
        self._reporter.link_lost(error)

    def refused(self, error: RefusedError) -> None:
        """See `Observer.refused`."""
        self._reporter.link_refused(error)

    def given_up(self, reason: str) -> None:
        """See `Observer.given_up`."""
        self._reporter.undelivered(1)
        self.noted(reason)

    def noted(self, reason: str) -> None:
        """See `Observer.noted`."""
        now = self._clock()
        if now - self._said.get(reason, -_QUIET_SECONDS) >= _QUIET_SECONDS:
            self._said[reason] = now
            self._log.warning("bus.noted", reason=reason)
