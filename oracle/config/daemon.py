"""The configuration of `perpetua serve`: a TOML file, overridden by the environment, secrets from files."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, get_args

from pydantic import BaseModel, Field, PrivateAttr, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError

from oracle.config.addresses import Topic
from oracle.config.base import ConfigTable, LocalPath
from oracle.config.clashes import refuse_clashes
from oracle.config.documents import read_toml
from oracle.config.http import HttpConfig, HttpSinkConfig, HttpSourceConfig
from oracle.config.kafka import (
    KafkaConfig,
    KafkaSinkConfig,
    KafkaSourceConfig,
    SaslConfig,
    check_format,
    check_kafka_topics,
)
from oracle.config.models import chosen, model_documents, placed
from oracle.config.mqtt import MqttConfig, MqttSinkConfig, MqttSourceConfig, check_mqtt_topics
from oracle.config.names import refuse_unknown_variables, refuse_zeros
from oracle.config.otlp import OtlpConfig
from oracle.config.truth import TruthConfig, check_truth_place
from oracle.config.web import WebConfig
from oracle.errors import InputError, did_you_mean

__all__ = [
    "Config",
    "FileSinkConfig",
    "FileSourceConfig",
    "HttpConfig",
    "HttpSinkConfig",
    "HttpSourceConfig",
    "KafkaConfig",
    "KafkaSinkConfig",
    "KafkaSourceConfig",
    "MqttConfig",
    "MqttSinkConfig",
    "MqttSourceConfig",
    "OtlpConfig",
    "SaslConfig",
    "ServiceConfig",
    "StateConfig",
    "StdinSourceConfig",
    "StdoutSinkConfig",
    "Topic",
    "TruthConfig",
    "config_of",
    "load_config",
    "load_configs",
    "tables_of",
]


class StateConfig(ConfigTable):
    """`[state]`: where the snapshots are.

    Attributes:
        folder: The state folder, made by `perpetua init`.
        key_file: The master key; by default `key` in the folder.
        snapshot_rounds: Write a snapshot after this many rounds.
        snapshot_seconds: Write a snapshot this long after the last one, if there have been rounds since.
    """

    folder: LocalPath
    key_file: LocalPath | None = None
    snapshot_rounds: Annotated[int, Field(ge=1)] = 2_000_000
    snapshot_seconds: Annotated[float, Field(gt=0)] = 60.0

    @property
    def key_path(self) -> Path:
        """Where the master key is."""
        return self.key_file or self.folder / "key"


class FileSourceConfig(ConfigTable):
    """`[source]`: a recorded or growing file.

    Attributes:
        kind: "jsonl" (one message a line) or "parquet" (.parquet or .arrow, many queries a message).
        path: The file.
        follow: Whether to wait for more lines at the end of a JSONL file (tail -f).
        rows_per_message: Rows of a Parquet file that make one message.
    """

    kind: Literal["jsonl", "parquet"]
    path: LocalPath
    follow: bool = False
    rows_per_message: Annotated[int, Field(ge=1, le=2**24)] = 65_536


class StdinSourceConfig(ConfigTable):
    """`[source]`: standard input, one JSON message a line, always the same stream from its beginning."""

    kind: Literal["stdin"]


class FileSinkConfig(ConfigTable):
    """`[sink]`: files, exactly once.

    Attributes:
        kind: "jsonl", or "parquet" (a folder of parts, or one .arrow stream).
        path: Answers.
        ledger: Public ledger events, one JSON object a line.
        dead_letter: Copies of the rejections.
    """

    kind: Literal["jsonl", "parquet"]
    path: LocalPath
    ledger: LocalPath | None = None
    dead_letter: LocalPath | None = None


class StdoutSinkConfig(ConfigTable):
    """`[sink]`: standard output, at least once, repeats byte-identical.

    Attributes:
        kind: "stdout".
        ledger: Public ledger events, one JSON object a line.
        dead_letter: Copies of the rejections.
    """

    kind: Literal["stdout"]
    ledger: LocalPath | None = None
    dead_letter: LocalPath | None = None


class ServiceConfig(ConfigTable):
    """`[service]`: how the daemon goes about it; nothing here can change an answer.

    Attributes:
        batch_rows: Most messages answered and committed at once.
        drain_seconds: How long the last batch and snapshot may take after the first signal.
        log: Layout of the log lines on standard error.
        engine: Has no effect any more; accepted so that configurations of earlier versions keep working.
    """

    batch_rows: Annotated[int, Field(ge=1, le=2**20, json_schema_extra={"unit": "messages"})] = 16_384
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
    state: StateConfig
    source: Annotated[
        FileSourceConfig | StdinSourceConfig | KafkaSourceConfig | MqttSourceConfig | HttpSourceConfig,
        Field(discriminator="kind"),
    ]
    sink: Annotated[
        FileSinkConfig | StdoutSinkConfig | KafkaSinkConfig | MqttSinkConfig | HttpSinkConfig,
        Field(discriminator="kind"),
    ]
    kafka: KafkaConfig | None = None
    mqtt: MqttConfig | None = None
    http: HttpConfig | None = None
    service: ServiceConfig = ServiceConfig()
    web: WebConfig | None = None
    otlp: OtlpConfig | None = None
    truth: TruthConfig | None = None
    _entry: str | None = PrivateAttr(None)

    @property
    def entry(self) -> str | None:
        """The model's name in `[[models]]`; None where it has the file to itself."""
        return self._entry

    def as_entry(self, name: str) -> Self:
        """Take it for the configuration of the model of that name in `[[models]]`, and return it."""
        self._entry = name
        return self

    @model_validator(mode="after")
    def _fitting(self) -> Self:
        """Refuse to answer Arrow messages into lines, lines into Parquet, or one bus into another."""
        if (self.source.kind == "parquet") != (self.sink.kind == "parquet"):
            raise PydanticCustomError(
                "content", f'must be parquet exactly if source.kind is (it is "{self.source.kind}")'
            )
        for bus, table, needed in (
            ("kafka", self.kafka, "servers"),
            ("mqtt", self.mqtt, "server"),
            ("http", self.http, "tokens_file"),
        ):
            if (self.source.kind == bus) != (self.sink.kind == bus):
                raise PydanticCustomError(
                    "content", f'must be {bus} exactly if source.kind is (it is "{self.source.kind}")'
                )
            if (self.source.kind == bus) != (table is not None):
                raise PydanticCustomError(bus, f"must be set, with its {needed}, exactly if source.kind is {bus}")
        if isinstance(self.source, KafkaSourceConfig) and isinstance(self.sink, KafkaSinkConfig):
            check_kafka_topics(self.source, self.sink)
            check_format(self.source, self.kafka)
        if isinstance(self.source, MqttSourceConfig) and isinstance(self.sink, MqttSinkConfig):
            check_mqtt_topics(self.source, self.sink)
        if self.truth is not None:
            check_truth_place(self.truth, self.source, self.sink)
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


_SECRETS: Final = (
    ("kafka", "sasl", "password"),
    ("kafka", "sasl", "client_secret"),
    ("kafka", "registry", "password"),
    ("kafka", "registry", "token"),
    ("mqtt", "login", "password"),
)
"""What no file may hold that is not private."""


def load_config(path: Path, model: str | None = None) -> Config:
    """Read the configuration of one model.

    Args:
        path: The file.
        model: Which of its `[[models]]`; None where it has none.

    Raises:
        SourceError: The file cannot be read.
        InputError: As of `load_configs`; or the model is none of the file's, or is not named where it must be.
    """
    configs = load_configs(path)
    if model is None and None in configs:
        return configs[None]
    named = {name: config for name, config in configs.items() if name is not None}
    if not named:
        raise InputError("--model", model, f"must be left out: {path} has no [[models]]")
    return named[chosen(named, model)]


def load_configs(path: Path) -> dict[str | None, Config]:
    """Read the configurations of all models of a file, by name; without `[[models]]` there is one, under None.

    Raises:
        SourceError: The file cannot be read.
        InputError: It is not TOML, or a field is missing, unknown (the nearest name is given) or outside its bound; or
            two models are in each other's way.
    """
    document: dict[str, Any] = read_toml(path)
    if "model" in document and "source" not in document:
        bound = "this is a model file; name the configuration file, which has [state], [source] and [sink]"
        raise InputError("CONFIG.toml", str(path), bound)
    for bus, table, name in _SECRETS:
        if name in _inner(document, bus, table):
            variable = f"PERPETUA_{bus}__{table}__{name}".upper()
            bound = f"secrets come from files or the environment: set {name}_file, or {variable}"
            raise InputError(f"{bus}.{table}.{name}", "...", bound)
    if "models" not in document:
        return {None: config_of(document)}
    configs = {name: _config_of(whole, name, document) for name, whole in model_documents(document).items()}
    refuse_clashes(configs)
    return {name: configs[name] for name in configs}


def _config_of(whole: Mapping[str, Any], name: str, document: Mapping[str, Any]) -> Config:
    """Return one model's, of its whole document; `document` is the file's."""
    try:
        return config_of(whole).as_entry(name)
    except InputError as exc:
        raise placed(exc, name, document) from exc


def config_of(document: Mapping[str, Any]) -> Config:
    """Return the configuration that a document makes with the environment.

    Raises:
        InputError: A field is missing, unknown (the nearest name is given) or outside its bound.
    """
    for name in document:
        if name.startswith("_"):  # pydantic-settings' own switches are no settings
            raise InputError(name, "...", "unknown setting")
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


def tables_of(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], type[BaseModel]]]:
    """Yield every table within a table, with the way to it: names, and after a name the kind that chooses the table."""
    for name, field in model.model_fields.items():
        for table in _tables_in(field.annotation):
            kinds = get_args(table.model_fields["kind"].annotation) if "kind" in table.model_fields else ()
            for kind in kinds:
                yield (*path, name, kind), table
            if not kinds:
                yield (*path, name), table
            yield from tables_of(table, (*path, name))


def _tables_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _tables_in(part)


_WHOLE: Final = {
    "content": "sink.kind",
    "kafka": "kafka",
    "mqtt": "mqtt",
    "http": "http",
    "registry": "kafka.registry",
    "standby": "source.standby",
    "topics": "source.topic and [sink]",
    "truth": "truth",
    "unguarded": "web.token_file",
    "otlp_headers": "otlp.headers_file",
}
"""What an error of several tables together is about."""

_SHOWN: Final = frozenset(
    {"mechanism", "compression", "request_seconds", "check_hostname", "keepalive_seconds", "session_seconds"}
)
"""Settings of a broker whose values are shown in errors; in the others somebody may have written a password."""


def _clear(error: ErrorDetails) -> InputError:
    """Turn pydantic's first complaint into one that names field, value and bound."""
    parts = [str(part) for part in error["loc"]]
    if error["type"] in _WHOLE:
        within = "truth." if parts[:1] == ["truth"] else ""
        return InputError(within + _WHOLE[error["type"]], "...", error["msg"])
    tables = dict(tables_of(Config))
    field = ".".join(part for index, part in enumerate(parts) if not (index == 1 and parts[0] in {"source", "sink"}))
    if error["type"] == "extra_forbidden":
        known = tables.get(tuple(parts[:-1]), Config).model_fields
        return InputError(field, "...", f"unknown setting of a configuration{did_you_mean(parts[-1], known)}")
    if error["type"] == "missing":
        return InputError(field, None, "must be set")
    if error["type"] in {"union_tag_not_found", "union_tag_invalid"}:
        given = error["input"].get("kind") if isinstance(error["input"], dict) else None
        kinds = [path[1] for path in tables if path[0] == field]
        bound = f"must be one of {', '.join(kinds[:-1])} and {kinds[-1]}{did_you_mean(given, kinds)}"
        return InputError(f"{field}.kind", given, bound)
    shown: Any = error["input"] if isinstance(error["input"], str | int | float | bool) else "..."
    if (parts[0] in {"kafka", "mqtt"} and parts[-1] not in _SHOWN) or parts == ["otlp", "endpoint"]:
        shown = "..."
    bound = error["msg"][0].lower() + error["msg"][1:]
    if error["type"] == "literal_error":
        bound += did_you_mean(error["input"], re.findall(r"'([^']*)'", error["ctx"]["expected"]))
    return InputError(field, shown, bound)
