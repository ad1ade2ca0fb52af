"""The tables of a configuration that serves over HTTP, without a bus."""

from typing import Annotated, Literal

from pydantic import Field

from oracle.config.base import ConfigTable, LocalPath

__all__ = ["HttpConfig", "HttpSinkConfig", "HttpSourceConfig"]


class HttpConfig(ConfigTable):
    """`[http]`: where questions are asked over HTTP, and by whom. Encryption is for a proxy in front of it.

    Attributes:
        host: The address to listen at.
        port: The port to listen at; 0 takes any free one and logs it.
        tokens_file: Holds a token of at least 16 characters on each line, one for each asker, who sees no other one's
            answers (`Authorization: Bearer TOKEN`).
        wait_seconds: How long a request waits for its answer, unless it says so itself.
    """

    host: Annotated[str, Field(min_length=1, max_length=255)] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8464
    tokens_file: LocalPath
    wait_seconds: Annotated[float, Field(ge=0, le=30)] = 10.0


class HttpSourceConfig(ConfigTable):
    """`[source]`: questions over HTTP, journalled on this machine before they are acknowledged.

    Attributes:
        kind: "http".
        journal: Folder of the journals; by default `journal` in the state folder. It belongs to the state.
        journal_bytes: At this size of the questions' journal, take nothing more until a snapshot lets it shrink.
    """

    kind: Literal["http"]
    journal: LocalPath | None = None
    journal_bytes: Annotated[int, Field(ge=1 << 20, le=1 << 40)] = 1 << 30


class HttpSinkConfig(ConfigTable):
    """`[sink]`: answers over HTTP, given to their askers as often as they ask, while they are kept.

    Attributes:
        kind: "http".
        ledger: Public ledger events, one JSON object a line.
        answers_bytes: Keep the newest answers, so many bytes of them (each counts 400 bytes more than it has), in
            memory and in the journal. So long an answer can be fetched, and the key of its question is known.
    """

    kind: Literal["http"]
    ledger: LocalPath | None = None
    answers_bytes: Annotated[int, Field(ge=1 << 20, le=1 << 40)] = 1 << 26
