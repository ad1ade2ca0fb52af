"""From a configuration to the connectors and the store it names."""

from connectors.base import Committed, Sink, Source
from connectors.local.commitfile import DurableCommitFile
from connectors.local.jsonl import JsonlSink, JsonlSource
from connectors.local.parquet import ParquetSink, ParquetSource, column_names
from connectors.local.stdio import StdinSource as StandardInput
from connectors.local.stdio import StdoutSink as StandardOutput
from oracle.errors import InputError, StateError
from oracle.planning.plan import Plan
from oracle.service.config import Config, FileSink, FileSource, StateTable
from oracle.state.folder import FolderStore
from oracle.state.keys import read_key_file
from oracle.state.shards import refuse_sharded

_STDOUT = "stdout"
"""Name of the commit record that goes with standard output, in the state folder."""

__all__ = ["last_commit", "open_sink", "open_source", "open_store", "stream_end"]


def open_store(table: StateTable) -> tuple[FolderStore, Plan]:
    """Lock the state folder of one shard and read its plan.

    Raises:
        StateError: The folder, its key or its plan cannot be used, or it holds several shards.
    """
    refuse_sharded(table.folder)
    store = FolderStore.open(table.folder, read_key_file(table.key_path))
    data = store.read_plan()
    if data is None:
        store.close()
        msg = f"{table.folder}: it holds no plan; make a state with `perpetua init`"
        raise StateError(msg)
    return store, Plan.decode(data)


def open_source(config: Config, plan: Plan) -> Source:
    """Return the source that the configuration names, not yet open.

    Bodies are cut behind the plan's limits, so that an endless line costs no memory.
    """
    match config.source:
        case FileSource(kind="jsonl"):
            return JsonlSource(config.source.path, follow=config.source.follow, body_limit=plan.limits.body_bytes)
        case FileSource():
            _check_messages(config.source, plan)
            return ParquetSource(config.source.path, rows_per_message=config.source.rows_per_message)
        case _:
            return StandardInput(body_limit=plan.limits.body_bytes)


def _check_messages(source: FileSource, plan: Plan) -> None:
    """Refuse a file whose every message would be rejected."""
    if source.rows_per_message > plan.limits.rows:
        bound = f"must be at most {plan.limits.rows}, the plan's limit on the rows of a message"
        raise InputError("source.rows_per_message", source.rows_per_message, bound)
    columns = column_names(source.path)
    for feature in plan.features:
        if columns.count(feature.name) != 1:
            raise InputError("source.path", str(source.path), f"must have one column {feature.name}")


def open_sink(config: Config) -> Sink:
    """Return the sink that the configuration names, not yet open."""
    match config.sink:
        case FileSink(kind="jsonl"):
            return JsonlSink(config.sink.path, ledger_path=config.sink.ledger, dead_letter_path=config.sink.dead_letter)
        case FileSink():
            return ParquetSink(
                config.sink.path, ledger_path=config.sink.ledger, dead_letter_path=config.sink.dead_letter
            )
        case _:
            return StandardOutput(
                config.state.folder / _STDOUT,
                ledger_path=config.sink.ledger,
                dead_letter_path=config.sink.dead_letter,
            )


def stream_end(config: Config) -> int | None:
    """Return the position at which the source ends, where that is known beforehand: for progress only."""
    source = config.source
    if isinstance(source, FileSource) and source.kind == "jsonl" and not source.follow and source.path.is_file():
        return source.path.stat().st_size
    return None


def last_commit(config: Config) -> Committed | None:
    """Return the sink's last commit without opening the sink, so that nothing is cut or locked."""
    sink = config.sink
    path = sink.path if isinstance(sink, FileSink) else config.state.folder / _STDOUT
    suffix = ".commit" if isinstance(sink, FileSink) else ""
    record = DurableCommitFile(path.with_name(path.name + suffix)).read()
    if record is None or record.position is None:
        return None
    return Committed(record.position, record.metadata)
