"""`perpetua retire`: the end of a model, in an order that a crash can cut anywhere."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from oracle import durable
from oracle.cli.options import ModelName
from oracle.cli.version import version
from oracle.errors import InputError, RefusedError, StateError, StorageError
from oracle.state.files import write_exclusive
from oracle.state.folder import check_mode, newest_bytes, read_plan
from oracle.state.format import decode
from oracle.state.keys import read_key_file
from oracle.state.retired import Retired, erase_secrets, key_digest, lock_all, read_retired, write_retired
from oracle.state.shard_id import shard_id_of
from oracle.state.shards import shard_count, shard_folders, shard_name

if TYPE_CHECKING:
    from oracle.config.daemon import Config

__all__ = ["run"]


def run(
    state: Annotated[
        Path,
        typer.Argument(
            metavar="STATE", help="The configuration that it was served by (CONFIG.toml), or the state folder."
        ),
    ],
    model: ModelName = None,
    key: Annotated[Path | None, typer.Option("--key", help="The key file; by default the configuration's.")] = None,
    receipt_key: Annotated[
        Path | None, typer.Option("--receipt-key", help="As for `audit sign`; by default beside the key file.")
    ] = None,
) -> None:
    """End a model for good: erase its keys and snapshots, and leave a receipt. This cannot be undone.

    Stop whatever serves it first. With the configuration the end is
    committed too: the ledger gets its last event, and no copy of
    the state answers any more. What the model has spent stays spent.
    """
    config = _config(state, model)
    folder = state if config is None else config.state.folder
    key_path = (key or (folder / "key" if config is None else config.state.key_path)).absolute()
    check_mode(folder)
    if shard_id_of(folder).shards > 1:
        raise RefusedError(f"{folder}: is one shard of a state; retire the whole state: {folder.resolve().parent}")
    folders = shard_folders(folder)
    with lock_all(list(dict.fromkeys([folder, *folders]))):
        retired = read_retired(folder)
        if retired is None:
            # 1. The last commit, if we know where.  2. The word: from here on it is retired.
            retired = _end(folder, key_path, receipt_key or key_path.with_name("receipt-key"), config)
            write_retired(folder, retired)
        receipts = _write_receipts(folder, retired)  # 3.
        erase_secrets(
            folder, folders, retired, _key(folder / retired.key_file)
        )  # 4. the key, 5. snapshots, 6. journals
    _say(folder, retired, receipts, config)


def _config(state: Path, model: str | None) -> "Config | None":
    if state.suffix != ".toml" or state.is_dir():
        if model is not None:
            raise InputError("--model", model, "must be left out: STATE is a state folder")
        return None
    from oracle.config.daemon import load_config

    return load_config(state, model)


def _end(folder: Path, key_path: Path, receipt_key: Path, config: "Config | None") -> Retired:
    """Return the word that a state is retired, once its last commit says so; with receipts, as its key is needed."""
    from oracle.hosting.retirement import end_streams, retired_event
    from oracle.planning.kinds import decode_plan
    from oracle.receipts.keys import signing_key
    from oracle.receipts.receipts import make_statement, seal

    shard_count(folder)
    folders = shard_folders(folder)
    encoded, master_key = read_plan(folders[0]), read_key_file(key_path)
    if encoded is None:
        raise StateError(f"{folder}: it holds no plan")
    plan = decode_plan(encoded)
    snapshots = [decode(newest_bytes(one) or b"", master_key, plan.digest) for one in folders]
    events = [retired_event(plan, snapshot, version()) for snapshot in snapshots]
    software, signer = f"perpetua {version()}", signing_key(receipt_key)
    statements = [make_statement(one, master_key, software) for one in folders]
    if config is not None:
        end_streams(config, plan, snapshots, events)
    return Retired(
        model=plan.name,
        retired=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        events=tuple(events),
        receipts=tuple(msgspec.Raw(seal(msgspec.structs.replace(one, retired=True), signer)) for one in statements),
        key_file=_seen_from(folder, key_path),
        key_digest=key_digest(master_key),
        journal=_seen_from(folder, getattr(config and config.source, "journal", None) or folder / "journal"),
    )


def _seen_from(folder: Path, path: Path) -> str:
    """Return a path as it is found from a folder that may be moved."""
    whole, path = folder.resolve(), path.resolve()
    return str(path.relative_to(whole) if path.is_relative_to(whole) else path)


def _key(path: Path) -> bytes | None:
    """Return the key; None if it is erased, or was being erased."""
    try:
        erased = b"\0" in durable.read(path)  # a key file is text
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise StorageError(f"{path}: cannot be read: {exc.strerror}") from exc
    return None if erased else read_key_file(path)


def _write_receipts(folder: Path, retired: Retired) -> list[Path]:
    whole = folder.resolve()
    shards = [f"-{shard_name(number)}" for number in range(len(retired.receipts))]
    names = shards if len(shards) > 1 else [""]
    paths = [whole.with_name(f"{whole.name}.receipt-retired{name}.json") for name in names]
    for path, receipt in zip(paths, retired.receipts, strict=True):
        try:
            write_exclusive(path, bytes(receipt).strip() + b"\n")
        except FileExistsError as exc:
            if durable.read(path).strip() != bytes(receipt).strip():
                raise StorageError(f"{path}: exists already, and is another receipt; move it away") from exc
    return paths


def _say(folder: Path, retired: Retired, receipts: list[Path], config: "Config | None") -> None:
    rounds = sum(event.round for event in retired.events)
    typer.echo(f"{retired.model}: retired ({retired.retired}) after {rounds:,} rounds")
    for path in receipts:
        typer.echo(f"receipt:      {path}")
    typer.echo(f"erased:       {folder / retired.key_file}, and the snapshots in {folder}")
    typer.echo("not erased:   other copies, backups, a genesis file, the log and the answers; nor what a flash drive,")
    typer.echo("              a copy-on-write file system or a volume's snapshots still hold")
    if config is None:
        typer.echo("ledger:       not updated; name the configuration instead of the folder to update it")
