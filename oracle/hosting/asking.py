"""From a daemon's configuration to what asks it."""

from connectors.asking import Asker
from oracle.config.daemon import Config, FileSinkConfig, FileSourceConfig
from oracle.errors import InputError

__all__ = ["asker_of"]


def asker_of(config: Config, replies: str | None = None, partition: int | None = None) -> Asker:
    """Return what asks the daemon that a configuration describes, not yet open. It needs no state and no key.

    Args:
        config: The daemon's.
        replies: Where answers are to go: a topic that `sink.reply_topics` allows; by default one of the asker's own on
            MQTT if there is room for one, else the answer topic.
        partition: Of the Kafka topic; None for any.

    Raises:
        InputError: Nobody could be asked so.
        StorageError: A password file cannot be read.
    """
    kind = config.source.kind
    if partition is not None and kind != "kafka":
        raise InputError("partition", partition, "must be left out: only Kafka has partitions")
    if replies is not None and kind not in {"kafka", "mqtt"}:
        raise InputError("reply_topic", replies, "must be left out: only Kafka and MQTT have topics")
    if kind == "kafka":
        return _on_kafka(config, replies, partition)
    if kind == "mqtt":
        return _on_mqtt(config, replies)
    if kind == "http":
        return _over_http(config)
    return _in_files(config)


def _on_kafka(config: Config, replies: str | None, partition: int | None) -> Asker:
    from connectors.kafka.asking import KafkaAsker  # noqa: PLC0415 -- each bus when it is wanted
    from oracle.hosting.kafka_settings import kafka_settings  # noqa: PLC0415

    settings = kafka_settings(config, "ask")
    if replies is not None and replies not in settings.reply_topics:
        raise InputError("reply_topic", replies, "must be one of sink.reply_topics")
    return KafkaAsker(settings, replies or settings.answers, partition)


def _on_mqtt(config: Config, replies: str | None) -> Asker:
    from connectors.mqtt.asking import MqttAsker  # noqa: PLC0415
    from oracle.hosting import mqtt  # noqa: PLC0415

    return MqttAsker(mqtt.asker_settings(config, mqtt.reply_topic(config, replies)), mqtt.query_topic(config))


def _over_http(config: Config) -> Asker:
    """As the first of the askers whose tokens the daemon knows, on this machine."""
    from connectors.desk.asking import HttpAsker  # noqa: PLC0415
    from oracle.web.token import read_tokens  # noqa: PLC0415

    table = config.http
    if table is None or not table.port:
        raise InputError("http.port", 0, "must be one that is known, to ask there")
    host = f"[{table.host}]" if ":" in table.host else table.host
    return HttpAsker(f"http://{host}:{table.port}", read_tokens(table.tokens_file)[0].decode())


def _in_files(config: Config) -> Asker:
    """As of a followed JSONL file; others are answered from end to end, and a query of ours would come too late."""
    from connectors.local.asking import FileAsker  # noqa: PLC0415

    source, sink = config.source, config.sink
    if not isinstance(source, FileSourceConfig) or source.kind != "jsonl" or not source.follow:
        why = 'must be "kafka", "mqtt", or "jsonl" with source.follow = true: no daemon waits for queries elsewhere'
        raise InputError("source.kind", source.kind, f"{why}; put the query into the source before `perpetua serve`")
    if not isinstance(sink, FileSinkConfig):
        raise InputError("sink.kind", sink.kind, 'must be "jsonl": the answer is read where the daemon writes it')
    return FileAsker(source.path, sink.path)
