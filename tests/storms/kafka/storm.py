"""One storm: daemons killed and brokers restarted at random moments under load, until all is answered."""

import random
import shutil
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.storms.kafka.daemons import Slot
from tests.storms.kafka.ground import PARTITIONS, chaos_plan, expected
from tests.storms.kafka.load import Load
from tests.storms.kafka.verdict import Verdict, judge
from tests.support.broker import Broker
from tests.support.kafka import KafkaModelUnderTest
from tests.support.sharded import make_sharded_state
from tests.support.waiting import TIMEOUT

_DAEMONS: Final = 2
_SERVING_SECONDS: Final = 60.0
_LOOK: Final = 0.01
_HOPELESS: Final = 20
"""Daemons that ended by themselves, after which it is given up."""


@dataclass(frozen=True)
class Settings:
    """What a storm is made of.

    Attributes:
        name: Of the storm; begins the names of its topics.
        kills: Daemons to kill.
        restarts: Times to restart the broker; every second time it is killed.
        rate: Messages a second, about.
        seed: Of messages, moments and choices.
        own_folders: Whether each daemon has a copy of the state of its own, or all share one.
        mutant: How the daemons are broken; None for real ones.
        predictor: What answers.
    """

    name: str
    kills: int
    restarts: int
    rate: float
    seed: int
    own_folders: bool
    mutant: str | None = None
    predictor: str = "rectangles"


@dataclass
class Row:
    """What came of it.

    Attributes:
        name: Of the storm.
        kills: Daemons killed.
        serving: How many of these had begun to answer.
        restarts: Times that the broker was restarted.
        broker_kills: How many of these with SIGKILL.
        stopped: Daemons and shards that ended by themselves, and daemons that did not stop well in the end.
        trouble: What these said.
        queries: Messages that were asked.
        verdict: What became of them.
        seconds: How long it took.
    """

    name: str
    kills: int = 0
    serving: int = 0
    restarts: int = 0
    broker_kills: int = 0
    stopped: int = 0
    trouble: list[str] = field(default_factory=list)
    queries: int = 0
    verdict: Verdict = field(default_factory=Verdict)
    seconds: float = 0.0


def storm(broker: Broker, folder: Path, settings: Settings, on_blow: Callable[[], None] = lambda: None) -> Row:
    """Let it rage.

    Args:
        broker: A running broker, which will be restarted.
        folder: An empty folder.
        settings: What a storm is made of.
        on_blow: Called after each kill and each restart.
    """
    started = time.monotonic()
    model = _model(broker, folder, settings)
    slots = _slots(model, settings)
    row = Row(settings.name)
    blows = settings.kills + settings.restarts
    load = Load(broker.servers, model.queries, settings.seed, settings.rate, blows, settings.predictor)
    for slot in slots:
        slot.start()
    load.start()
    try:
        _rage(broker, slots, load, row, settings, on_blow)
        load.stop()
        _wait_for_the_rest(model, load.sent, slots, row)
    finally:
        _end(slots, row)
    row.queries = sum(load.sent)
    row.verdict = judge(
        model,
        [
            expected(settings.seed, partition, load.sent[partition], settings.predictor)
            for partition in range(PARTITIONS)
        ],
    )
    row.seconds = time.monotonic() - started
    return row


def _model(broker: Broker, folder: Path, settings: Settings) -> KafkaModelUnderTest:
    model = KafkaModelUnderTest(broker, settings.name, folder, PARTITIONS, chaos_plan(settings.predictor))
    broker.create_topic(model.queries, PARTITIONS, {"compression.type": "uncompressed"})
    broker.create_topic(model.answers, PARTITIONS, {"max.message.bytes": "20000000"})
    broker.create_topic(f"{model.name}.ledger", 1, {"cleanup.policy": "compact"})
    broker.create_topic(f"{model.name}.dead", 1)
    return model


def _slots(model: KafkaModelUnderTest, settings: Settings) -> list[Slot]:
    made = []
    for number in range(_DAEMONS):
        state = f"state-{number}" if settings.own_folders else "state"
        if number == 0:
            make_sharded_state(model.folder / state, chaos_plan(settings.predictor), PARTITIONS)
        elif settings.own_folders:
            shutil.copytree(model.folder / "state-0", model.folder / state)  # as `init` made it, key and all
        config = model.config(f"serve-{number}.toml", state=state, source="session_seconds = 1")
        config.write_text(config.read_text().replace("snapshot_rounds = 500", "snapshot_rounds = 60"))
        made.append(Slot(config, model.folder / f"serve-{number}.log", settings.mutant))
    return made


def _rage(  # noqa: PLR0913, PLR0917 -- the parts of a storm
    broker: Broker, slots: list[Slot], load: Load, row: Row, settings: Settings, on_blow: Callable[[], None]
) -> None:
    rng = random.Random(f"{settings.seed} {settings.name}")  # noqa: S311  # moments and choices, not noise
    blows = ["kill"] * settings.kills + ["restart"] * settings.restarts
    rng.shuffle(blows)
    restarting: Future[None] | None = None
    with ThreadPoolExecutor(1) as aside:
        for blow in blows:
            if blow == "kill":
                _kill(slots, rng, row)
            else:
                if restarting is not None:
                    restarting.result()  # one after the other, with kills in between and meanwhile
                by_force = (row.restarts + settings.own_folders) % 2 == 1  # half of both storms together
                restarting = aside.submit(broker.restart, kill=by_force)
                row.restarts += 1
                row.broker_kills += by_force
            load.step()
            on_blow()
        if restarting is not None:
            restarting.result()


def _kill(slots: list[Slot], rng: random.Random, row: Row) -> None:
    """Kill one: mostly a while after it has begun to answer, sometimes while it starts or takes partitions over."""
    slot = rng.choice(slots)
    if rng.random() < 0.2:
        moment = rng.uniform(0.0, 2.0)
        _wait(lambda: slot.age >= moment, _SERVING_SECONDS, slots, row)
    else:
        _wait(slot.serves, _SERVING_SECONDS, slots, row)
        until = time.monotonic() + rng.expovariate(2.5)
        _wait(lambda: time.monotonic() >= until, _SERVING_SECONDS, slots, row)
    if slot.code is None:
        row.serving += slot.serves()
        slot.kill()
        row.kills += 1
    slot.start()


def _wait(done: Callable[[], bool], seconds: float, slots: list[Slot], row: Row) -> bool:
    """Wait, start again what ended by itself, and return whether it is done."""
    deadline = time.monotonic() + seconds
    while not done():
        for slot in slots:
            if slot.code is not None:
                _note(row, slot)
                slot.start()
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK)
    return True


def _note(row: Row, slot: Slot) -> None:
    """Note a daemon that ended by itself, with the last words of its log."""
    row.stopped += 1
    row.trouble.append(f"ended with {slot.code}: {slot.events()[-3:]}")
    if row.stopped > _HOPELESS:
        raise RuntimeError(row.trouble[-1])


def _wait_for_the_rest(model: KafkaModelUnderTest, sent: list[int], slots: list[Slot], row: Row) -> None:
    """Wait until the group has committed all that was sent."""
    parts = [TopicPartition(model.queries, partition) for partition in range(PARTITIONS)]
    reader = Consumer({"bootstrap.servers": model.broker.servers, "group.id": model.group, "log_level": 0})

    def all_committed() -> bool:
        time.sleep(0.2)
        try:
            return [part.offset for part in reader.committed(parts, timeout=5.0)] == sent
        except KafkaException:
            return False

    try:
        if not _wait(all_committed, TIMEOUT, slots, row):
            row.stopped += 1
            row.trouble.append(f"not all was answered within {TIMEOUT:.0f} s after the storm")
    finally:
        reader.close()


def _end(slots: list[Slot], row: Row) -> None:
    for slot in slots:
        if slot.code is not None or slot.stop() != 0:
            _note(row, slot)
        failed = [event for event in slot.events(all_daemons=True) if event["event"] == "shard.failed"]
        row.stopped += len(failed)
        row.trouble += [f"shard {event.get('partition')} gave up: {event.get('error')}" for event in failed]
