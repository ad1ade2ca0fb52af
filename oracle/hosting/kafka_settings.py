"""From a configuration to the Kafka connector, and what a plan asks of its topics."""

from pathlib import Path
from typing import Final

import msgspec
from pydantic import SecretStr

from connectors.base import AVRO, JSON, PROTOBUF
from connectors.kafka.security import OAuth, Sasl, Security
from connectors.kafka.settings import KafkaSettings
from connectors.kafka.tokens import TokenEndpoint
from connectors.secret_files import read_again
from oracle.codec.arrow.messages import ID_BYTES
from oracle.codec.questions import writer_of
from oracle.config.credentials import secret_of, tls_of
from oracle.config.daemon import Config, KafkaSinkConfig, KafkaSourceConfig, SaslConfig
from oracle.errors import InputError
from oracle.planning.plan import Plan
from oracle.planning.questions import QuestionPlan
from oracle.planning.serving import most_rows

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
_FRAME: Final = 2048
"""Bytes of a Kafka batch with one record, and of an event's own attributes, without what was asked with."""


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
        shared=config.entry is not None,
        reply_topics=frozenset(sink.reply_topics),
        ledger=sink.ledger,
        dead_letter=sink.dead_letter,
        dead_letter_bodies=sink.dead_letter_bodies,
        first_offset=source.first_offset,
        stop_at=source.stop_at,
        compressed=source.compressed,
        marks=sink.marks or f"{group}.marks",
        instance=source.instance,
        security=Security(tls_of(kafka.tls, "kafka.tls"), sasl_of(kafka.sasl)),
        session_seconds=source.session_seconds,
        rebalance_seconds=config.service.drain_seconds + 30.0,
        transaction_seconds=sink.transaction_seconds,
        request_seconds=kafka.request_seconds,
        content_type=CONTENT_TYPES[source.format],
        compression=kafka.compression,
    )


def sasl_of(table: SaslConfig | None) -> Sasl | OAuth | None:
    """Return what the connector is told about how we prove who we are.

    Raises:
        InputError: A password or a secret is missing.
        StorageError: The file of one cannot be read.
    """
    if table is None:
        return None
    if table.mechanism == "OAUTHBEARER":
        return OAuth(_token_of(table), table.extensions)
    return Sasl(table.mechanism, table.username or "", *_secret("password", table.password, table.password_file))


def _token_of(table: SaslConfig) -> Path | TokenEndpoint:
    if table.token_endpoint is None:
        return table.token_file or Path()
    return TokenEndpoint(
        table.token_endpoint,
        table.client_id or "",
        *_secret("client_secret", table.client_secret, table.client_secret_file),
        table.scope,
        table.token_ca_file,
    )


def _secret(name: str, given: SecretStr | None, file: Path | None) -> tuple[str, Path | None]:
    """Return a secret of `[kafka.sasl]`, and the file to read it from again: the environment goes before a file."""
    if given is not None:
        return given.get_secret_value(), None
    found = secret_of(f"kafka.sasl.{name}_file", file)
    if found is None:
        variable = f"PERPETUA_KAFKA__SASL__{name.upper()}"
        raise InputError(f"kafka.sasl.{name}_file", None, f"must name the file, or set {variable}")
    return found, read_again(file)


def largest_reply(plan: Plan, query_bytes: int) -> int:
    """Return the bytes that the largest reply's record may have, where no query's has more than `query_bytes`.

    Key and headers come back as they are, and may take nearly all of a query's bytes. An Arrow message may be short and
    have as many rows as any, and its ids `ID_BYTES` more for each than it is long; classes are named once. Its answer
    is in base64 where it came in an event. A public question may be answered with a share for each cell of some
    attributes, or each value of a list.
    """
    limits = plan.limits
    named = tuple(plan.labels) != (0, 1)
    names = len(msgspec.json.encode(plan.labels)) if named else 0
    json = _JSON_REPLY + _ESCAPED * limits.id_bytes + names
    if isinstance(plan, QuestionPlan):
        return json + writer_of(plan).largest + query_bytes + _FRAME
    row = _ARROW_ROW + ID_BYTES + _WHOLE_NUMBER * named
    arrow = _ARROW_FRAME + names + row * most_rows(plan)
    return max(json, 4 * arrow // 3) + query_bytes + _FRAME
