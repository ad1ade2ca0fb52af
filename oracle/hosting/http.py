"""From a configuration to questions over HTTP: their journals, the desk, and the daemon's ends."""

import hmac
from pathlib import Path
from typing import NamedTuple

from connectors.base import Committed
from connectors.desk.desk import Desk
from connectors.desk.records import delivery
from connectors.desk.sink import DeskSink
from connectors.desk.source import DeskSource
from connectors.journal.journal import Journal
from connectors.journal.source import JournalSource
from oracle.config.daemon import Config, HttpConfig, HttpSinkConfig, HttpSourceConfig
from oracle.errors import InputError, MisplacedError, StateError
from oracle.hosting.overlaps import refuse_overlap
from oracle.planning.plan import Plan
from oracle.state.keys import journal_key, read_key_file

__all__ = ["HttpEnds", "last_commit", "misplaced", "open_ends", "open_offline", "refuse_waiting"]


class HttpEnds(NamedTuple):
    """What a daemon on HTTP is made of, not yet open.

    Attributes:
        secret: Of the state; marks the ids of questions.
    """

    source: DeskSource
    sink: DeskSink
    desk: Desk
    table: HttpConfig
    secret: bytes


def open_ends(config: Config, plan: Plan) -> HttpEnds:
    """Return both ends, and the desk between them.

    Raises:
        InputError: The configuration does not name an HTTP source and sink, or the ledger's file is another one.
        StateError: The key file cannot be used.
    """
    _, sink, table = _tables(config)
    questions, answers, secret = _journals(config, plan)
    if sink.ledger is not None:
        refuse_overlap(config, {"sink.ledger": sink.ledger})
    desk = Desk(questions, sink.answers_bytes)
    made = DeskSink(answers, desk, sink.ledger)
    return HttpEnds(DeskSource(desk, made), made, desk, table, secret)


def open_offline(config: Config, plan: Plan) -> tuple[JournalSource, DeskSink]:
    """Return what is journalled as a source that ends, and a sink that gives nothing out; not yet open."""
    questions, answers, _ = _journals(config, plan)
    questions.inspect()
    return JournalSource(questions, delivery, live=False), DeskSink(answers, None, _tables(config)[1].ledger)


def last_commit(config: Config, plan: Plan) -> Committed | None:
    """Return the last commit without opening the sink.

    Raises:
        StateError: It belongs to another state.
        StorageError: It is damaged.
    """
    return DeskSink(_journals(config, plan)[1], None).inspect()


def misplaced(config: Config, error: MisplacedError) -> StateError:
    """Return what is said on HTTP where a snapshot is ahead of what was committed."""
    return StateError(
        f"journal {_folder(config)}: {error}. On HTTP this folder is log and sink: put the newest one back, never an "
        "older copy, as other questions would get the noise of those that it lacks"
    )


def refuse_waiting(config: Config, plan: Plan) -> Committed | None:
    """Return the last commit, and refuse to go on while a question that was taken in has no answer.

    Raises:
        StateError: There is one.
    """
    questions = _journals(config, plan)[0]
    questions.inspect()
    committed = last_commit(config, plan)
    left = questions.end - (0 if committed is None else committed.position)
    if left > 0:
        raise StateError(
            f"{questions.folder.parent}: {left} questions were taken in and not answered; start "
            "`perpetua serve` on it, stop it cleanly, and retire it then"
        )
    return committed


def _journals(config: Config, plan: Plan) -> tuple[Journal, Journal, bytes]:
    source, sink, _ = _tables(config)
    key = journal_key(read_key_file(config.state.key_path), plan.digest)
    folder = _folder(config)
    return (
        Journal(folder / "queries", key, "queries over http", limit=source.journal_bytes),
        Journal(folder / "answers", key, "answers over http", limit=sink.answers_bytes),
        hmac.digest(key, b"perpetua/http/1/askers", "sha256"),
    )


def _folder(config: Config) -> Path:
    return _tables(config)[0].journal or config.state.folder / "journal"


def _tables(config: Config) -> tuple[HttpSourceConfig, HttpSinkConfig, HttpConfig]:
    source, sink, http = config.source, config.sink, config.http
    if not isinstance(source, HttpSourceConfig) or not isinstance(sink, HttpSinkConfig) or http is None:
        raise InputError("source.kind", config.source.kind, 'must be "http" for this')
    return source, sink, http
