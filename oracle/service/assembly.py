"""From a configuration to the connectors and the store it names."""

from connectors.base import Sink, Source
from connectors.local.jsonl import JsonlSink, JsonlSource
from connectors.local.parquet import ParquetSink, ParquetSource
from connectors.local.stdio import StdinSource as StandardInput
from connectors.local.stdio import StdoutSink as StandardOutput
from oracle.errors import StateError
from oracle.planning.plan import Plan
from oracle.service.config import Config, FileSink, FileSource, StateTable
from oracle.state.folder import FolderStore
from oracle.state.keys import read_key_file

__all__ = ["open_sink", "open_source", "open_store", "stream_end"]


def open_store(table: StateTable) -> tuple[FolderStore, Plan]:
    """Lock the state folder and read its plan.

    Raises:
        StateError: The folder, its key or its plan cannot be used.
    """
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
            return ParquetSource(config.source.path, rows_per_message=config.source.rows_per_message)
        case _:
            return StandardInput(body_limit=plan.limits.body_bytes)


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
                config.state.folder / "stdout",
                ledger_path=config.sink.ledger,
                dead_letter_path=config.sink.dead_letter,
            )


def stream_end(config: Config) -> int | None:
    """Return the position at which the source ends, where that is known beforehand: for progress only."""
    source = config.source
    if isinstance(source, FileSource) and source.kind == "jsonl" and not source.follow and source.path.is_file():
        return source.path.stat().st_size
    return None
