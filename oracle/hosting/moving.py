"""A model's way from one topic or cluster to another, its state and budget along with it.

Nothing is answered anew: the state goes on where it stood, at another offset. What keeps copies of it from answering
on two logs under the same noise, in this order, so that a crash between any two steps is harmless:

    1. the old place's last commit says that the state has left: no copy answers there from then on;
    2. the file of the export, of what was committed;
    3. in the state's folder the record where it goes: the file takes it nowhere else;
    4. the commit in the new place, at the same round and tag;
    5. the snapshot, at the new position.

Between 4 and 5 serving refuses: the snapshot does not go with the commit. Each step is let be that was done.
"""

import asyncio
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from connectors.base import Commit, Committed, Replies
from connectors.kafka.group import listed, members
from connectors.kafka.marks import Claim
from connectors.kafka.moving import Spot, cluster_of, find_spot, trail_before
from connectors.kafka.offset_metadata import OffsetMetadata
from connectors.kafka.restore import OffsetReport, report_offsets
from connectors.kafka.sink import KafkaSink
from connectors.kafka.topics import count_partitions
from oracle.errors import InputError, RefusedError, RetiredError, StateError
from oracle.hosting.kafka import KafkaModel, check_topics
from oracle.runtime.marks import CommitMark
from oracle.state.folder import FolderStore, newest_bytes
from oracle.state.format import Snapshot, decode
from oracle.state.moves import Export, ExportedShard, Move, check_move, read_moves, record_move, sealed
from oracle.state.retired import lock_unserved
from oracle.state.schema_log import SchemaLog
from oracle.state.shards import shard_folders

__all__ = ["Arrival", "export_offsets", "export_secret", "import_offsets"]

_FIRST = "start `perpetua serve` on it, stop it cleanly, and export it then"
_NAME_BYTES = 16


def export_offsets(model: KafkaModel) -> Export:
    """Have a state leave its place on Kafka, and return where it stood; a second time the same.

    Raises:
        RefusedError: The group has members, or `[truth]` counts by the topics' offsets.
        StateError: A shard's snapshot is not at its last commit, or it was retired.
        BusError: The brokers do not answer; the same call goes on.
    """
    return asyncio.run(_export(model))


async def _export(model: KafkaModel) -> Export:
    model = await check_topics(model, tolerant=True)
    await _refuse_company(model)
    settings = model.settings
    snapshots = [_newest(model, folder) for folder in shard_folders(model.config.state.folder)]
    served = await count_partitions(settings)
    reports = [await report_offsets(settings, shard) for shard in range(min(served, model.shards))]
    for snapshot, report in zip(snapshots, reports, strict=False):  # `check_topics` has looked at the others
        if report.counts is None and report.problem is not None:
            raise StateError(report.problem)
        _check_standing(snapshot, _committed(report.counts))
    begun = filter(None, (_left(report.counts) for report in reports))
    move = next(begun, secrets.token_hex(_NAME_BYTES))
    shards = [await _leave(model, shard, snapshots[shard], move) for shard in range(len(reports))]
    shards += [_exported(snapshot, _check_standing(snapshot, None), ()) for snapshot in snapshots[len(reports) :]]
    export = Export(
        move=move,
        model=model.plan.name,
        cluster=await cluster_of(settings),
        topic=settings.topic,
        group=settings.group,
        shards=tuple(shards),
    )
    return sealed(export, export_secret(model))


async def _leave(model: KafkaModel, shard: int, snapshot: Snapshot, move: str) -> ExportedShard:
    """Commit that the shard leaves: the producer is fenced first, so that nobody has committed more meanwhile."""
    sink = KafkaSink(model.settings, shard)
    try:
        mark = _check_standing(snapshot, await sink.open())
        await sink.commit(Commit(Replies(), [], snapshot.position, mark.pack_left(bytes.fromhex(move))))
    finally:
        await sink.close()
    return _exported(snapshot, mark, await trail_before(model.settings, shard, snapshot.position))


def _exported(snapshot: Snapshot, mark: CommitMark, trail: Sequence[str]) -> ExportedShard:
    return ExportedShard(position=snapshot.position, round=snapshot.round, mark=mark.pack().hex(), trail=tuple(trail))


def _check_standing(snapshot: Snapshot, committed: Committed | None) -> CommitMark:
    """Return what is committed, if the snapshot is at that very place."""
    if committed is None:
        if snapshot.position or snapshot.round:
            raise StateError(
                f"position {snapshot.position}: the state has answered up to there, and nothing was committed in this "
                "place; is it the configuration of the place that the state is in?"
            )
        return CommitMark(snapshot.round, snapshot.tag)
    if CommitMark.is_last(committed.metadata):
        raise RetiredError(f"position {committed.position}: the model was retired here, and goes nowhere any more")
    mark = CommitMark.unpack(committed.metadata)
    if (mark.round, mark.tag) != (snapshot.round, snapshot.tag) or committed.position != snapshot.position:
        raise StateError(
            f"position {committed.position}: answers were committed up to there (round {mark.round}), and the newest "
            f"snapshot is at {snapshot.position} (round {snapshot.round}); {_FIRST}"
        )
    if any(position > committed.position for position in mark.passed.skipped):
        raise StateError(f"position {committed.position}: the message behind it is to be passed over; {_FIRST}")
    return mark


@dataclass(frozen=True, slots=True)
class Arrival:
    """Where one shard goes on.

    Attributes:
        move: As it is recorded.
        compared: How many records before the position were found to be those that were answered last.
        fresh: True of a shard that has answered nothing: it begins where `source.first_offset` says.
    """

    move: Move
    compared: int
    fresh: bool


def import_offsets(model: KafkaModel, export: Export, at: Mapping[int, int], *, same: bool) -> Sequence[Arrival]:
    """Have a state go on in a new place, or again in the one that it left; return where each shard does.

    Args:
        model: With the new place's settings, and the state that was exported.
        export: Where it stood.
        at: By shard the offset of its next query; of others it is found by the records before it.
        same: Whether all offsets are those of the log that was left.

    Raises:
        InputError: An offset cannot be the one.
        RefusedError: The group has members; a topic is missing; the place of a shard is not found; `[truth]` is set.
        StateError: The state has answered since, or went elsewhere, or another has answered in this place.
        BusError: The brokers do not answer; the same call goes on.
    """
    folders = shard_folders(model.config.state.folder)
    for shard in at:
        if shard >= len(folders):
            raise InputError("--at", shard, f"must name a partition below {len(folders)}, the state's shards")
    if len(export.shards) != len(folders):
        raise StateError(f"export: has {len(export.shards)} shards, and the state {len(folders)}")
    places = dict(enumerate(shard.position for shard in export.shards)) if same else dict(at)
    with lock_unserved(folders):
        return asyncio.run(_import(model, export, places, folders))


async def _import(
    model: KafkaModel, export: Export, places: Mapping[int, int], folders: Sequence[Path]
) -> Sequence[Arrival]:
    model = await check_topics(model, tolerant=True)
    await _refuse_company(model)
    cluster, served = await cluster_of(model.settings), await count_partitions(model.settings)
    steps = [  # a shard that has answered has a partition, or the topic is refused
        await _prepare(model, export, cluster, shard, places.get(shard), folder)
        for shard, folder in enumerate(folders[:served])
    ]
    for step in steps:
        record_move(step.folder, step.arrival.move)
    for step in steps:
        await _arrive(model, step)
    return [step.arrival for step in steps]


@dataclass(frozen=True, slots=True)
class _Step:
    """What is to be done of one shard; `claim` is to be committed, if anything is."""

    folder: Path
    shard: int
    claim: Claim | None
    arrival: Arrival


async def _prepare(  # noqa: PLR0913, PLR0917 -- its parts
    model: KafkaModel, export: Export, cluster: str, shard: int, at: int | None, folder: Path
) -> _Step:
    """Look where a shard goes on, and refuse what must not be; change nothing."""
    known, settings = export.shards[shard], model.settings
    mark = CommitMark.unpack(bytes.fromhex(known.mark))
    report = await report_offsets(settings, shard)
    move = Move(
        move=export.move,
        cluster=cluster,
        topic=settings.topic,
        group=settings.group,
        round=known.round,
        left=known.position,
        position=known.position,
    )
    moves = read_moves(folder)
    back = _left(report.counts) == export.move
    fresh = not (known.round or known.position)
    if back:
        at = known.position
    begun = next((one for one in moves if one.move == export.move), None)
    if begun is not None:  # an import that was cut off
        check_move(folder, msgspec.structs.replace(move, position=begun.position))
        at = begun.position
        if _has_gone_on(report, _newest(model, folder), known, begun):
            return _Step(folder, shard, None, Arrival(begun, 0, fresh))
    spot = Spot(0, -1, 0) if fresh else await find_spot(settings, shard, known.trail, at)
    move = msgspec.structs.replace(move, position=spot.position)
    _check_snapshot(_newest(model, folder), known, mark, spot.position)
    claim = None
    if back and report.counts is not None:
        left = OffsetMetadata.unpack(report.counts.text)
        claim = Claim(known.position, left._replace(mark=mark.pack()).pack())
    elif not fresh:
        arrived = CommitMark(mark.round, mark.tag)  # what took no round is named by offsets of the log that was left
        claim = Claim(spot.position, OffsetMetadata(arrived.pack(), spot.timestamp, begun=spot.position).pack())
    if not back:
        _refuse_others(report, claim, [one.move for one in moves])
    return _Step(folder, shard, claim, Arrival(move, spot.compared, fresh))


async def _arrive(model: KafkaModel, step: _Step) -> None:
    """Commit where the shard goes on, then put its snapshot there."""
    if step.claim is None:
        return
    sink = KafkaSink(model.settings, step.shard)
    try:
        await sink.put(step.claim)
    finally:
        await sink.close()
    for file in step.folder.glob("schemas-*.jsonl"):  # at other positions of the new log stand other messages
        SchemaLog(file).open(0, saved=sys.maxsize)
    with FolderStore.open(step.folder, model.master_key) as store:
        snapshot = store.load_latest(model.plan.digest)
        if snapshot is not None and snapshot.position != step.claim.position:
            store.save(replace(snapshot, generation=snapshot.generation + 1, position=step.claim.position))


def _has_gone_on(report: OffsetReport, snapshot: Snapshot, known: ExportedShard, begun: Move) -> bool:
    """Return whether a shard has arrived by an import that was cut off behind it, and was served there since."""
    counts = report.counts
    if counts is None or counts.position <= begun.position or _left(counts) is not None:
        return False
    arrived = snapshot.position != known.position or known.position == begun.position
    return arrived and snapshot.round >= known.round


def _check_snapshot(snapshot: Snapshot, known: ExportedShard, mark: CommitMark, position: int) -> None:
    """Refuse a state that is not the one that left, or has answered since."""
    stands = (snapshot.round, snapshot.tag) == (mark.round, mark.tag)
    if not stands or snapshot.position not in {known.position, position}:
        raise StateError(
            f"position {snapshot.position}: the snapshot (round {snapshot.round}) is not the one that was exported, at "
            f"{known.position} (round {known.round}); if the state has answered since, export it from where it is"
        )


def _refuse_others(report: OffsetReport, claim: Claim | None, moves: Sequence[str]) -> None:
    """Refuse a place where Perpetua has committed something else, but for one that this state left earlier."""
    mine = None if claim is None else CommitMark.unpack(OffsetMetadata.unpack(claim.text).mark)
    for found in (report.mark, report.offset):
        if claim is None or mine is None or found is None or not _is_ours(found):
            known = found is None or not _is_ours(found)
        else:
            theirs = CommitMark.unpack(OffsetMetadata.unpack(found.text).mark)
            same = (theirs.round, theirs.tag) == (mine.round, mine.tag)
            mirrored = found is report.offset and report.sealed is False  # a mirror copies groups' offsets too
            before = _left(found) in moves and found.position <= claim.position
            known = (same and (mirrored or found.position == claim.position)) or before
        if found is not None and not known:
            raise StateError(
                f"partition {report.partition}: offset {found.position} was committed by Perpetua in this place "
                "before; choose a topic or a group that is new"
            )


def _is_ours(claim: Claim | None) -> bool:
    try:
        return claim is not None and bool(OffsetMetadata.unpack(claim.text))
    except StateError:
        return False


def _committed(claim: Claim | None) -> Committed | None:
    return None if claim is None else Committed(claim.position, OffsetMetadata.unpack(claim.text).mark)


def _left(claim: Claim | None) -> str | None:
    """Return the name of the move by which the state left a place; None if it did not."""
    committed = _committed(claim)
    move = None if committed is None else CommitMark.left_by(committed.metadata)
    return None if move is None else move.hex()


def _newest(model: KafkaModel, folder: Path) -> Snapshot:
    data = newest_bytes(folder)
    if data is None:
        raise StateError(f"{folder}: it holds no snapshot")
    return decode(data, model.master_key, model.plan.digest)


async def _refuse_company(model: KafkaModel) -> None:
    """Refuse where somebody is in the group, or counts by offsets."""
    if model.config.truth is not None:
        raise RefusedError(
            "truth: counts true labels by offsets of the topics as they are; leave the table out, and keep its folder: "
            "labels of what is answered elsewhere are not counted"
        )
    found = await members(model.settings)
    if found:
        raise RefusedError(f"group {model.settings.group}: it has members, {listed(found)}; stop them first")


def export_secret(model: KafkaModel) -> bytes:
    """Return what seals a state's exports."""
    secret = model.settings.secret
    if secret is None:
        raise StateError("the state's key was not read")
    return secret
