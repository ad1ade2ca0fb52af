"""The configuration of `perpetua serve`: a TOML file, overridden by the environment, secrets from files."""

import os
import re
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError

from oracle.errors import InputError, did_you_mean
from oracle.service.addresses import Topic
from oracle.service.config_kafka import KafkaSink, KafkaSource, KafkaTable, SaslTable, check_kafka_topics
from oracle.service.config_mqtt import LoginTable, MqttSink, MqttSource, MqttTable, check_mqtt_topics
from oracle.service.config_names import refuse_unknown_variables, refuse_zeros
from oracle.service.config_paths import LocalPath
from oracle.service.config_tls import TlsTable
from oracle.service.config_web import WebTable
from oracle.service.documents import read_toml

__all__ = [
    "Config",
    "FileSink",
    "FileSource",
    "KafkaSink",
    "KafkaSource",
    "KafkaTable",
    "MqttSink",
    "MqttSource",
    "MqttTable",
    "SaslTable",
    "ServiceTable",
    "StateTable",
    "StdinSource",
    "StdoutSink",
    "Topic",
    "load_config",
]

_Table = ConfigDict(extra="forbid", frozen=True)


class StateTable(BaseModel):
    """`[state]`: where the snapshots are.

    Attributes:
        folder: Made by `perpetua init`.
        key_file: The master key; by default `key` in the folder.
        snapshot_rounds: A snapshot is due after so many rounds.
        snapshot_seconds: A snapshot is due after so many seconds with a new round.
    """

    model_config = _Table
    folder: LocalPath
    key_file: LocalPath | None = None
    snapshot_rounds: Annotated[int, Field(ge=1)] = 2_000_000
    snapshot_seconds: Annotated[float, Field(gt=0)] = 60.0

    @property
    def key_path(self) -> Path:
        """Where the master key is."""
        return self.key_file or self.folder / "key"


class FileSource(BaseModel):
    """`[source]`: a recorded or growing file.

    Attributes:
        kind: "jsonl" (one message a line) or "parquet" (.parquet or .arrow, many queries a message).
        path: The file.
        follow: Wait for more lines at the end of a JSONL file (tail -f).
        rows_per_message: Rows of a Parquet file that are one message.
    """

    model_config = _Table
    kind: Literal["jsonl", "parquet"]
    path: LocalPath
    follow: bool = False
    rows_per_message: Annotated[int, Field(ge=1, le=2**24)] = 65_536


class StdinSource(BaseModel):
    """`[source]`: standard input, one JSON message a line, always the same stream from its beginning."""

    model_config = _Table
    kind: Literal["stdin"]


class FileSink(BaseModel):
    """`[sink]`: files, exactly once.

    Attributes:
        kind: "jsonl", or "parquet" (a folder of parts, or one .arrow stream).
        path: Answers.
        ledger: Public ledger events, one JSON object a line.
        dead_letter: Copies of the rejections.
    """

    model_config = _Table
    kind: Literal["jsonl", "parquet"]
    path: LocalPath
    ledger: LocalPath | None = None
    dead_letter: LocalPath | None = None


class StdoutSink(BaseModel):
    """`[sink]`: standard output, at least once, repeats byte-identical.

    Attributes:
        kind: "stdout".
        ledger: Public ledger events, one JSON object a line.
        dead_letter: Copies of the rejections.
    """

    model_config = _Table
    kind: Literal["stdout"]
    ledger: LocalPath | None = None
    dead_letter: LocalPath | None = None


class ServiceTable(BaseModel):
    """`[service]`: how the daemon goes about it; nothing here can change an answer.

    Attributes:
        batch_rows: Most messages answered and committed at once.
        drain_seconds: After the first signal, how long the last batch and snapshot may take.
        log: Layout of the log lines on standard error.
        engine: Where queries are answered: "auto" gives a shard a process of its own for it from its first batch of
            65,536 queries on, "inside" never does.
    """

    model_config = _Table
    batch_rows: Annotated[int, Field(ge=1, le=2**20)] = 16_384
    drain_seconds: Annotated[float, Field(gt=0, le=3600)] = 30.0
    log: Literal["json", "text"] = "text"
    engine: Literal["auto", "inside"] = "auto"


class Config(BaseSettings):
    """The whole file. `PERPETUA_SERVICE__LOG=json` in the environment overrides `log` in `[service]`."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        env_prefix="PERPETUA_",
        env_nested_delimiter="__",
        nested_model_default_partial_update=True,
    )
    state: StateTable
    source: Annotated[FileSource | StdinSource | KafkaSource | MqttSource, Field(discriminator="kind")]
    sink: Annotated[FileSink | StdoutSink | KafkaSink | MqttSink, Field(discriminator="kind")]
    kafka: KafkaTable | None = None
    mqtt: MqttTable | None = None
    service: ServiceTable = ServiceTable()
    web: WebTable | None = None

    @model_validator(mode="after")
    def _fitting(self) -> Self:
        """Refuse to answer Arrow messages into lines, lines into Parquet, or one bus into another."""
        if (self.source.kind == "parquet") != (self.sink.kind == "parquet"):
            msg = f'must be parquet exactly if source.kind is (it is "{self.source.kind}")'
            raise PydanticCustomError("content", msg)
        for bus, table, needed in (("kafka", self.kafka, "servers"), ("mqtt", self.mqtt, "server")):
            if (self.source.kind == bus) != (self.sink.kind == bus):
                msg = f'must be {bus} exactly if source.kind is (it is "{self.source.kind}")'
                raise PydanticCustomError("content", msg)
            if (self.source.kind == bus) != (table is not None):
                msg = f"must be set, with its {needed}, exactly if source.kind is {bus}"
                raise PydanticCustomError(bus, msg)
        if isinstance(self.source, KafkaSource) and isinstance(self.sink, KafkaSink):
            check_kafka_topics(self.source, self.sink)
        if isinstance(self.source, MqttSource) and isinstance(self.sink, MqttSink):
            check_mqtt_topics(self.source, self.sink)
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 -- pydantic-settings' signature
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment goes before the file."""
        return env_settings, init_settings


def load_config(path: Path) -> Config:
    """Read a configuration.

    Raises:
        SourceError: The file cannot be read.
        InputError: It is not TOML, or a field is missing, unknown (the nearest name is given) or outside its bound.
    """
    document: dict[str, Any] = read_toml(path)
    if "model" in document and "source" not in document:
        bound = "this is a model file; name the configuration file, which has [state], [source] and [sink]"
        raise InputError("CONFIG.toml", str(path), bound)
    for name in document:
        if name.startswith("_"):  # pydantic-settings' own switches are no settings
            raise InputError(name, "...", "unknown setting")
    for bus, table in (("kafka", "sasl"), ("mqtt", "login")):
        if "password" in _inner(document, bus, table):
            variable = f"PERPETUA_{bus}__{table}__PASSWORD".upper()
            bound = f"secrets come from files or the environment: set password_file, or {variable}"
            raise InputError(f"{bus}.{table}.password", "...", bound)
    refuse_zeros(document)
    refuse_unknown_variables(os.environ, Config.model_fields)
    try:
        return Config(**document)
    except SettingsError as exc:  # a whole table in one variable, and it is not JSON
        raise InputError("PERPETUA_...", "...", f"in the environment: {exc}") from exc
    except ValidationError as exc:
        errors = exc.errors()
        unknown = [error for error in errors if error["type"] == "extra_forbidden"]  # a misspelt name is missing too
        raise _clear((unknown or errors)[0]) from exc


def _inner(document: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return a table within a document, or an empty one if there is none."""
    for name in names:
        found = document.get(name)
        document = found if isinstance(found, dict) else {}
    return document


_KINDS: Final = {
    "source": ("jsonl", "parquet", "stdin", "kafka", "mqtt"),
    "sink": ("jsonl", "parquet", "stdout", "kafka", "mqtt"),
}
_WHOLE: Final = {
    "content": "sink.kind",
    "kafka": "kafka",
    "mqtt": "mqtt",
    "topics": "source.topic and [sink]",
    "unguarded": "web.token_file",
}
"""What an error of several tables together is about."""

_SHOWN: Final = frozenset({"mechanism", "request_seconds", "check_hostname", "keepalive_seconds", "session_seconds"})
"""Settings of a broker whose values are shown in errors; in the others somebody may have written a password."""


def _clear(error: ErrorDetails) -> InputError:
    """Turn pydantic's first complaint into one that names field, value and bound."""
    parts = [str(part) for part in error["loc"]]
    if error["type"] in _WHOLE:
        return InputError(_WHOLE[error["type"]], "...", error["msg"])
    tags = {"jsonl", "parquet", "stdin", "stdout", "kafka", "mqtt"}
    field = ".".join(part for index, part in enumerate(parts) if not (index == 1 and part in tags))
    if error["type"] == "extra_forbidden":
        return InputError(field, "...", f"unknown setting{did_you_mean(parts[-1], _known_names(parts))}")
    if error["type"] == "missing":
        return InputError(field, None, "must be set")
    if error["type"] in {"union_tag_not_found", "union_tag_invalid"}:
        given = error["input"].get("kind") if isinstance(error["input"], dict) else None
        *others, last = _KINDS[field]
        bound = f"must be one of {', '.join(others)} and {last}{did_you_mean(given, _KINDS[field])}"
        return InputError(f"{field}.kind", given, bound)
    shown: Any = error["input"] if isinstance(error["input"], str | int | float | bool) else "..."
    if parts[0] in {"kafka", "mqtt"} and parts[-1] not in _SHOWN:
        shown = "..."
    bound = error["msg"][0].lower() + error["msg"][1:]
    if error["type"] == "literal_error":
        bound += did_you_mean(error["input"], re.findall(r"'([^']*)'", error["ctx"]["expected"]))
    return InputError(field, shown, bound)


def _known_names(parts: list[str]) -> list[str]:
    """Return the names that a setting could have had in its place."""
    kind = parts[1] if len(parts) > 2 else ""  # noqa: PLR2004 -- table, kind, name
    if len(parts) == 1:
        return list(Config.model_fields)
    nested: dict[tuple[str, str], type[BaseModel]] = {
        ("source", "stdin"): StdinSource,
        ("source", "kafka"): KafkaSource,
        ("sink", "stdout"): StdoutSink,
        ("sink", "kafka"): KafkaSink,
        ("source", "mqtt"): MqttSource,
        ("sink", "mqtt"): MqttSink,
        ("kafka", "tls"): TlsTable,
        ("mqtt", "tls"): TlsTable,
        ("mqtt", "login"): LoginTable,
        ("kafka", "sasl"): SaslTable,
    }
    tables: dict[str, type[BaseModel]] = {
        "state": StateTable,
        "source": FileSource,
        "sink": FileSink,
        "service": ServiceTable,
        "kafka": KafkaTable,
        "web": WebTable,
        "mqtt": MqttTable,
    }
    return list(nested.get((parts[0], kind), tables[parts[0]]).model_fields)
