"""The configuration of `perpetua serve`: a TOML file, overridden by the environment, secrets from files."""

import difflib
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError

from oracle.errors import InputError
from oracle.service.documents import read_toml

__all__ = ["Config", "FileSink", "FileSource", "ServiceTable", "StateTable", "StdinSource", "StdoutSink", "load_config"]

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
    folder: Path
    key_file: Path | None = None
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
    path: Path
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
    path: Path
    ledger: Path | None = None
    dead_letter: Path | None = None


class StdoutSink(BaseModel):
    """`[sink]`: standard output, at least once, repeats byte-identical.

    Attributes:
        kind: "stdout".
        ledger: Public ledger events, one JSON object a line.
        dead_letter: Copies of the rejections.
    """

    model_config = _Table
    kind: Literal["stdout"]
    ledger: Path | None = None
    dead_letter: Path | None = None


class ServiceTable(BaseModel):
    """`[service]`: how the daemon goes about it; nothing here can change an answer.

    Attributes:
        batch_rows: Most messages answered and committed at once.
        drain_seconds: After the first signal, how long the last batch and snapshot may take.
        log: Layout of the log lines on standard error.
    """

    model_config = _Table
    batch_rows: Annotated[int, Field(ge=1, le=2**20)] = 16_384
    drain_seconds: Annotated[float, Field(gt=0, le=3600)] = 30.0
    log: Literal["json", "text"] = "text"


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
    source: Annotated[FileSource | StdinSource, Field(discriminator="kind")]
    sink: Annotated[FileSink | StdoutSink, Field(discriminator="kind")]
    service: ServiceTable = ServiceTable()

    @model_validator(mode="after")
    def _one_content(self) -> Self:
        """Refuse to answer Arrow messages into lines, or lines into Parquet."""
        if (self.source.kind == "parquet") != (self.sink.kind == "parquet"):
            msg = f'must be parquet exactly if source.kind is (it is "{self.source.kind}")'
            raise PydanticCustomError("content", msg)
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
    for name in document:
        if name.startswith("_"):  # pydantic-settings' own switches are no settings
            raise InputError(name, "...", "unknown setting")
    try:
        return Config(**document)
    except SettingsError as exc:  # a whole table in one variable, and it is not JSON
        raise InputError("PERPETUA_...", "...", f"in the environment: {exc}") from exc
    except ValidationError as exc:
        errors = exc.errors()
        unknown = [error for error in errors if error["type"] == "extra_forbidden"]  # a misspelt name is missing too
        raise _clear((unknown or errors)[0]) from exc


_KINDS: Final = {"source": "jsonl, parquet and stdin", "sink": "jsonl, parquet and stdout"}


def _clear(error: ErrorDetails) -> InputError:
    """Turn pydantic's first complaint into one that names field, value and bound."""
    parts = [str(part) for part in error["loc"]]
    if error["type"] == "content":
        return InputError("sink.kind", "...", error["msg"])
    tags = {"jsonl", "parquet", "stdin", "stdout"}
    field = ".".join(part for index, part in enumerate(parts) if not (index == 1 and part in tags))
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(parts[-1], _known_names(parts), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return InputError(field, "...", f"unknown setting{hint}")
    if error["type"] == "missing":
        return InputError(field, None, "must be set")
    if error["type"] in {"union_tag_not_found", "union_tag_invalid"}:
        given = error["input"].get("kind") if isinstance(error["input"], dict) else None
        return InputError(f"{field}.kind", given, f"must be one of {_KINDS[field]}")
    shown: Any = error["input"] if isinstance(error["input"], str | int | float | bool) else "..."
    return InputError(field, shown, error["msg"][0].lower() + error["msg"][1:])


def _known_names(parts: list[str]) -> list[str]:
    """Return the names that a setting could have had in its place."""
    kind = parts[1] if len(parts) > 2 else ""  # noqa: PLR2004 -- table, kind, name
    tables: dict[str, type[BaseModel]] = {
        "state": StateTable,
        "source": StdinSource if kind == "stdin" else FileSource,
        "sink": StdoutSink if kind == "stdout" else FileSink,
        "service": ServiceTable,
    }
    return list((tables[parts[0]] if len(parts) > 1 else Config).model_fields)
