"""The end of a model's stream: the last commit there will be, which no copy of the state answers behind.

On MQTT there is none: nothing is published without a daemon, so there it is only seen to that nothing waits.
"""

import asyncio
from collections.abc import Sequence

from msgspec import UNSET

from connectors.base import Commit, Replies, Sink
from oracle.accounting.ledger import ModelRetired, encode
from oracle.config.daemon import Config
from oracle.errors import RefusedError, StateError
from oracle.planning.plan import Plan
from oracle.predictors.base import phase_started
from oracle.runtime.marks import CommitMark
from oracle.runtime.recovery import check_order
from oracle.state.format import Snapshot

__all__ = ["end_streams", "retired_event"]

_FIRST = "start `perpetua serve` on it, stop it cleanly, and retire it then"


def retired_event(plan: Plan, snapshot: Snapshot, version: str) -> ModelRetired:
    """Return the last ledger event of a shard, by its newest snapshot."""
    phase = plan.phases[snapshot.phase - 1]
    started = phase_started(plan, snapshot.phase)
    return ModelRetired(
        round=snapshot.round,
        phase=snapshot.phase,
        rearms=snapshot.rearms,
        epsilon=plan.epsilon,
        delta=phase.delta,
        delta_spent=plan.delta_spent(snapshot.phase, snapshot.round - plan.first_round(snapshot.phase)),
        delta_limit=plan.delta,
        version=version,
        nominal=started.nominal,
        covers=started.covers,
        paid=UNSET if plan.paid_limit is None else snapshot.paid,
    )


def end_streams(config: Config, plan: Plan, snapshots: Sequence[Snapshot], events: Sequence[ModelRetired]) -> None:
    """Commit of each shard that its model is retired, and put that into its ledger; nobody serves it now.

    Raises:
        StateError: A snapshot is not the last commit's.
        RefusedError: The group on Kafka has members.
        BusError: The brokers do not answer; the same call goes on.
        StorageError: It could not be committed; the same call goes on.
    """
    if config.source.kind == "kafka":
        asyncio.run(_end_on_kafka(config, snapshots, events))
    elif config.source.kind == "mqtt":
        _check_journals(config, plan, snapshots[0])
    elif config.source.kind == "http":
        from oracle.hosting.http import open_offline, refuse_waiting  # noqa: PLC0415 -- each bus when it is wanted

        check_order(snapshots[0], refuse_waiting(config, plan))
        asyncio.run(_end(open_offline(config, plan)[1], snapshots[0], events[0]))
    else:
        from oracle.hosting.files import open_sink  # noqa: PLC0415 -- each bus when it is wanted

        asyncio.run(_end(open_sink(config), snapshots[0], events[0]))


async def _end(sink: Sink, snapshot: Snapshot, event: ModelRetired) -> None:
    committed = await sink.open()
    try:
        if committed is not None and CommitMark.is_last(committed.metadata):  # an earlier try came so far
            return
        mark = CommitMark(snapshot.round, snapshot.tag) if committed is None else CommitMark.unpack(committed.metadata)
        check_order(snapshot, committed)
        if sink.in_doubt is not None or mark.round != snapshot.round:
            raise StateError(f"round {mark.round}: was answered behind the newest snapshot, {snapshot.round}; {_FIRST}")
        position = snapshot.position if committed is None else committed.position
        await sink.commit(Commit(Replies(), [encode(event)], position, mark.pack_last()))
    finally:
        await sink.close()


async def _end_on_kafka(config: Config, snapshots: Sequence[Snapshot], events: Sequence[ModelRetired]) -> None:
    from connectors.kafka.group import listed, members  # noqa: PLC0415
    from connectors.kafka.sink import KafkaSink  # noqa: PLC0415
    from connectors.kafka.topics import count_partitions  # noqa: PLC0415
    from oracle.hosting.kafka import check_topics, open_model  # noqa: PLC0415
    from oracle.telemetry.client_logs import hear_client  # noqa: PLC0415

    hear_client()
    model = await check_topics(open_model(config), tolerant=True)
    found = await members(model.settings)
    if found:
        raise RefusedError(f"group {model.settings.group}: it has members, {listed(found)}; stop them first")
    served = await count_partitions(model.settings)  # other shards have answered nothing, and have no place to say so
    for partition, (snapshot, event) in enumerate(zip(snapshots[:served], events[:served], strict=True)):
        sink = KafkaSink(model.settings, partition)
        await _end(sink, snapshot, event)


def _check_journals(config: Config, plan: Plan, snapshot: Snapshot) -> None:
    """Refuse to lose queries that were acknowledged and not answered, and answers that have not left."""
    from oracle.hosting.mqtt import open_journals  # noqa: PLC0415

    queries, outbox = open_journals(config, plan)
    queries.inspect()
    committed = outbox.inspect()
    check_order(snapshot, committed)
    answered = 0 if committed is None else committed.position
    if queries.end > answered or outbox.queue:
        raise StateError(
            f"{queries.folder.parent}: {queries.end - answered} queries were taken and not answered, "
            f"{len(outbox.queue)} messages not published; {_FIRST}"
        )
