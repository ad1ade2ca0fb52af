"""`perpetua offsets`: a model's place on Kafka, looked at, put right again, and left for another."""

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from connectors.kafka.marks import Claim
from connectors.kafka.offset_metadata import OffsetMetadata
from connectors.kafka.restore import OffsetReport, report_offsets
from connectors.kafka.restore import restore as commit
from connectors.kafka.topics import count_partitions
from connectors.kafka.traffic import first_and_last
from oracle import durable
from oracle.cli.kafka import open_kafka
from oracle.cli.options import AsJson, KafkaConfigFile, ModelName
from oracle.cli.output import print_json
from oracle.config.daemon import load_config
from oracle.errors import InputError, RefusedError, StateError, StorageError
from oracle.hosting.kafka import KafkaModel
from oracle.hosting.moving import Arrival, export_offsets, export_secret, import_offsets
from oracle.runtime.marks import CommitMark
from oracle.state.folder import newest_bytes
from oracle.state.format import Snapshot, decode
from oracle.state.moves import open_export, read_moves
from oracle.state.shards import shard_folder

__all__ = ["app"]

app = typer.Typer(
    help="Show, repair or move a model's position on Kafka: the group's offsets and Perpetua's own marks.",
    no_args_is_help=True,
    add_completion=False,
)

_DIGITS = 20
"""No offset has as many."""

_Partition = Annotated[int | None, typer.Option("--partition", min=0, help="Only this one.")]


class Origin(StrEnum):
    """Where a place is taken from."""

    MARK = "mark"
    GROUP = "group"
    SNAPSHOT = "snapshot"


@app.command("show")
def show(
    config_file: KafkaConfigFile, model: ModelName = None, partition: _Partition = None, as_json: AsJson = False
) -> None:
    """Show by partition what the group and our mark say was answered. Changes nothing; exits 1 if they disagree."""
    opened = open_kafka(load_config(config_file, model), "offsets", partition)
    found = [asyncio.run(_told(opened, number)) for number in _partitions(opened, partition)]
    if as_json:
        print_json({"group": opened.settings.group, "partitions": found})
    else:
        for told in found:
            for line in _lines(opened, told):
                typer.echo(line)
    if not all(told["agree"] for told in found):
        raise typer.Exit(1)


@app.command("restore")
def restore(
    config_file: KafkaConfigFile,
    model: ModelName = None,
    partition: _Partition = None,
    origin: Annotated[
        Origin | None,
        typer.Option("--from", help="Which position to trust; by default the newest that is certainly ours."),
    ] = None,
) -> None:
    """Commit a model's recorded position again, for its group and as its mark. No process may serve it meanwhile.

    --from snapshot is for a model that has lost both: queries that were
    answered behind the newest snapshot are answered again, with the same
    bytes.
    """
    opened = open_kafka(load_config(config_file, model), "offsets", partition)
    for number in _partitions(opened, partition):
        typer.echo(f"partition {number}: {asyncio.run(_restore(opened, number, origin))}")


@app.command("export")
def export(
    config_file: KafkaConfigFile,
    model: ModelName = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write to this new file; by default to standard output.")
    ] = None,
) -> None:
    """Leave a topic or cluster: say where the model stands, and close the place, so that no copy answers there.

    Stop every process of the model cleanly first. The file is for
    `offsets import`, which also brings the model back. Run again it
    says the same, as long as the state is where it was.
    """
    opened = open_kafka(load_config(config_file, model), "offsets")
    if out is not None and out.exists():
        raise InputError("--out", str(out), "must not exist yet")
    found = export_offsets(opened)
    data = msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n"
    if out is None:
        typer.echo(data.decode(), nl=False)
        return
    try:
        durable.write_exclusive(out, data)
    except FileExistsError as exc:
        raise InputError("--out", str(out), "must not exist yet") from exc
    except OSError as exc:
        raise StorageError(f"{out}: cannot be written: {exc.strerror}; the place is closed, run it again") from exc
    for number, shard in enumerate(found.shards):
        typer.echo(
            f"partition {number}: offset {shard.position}, round {shard.round:,}: nothing answers there any more"
        )


@app.command("import")
def import_(
    config_file: KafkaConfigFile,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `perpetua offsets export` wrote.")],
    model: ModelName = None,
    at: Annotated[
        list[str] | None,
        typer.Option(metavar="PARTITION=OFFSET", help="Where a partition's next query lies; may be repeated."),
    ] = None,
    same: Annotated[bool, typer.Option("--same", help="All offsets are those of the log that was left.")] = False,
) -> None:
    """Go on in another topic or cluster, or again in the one that was left, where `offsets export` stood.

    The configuration names the new place. Where a partition's next
    query lies is found by the records before it, which must be copies
    of those that were answered last; --at or --same says it.
    """
    opened = open_kafka(load_config(config_file, model), "offsets")
    places = _places(at or [])
    if same and places:
        raise InputError("--same", same, "must be left out where --at is given")
    try:
        found = open_export(durable.read(file), export_secret(opened))
    except OSError as exc:
        raise StorageError(f"{file}: cannot be read: {exc.strerror}") from exc
    for number, arrival in enumerate(import_offsets(opened, found, places, same=same)):
        typer.echo(f"partition {number}: {_arrived(arrival)}")


def _places(given: list[str]) -> dict[int, int]:
    places: dict[int, int] = {}
    for text in given:
        partition, _, offset = text.partition("=")
        if not (partition.isdecimal() and offset.isdecimal() and max(len(partition), len(offset)) < _DIGITS):
            raise InputError("--at", text, "must be PARTITION=OFFSET, two whole numbers, such as 0=1500")
        places[int(partition)] = int(offset)
    return places


def _arrived(arrival: Arrival) -> str:
    if arrival.fresh:
        return "has answered nothing yet, and begins where source.first_offset says"
    move, compared = arrival.move, arrival.compared
    known = (
        f"{compared} record{'s' if compared != 1 else ''} before it compared" if compared else "no record is before it"
    )
    return f"goes on at offset {move.position} (it left at {move.left}), round {move.round:,}; {known}"


def _partitions(model: KafkaModel, partition: int | None) -> list[int]:
    """Return the partitions to look at; shards beyond those of the topic have no place yet."""
    there = min(asyncio.run(count_partitions(model.settings)), model.shards)
    if partition is not None and partition >= there:
        raise InputError("--partition", partition, f"must be below {there}, the partitions of {model.settings.topic}")
    return list(range(there)) if partition is None else [partition]


async def _told(model: KafkaModel, partition: int) -> dict[str, Any]:
    first, last = await first_and_last(model.settings, partition)
    found = await report_offsets(model.settings, partition)
    lost = _lost(model, found)
    return {
        "partition": partition,
        "offset": _claim(found.offset) | {"sealed": found.sealed} if found.offset else None,
        "mark": _claim(found.mark),
        "log": {"first": first, "end": last},
        "counts": found.counts.position if found.counts else None,
        "agree": found.agrees and lost is None,
        "problem": found.problem or found.unmarked or lost,
    }


def _claim(claim: Claim | None) -> dict[str, Any]:
    """Return a place as it is shown: its round too, if its metadata is ours."""
    if claim is None:
        return {}
    shown: dict[str, Any] = {"position": claim.position, "metadata": claim.text}
    try:
        metadata = OffsetMetadata.unpack(claim.text)
        mark = CommitMark.unpack(metadata.mark)
    except StateError:
        return shown | {"ours": False}
    left = {} if CommitMark.left_by(metadata.mark) is None else {"left": True}
    return shown | {"ours": True, "round": mark.round, "time": metadata.timestamp, "looked": metadata.looked} | left


def _lines(model: KafkaModel, told: dict[str, Any]) -> list[str]:
    log = told["log"]
    lines = [
        f"partition {told['partition']} of topic {model.settings.topic}, offsets {log['first']} to {log['end']}",
        f"  group {model.settings.group}: {_said(told['offset'])}",
        f"  mark on topic {model.settings.marks}: {_said(told['mark'])}",
    ]
    if told["counts"] is not None:
        lines.append(f"  the next start goes on from: offset {told['counts']}")
    return [*lines, f"  WRONG: {told['problem']}" if told["problem"] else "  nothing is wrong"]


def _said(claim: dict[str, Any] | None) -> str:
    if not claim:
        return "nothing"
    if not claim["ours"] or claim.get("sealed") is False:
        return f"offset {claim['position']}, not committed by Perpetua for this place (metadata {claim['metadata']!r})"
    old = "" if claim.get("sealed", True) else ", by a version that kept no marks"
    left = ", and the model has left: nothing answers here any more" if "left" in claim else ""
    return f"offset {claim['position']}, round {claim['round']:,}{old}{left}"


async def _restore(model: KafkaModel, partition: int, origin: Origin | None) -> str:
    found = await report_offsets(model.settings, partition)
    choice = _chosen(model, found, origin)
    _refuse_opening(found, choice)
    if choice is None:
        lost = _lost(model, found)
        if lost is not None:
            raise StateError(f"partition {partition}: {lost}")
        return "nothing has been committed yet, so there is nothing to restore"
    if found.agrees and found.offset is not None and found.offset.position == choice.position:
        return f"offset {choice.position} is the group's and our mark's already"
    await commit(model.settings, partition, choice)
    before = "none" if found.offset is None else str(found.offset.position)
    return f"offset {choice.position} is the group's and our mark's again; the group's was {before}"


def _refuse_opening(found: OffsetReport, choice: Claim | None) -> None:
    """Refuse to open a place again that the model has left: it may answer elsewhere, under the same noise."""
    sealed = None if found.sealed is False else found.offset
    if choice is not None and not _is_closed(choice) and (_is_closed(found.mark) or _is_closed(sealed)):
        raise RefusedError(
            f"partition {found.partition}: the model has left this place, and nothing answers here any more; "
            "`perpetua offsets import` brings it back, if it has answered nowhere else"
        )


def _is_closed(claim: Claim | None) -> bool:
    """Return whether a claim is the last one in its place."""
    if claim is None or not _claim(claim)["ours"]:
        return False
    mark = OffsetMetadata.unpack(claim.text).mark
    return CommitMark.is_last(mark) or CommitMark.left_by(mark) is not None


def _chosen(model: KafkaModel, found: OffsetReport, origin: Origin | None) -> Claim | None:
    if origin is Origin.SNAPSHOT:
        return _of_snapshot(model, found)
    if origin is None:
        if found.counts is None and found.problem is not None:
            raise StateError(found.problem)
        return found.counts
    claim = found.mark if origin is Origin.MARK else found.offset
    if claim is None or not _claim(claim)["ours"] or (origin is Origin.GROUP and found.sealed is False):
        raise InputError("--from", origin.value, f"must exist and be ours; partition {found.partition} has none")
    return claim


def _newest(model: KafkaModel, partition: int) -> Snapshot | None:
    data = newest_bytes(shard_folder(model.config.state.folder, partition))
    return None if data is None else decode(data, model.master_key, model.plan.digest)


def _lost(model: KafkaModel, found: OffsetReport) -> str | None:
    """Return what to say where neither place is left and the state has answered queries; None if that is not so."""
    if found.offset is not None or found.mark is not None:
        return None
    snapshot = _newest(model, found.partition)
    if snapshot is None or not (snapshot.position or snapshot.round):
        return None
    return (
        f"neither the group's offset nor our mark is left, and the newest snapshot is at offset {snapshot.position}: "
        "`perpetua offsets restore CONFIG --from snapshot` begins there. Of a model that comes from another topic or "
        "cluster that is another log's offset: `perpetua offsets import` begins where it must"
    )


def _of_snapshot(model: KafkaModel, found: OffsetReport) -> Claim:
    snapshot = _newest(model, found.partition)
    if snapshot is None:
        raise StateError(f"partition {found.partition}: its folder holds no snapshot")
    for move in read_moves(shard_folder(model.config.state.folder, found.partition))[-1:]:
        if (snapshot.round, snapshot.position) == (move.round, move.left) and move.left != move.position:
            raise RefusedError(
                f"partition {found.partition}: the snapshot is at offset {move.left} of the log that the model left, "
                "and its `perpetua offsets import` was cut off; run that again"
            )
    if found.counts is not None and found.counts.position >= snapshot.position:
        raise RefusedError(
            f"partition {found.partition}: offset {found.counts.position} is known to be answered, and the snapshot is "
            f"at {snapshot.position}: leave out --from"
        )
    if not (snapshot.position or snapshot.round):
        raise RefusedError(
            f"partition {found.partition}: its snapshot has answered nothing; if that is so, delete the group's offset "
            f"with Kafka's own tool: kafka-consumer-groups --delete-offsets --group {model.settings.group} --topic "
            f"{model.settings.topic}:{found.partition}"
        )
    return Claim(snapshot.position, OffsetMetadata(CommitMark(snapshot.round, snapshot.tag).pack(), -1).pack())
