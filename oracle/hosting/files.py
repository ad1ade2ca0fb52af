"""From a configuration to the connectors and the store it names."""

from pathlib import Path

from connectors.base import Committed, Sink, Source
from connectors.local.commitfile import DurableCommitFile
from connectors.local.jsonl import JsonlSink, JsonlSource
from connectors.local.parquet_sink import ParquetSink
from connectors.local.parquet_source import ParquetSource
from connectors.local.stdio import StdinSource, StdoutSink
from oracle.config.daemon import (
    Config,
    FileSinkConfig,
    FileSourceConfig,
    StateConfig,
    StdinSourceConfig,
    StdoutSinkConfig,
)
from oracle.errors import InputError, MisplacedError, StateError
from oracle.hosting.file_kinds import MessageSettings, check_messages
from oracle.hosting.overlaps import refuse_overlap
from oracle.planning.kinds import decode_plan
from oracle.planning.plan import Plan
from oracle.runtime.recovery import Placed, check_order
from oracle.state.folder import FolderStore, check_mode
from oracle.state.keys import read_key_file
from oracle.state.shards import refuse_copies, refuse_sharded

_STDOUT = "stdout"
"""Name of the commit record that goes with standard output, in the state folder."""

__all__ = [
    "inspect_sink",
    "last_commit",
    "open_sink",
    "open_source",
    "open_store",
    "stream_end",
]


def open_store(table: StateConfig) -> tuple[FolderStore, Plan]:
    """Lock the state folder of one shard and read its plan.

    Raises:
        StateError: The folder, its key or its plan cannot be used, or it holds several shards.
    """
    check_mode(table.folder)  # else opening it would make a folder where a path is misspelt
    refuse_sharded(table.folder)
    master_key = read_key_file(table.key_path)
    refuse_copies(table.folder, master_key)
    store = FolderStore.open(table.folder, master_key)
    data = store.read_plan()
    if data is None:
        store.close()
        raise StateError(f"{table.folder}: it holds no plan; make a state with `perpetua init`")
    return store, decode_plan(data)


def open_source(config: Config, plan: Plan) -> Source:
    """Return the source that the configuration names, not yet open.

    Bodies are cut behind the plan's limits, so that an endless line costs no memory.

    Raises:
        InputError: The source is a bus, or its messages do not fit the plan.
    """
    match config.source:
        case FileSourceConfig(kind="jsonl"):
            return JsonlSource(config.source.path, follow=config.source.follow, body_limit=plan.limits.body_bytes)
        case FileSourceConfig():
            path, rows = config.source.path, config.source.rows_per_message
            check_messages(plan, path, rows, MessageSettings())
            return ParquetSource(path, rows_per_message=rows)
        case StdinSourceConfig():
            return StdinSource(body_limit=plan.limits.body_bytes)
        case _:
            raise InputError("source.kind", config.source.kind, "must be a file or standard input for this")


def open_sink(config: Config) -> Sink:
    """Return the sink that the configuration names, not yet open.

    Raises:
        InputError: It would write over itself, its source or its state.
    """
    return _sink(config)


def inspect_sink(config: Config, reached: Placed) -> None:
    """Find, without changing anything, what stands in the way of opening the sink beside a snapshot.

    Raises:
        StateError: The snapshot is ahead of the sink.
        InputError: A file has content that no commit record speaks of, or another path is needed.
        StorageError: A file is shorter than what was committed, or cannot be opened.
    """
    sink = _sink(config)
    try:
        check_order(reached, last_commit(config))
    except MisplacedError as exc:
        raise MisplacedError(f"{_record_of(config)}: {str(exc).removeprefix('sink: ')}") from exc
    sink.inspect()


def _sink(config: Config) -> JsonlSink | ParquetSink | StdoutSink:
    table = config.sink
    sink: JsonlSink | ParquetSink | StdoutSink
    match table:
        case FileSinkConfig(kind="jsonl"):
            sink = JsonlSink(table.path, ledger_path=table.ledger, dead_letter_path=table.dead_letter)
        case FileSinkConfig():
            sink = ParquetSink(table.path, ledger_path=table.ledger, dead_letter_path=table.dead_letter)
        case StdoutSinkConfig():
            record = config.state.folder / _STDOUT
            sink = StdoutSink(record, ledger_path=table.ledger, dead_letter_path=table.dead_letter)
        case _:
            raise InputError("sink.kind", table.kind, "must be a file or standard output for this")
    refuse_overlap(config, sink.paths())
    return sink


def stream_end(config: Config) -> int | None:
    """Return the position at which the source ends, where that is known beforehand: for progress only."""
    source = config.source
    if isinstance(source, FileSourceConfig) and source.kind == "jsonl" and not source.follow and source.path.is_file():
        return source.path.stat().st_size
    return None


def last_commit(config: Config) -> Committed | None:
    """Return the sink's last commit without opening the sink, so that nothing is cut or locked."""
    record = DurableCommitFile(_record_of(config)).read()
    if record is None or record.position is None:
        return None
    return Committed(record.position, record.metadata)


def _record_of(config: Config) -> Path:
    path = config.sink.path if isinstance(config.sink, FileSinkConfig) else None
    return config.state.folder / _STDOUT if path is None else path.with_name(path.name + ".commit")
