"""From a configuration to the Kafka connector, and what a plan asks of its topics."""

from typing import Final

import msgspec

from connectors.base import AVRO, JSON, PROTOBUF
from connectors.kafka.settings import KafkaSettings, Sasl, Security
from oracle.codec.questions import writer_of
from oracle.config.credentials import secret_of, tls_of
from oracle.config.daemon import Config, KafkaSinkConfig, KafkaSourceConfig, SaslConfig
from oracle.errors import InputError
from oracle.planning.plan import Plan
from oracle.planning.questions import QuestionPlan

__all__ = ["CONTENT_TYPES", "kafka_settings", "largest_reply", "sasl_of"]

CONTENT_TYPES: Final = {"json": JSON, "avro": AVRO, "protobuf": PROTOBUF}
"""Content types of what `source.format` says."""

_JSON_REPLY: Final = 2048
"""Bytes of a JSON reply without its id: names, numbers, and the words of a rejection."""

_ESCAPED: Final = 6
"""Most bytes that JSON takes for one byte of an id."""

_ARROW_ROW: Final = 44
"""Bytes of one row of an Arrow answer, rounded up: label 1, round 8, phase 4, error 4 + 15 + 1/8, and id 8 + 1/8 (an
integer, or where a text begins)."""

_WHOLE_NUMBER: Final = 8
"""Bytes that a row takes more where labels are whole numbers other than 0 and 1."""

_ARROW_FRAME: Final = 4096
_FRAME: Final = 1024
"""Bytes of a Kafka batch with one record, without key, value and the headers that were asked with."""


def kafka_settings(config: Config, model: str) -> KafkaSettings:
    """Return the connector's settings.

    Raises:
        InputError: The configuration does not name a Kafka source and sink.
        StorageError: A password file cannot be read.
    """
    source, sink, kafka = config.source, config.sink, config.kafka
    if not isinstance(source, KafkaSourceConfig) or not isinstance(sink, KafkaSinkConfig) or kafka is None:
        raise InputError("source.kind", config.source.kind, 'must be "kafka" for this')
    group = source.group or f"perpetua-{model}"
    return KafkaSettings(
        servers=tuple(kafka.servers),
        topic=source.topic,
        answers=sink.topic,
        group=group,
        model=model,
        reply_topics=frozenset(sink.reply_topics),
        ledger=sink.ledger,
        dead_letter=sink.dead_letter,
        dead_letter_bodies=sink.dead_letter_bodies,
        first_offset=source.first_offset,
        stop_at=source.stop_at,
        marks=sink.marks or f"{group}.marks",
        instance=source.instance,
        security=Security(tls_of(kafka.tls, "kafka.tls"), sasl_of(kafka.sasl)),
        session_seconds=source.session_seconds,
        rebalance_seconds=config.service.drain_seconds + 30.0,
        transaction_seconds=sink.transaction_seconds,
        request_seconds=kafka.request_seconds,
        content_type=CONTENT_TYPES[source.format],
    )


def sasl_of(table: SaslConfig | None) -> Sasl | None:
    """Return what the connector is told about name and password.

    Raises:
        InputError: There is a name and no password.
        StorageError: The password file cannot be read.
    """
    if table is None:
        return None
    password = table.password.get_secret_value() if table.password is not None else None
    if password is None:
        password = secret_of("kafka.sasl.password_file", table.password_file)
    if password is None:
        raise InputError("kafka.sasl.password_file", None, "must name the file, or set PERPETUA_KAFKA__SASL__PASSWORD")
    return Sasl(table.mechanism, table.username, password)


def largest_reply(plan: Plan, query_bytes: int) -> int:
    """Return the bytes that the largest reply's record may have, where no query's has more than `query_bytes`.

    Key and headers come back as they are, and may take nearly all of a query's bytes. An Arrow message of r rows and d
    features has at least r d bytes, and texts in its ids come back as they are; classes are named once. A public
    question may be answered with a share for each cell of some attributes, or each value of a list.
    """
    limits = plan.limits
    named = tuple(plan.labels) != (0, 1)
    names = len(msgspec.json.encode(plan.labels)) if named else 0
    json = _JSON_REPLY + _ESCAPED * limits.id_bytes + names
    if isinstance(plan, QuestionPlan):
        return json + writer_of(plan).largest + query_bytes + _FRAME
    rows = min(limits.rows, min(limits.batch_bytes, query_bytes) // len(plan.features))
    row = _ARROW_ROW + _WHOLE_NUMBER * named
    return max(json, _ARROW_FRAME + names + row * rows) + query_bytes + _FRAME
