"""One storm: the daemon killed, the broker restarted and paused at random moments under load, until all is answered."""

import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from tests.storms.kafka.ground import chaos_plan
from tests.storms.mqtt.daemons import MqttSlot
from tests.storms.mqtt.load import Load
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt import MqttModelUnderTest
from tests.support.waiting import TIMEOUT

_POLL_SECONDS: Final = 0.01
_MOST_STOPPED: Final = 20
"""Daemons that ended by themselves, after which it is given up."""


@dataclass(frozen=True)
class StormOptions:
    """What a storm does.

    Attributes:
        kills: Times to kill the daemon.
        restarts: Times to restart the broker, cleanly: Mosquitto stores what it holds then, and not before.
        pauses: Times to stop the broker's process for a while, as a cut network would.
        clients: Clients that ask.
        queries: How many they ask in all.
        rate: Queries a second, about.
        seed: Of queries, moments and choices.
        mutant: How the daemon is broken; None for a real one.
        answer_seconds: Seconds to wait for the last answers.
        predictor: What answers.
    """

    kills: int = 0
    restarts: int = 0
    pauses: int = 0
    clients: int = 50
    queries: int = 10_000
    rate: float = 200.0
    seed: int = 1
    mutant: str | None = None
    answer_seconds: float = TIMEOUT
    predictor: str = "rectangles"


@dataclass
class StormResult:
    """What came of a storm.

    Attributes:
        kills: Daemons killed.
        connected: How many of these were connected.
        restarts: Of the broker.
        pauses: Of the broker.
        queries: That were asked and taken by the broker.
        answers: That came, repetitions too.
        repeated: How many of these were repetitions.
        lost: Queries without an answer.
        renoised: Queries with two different answers, or answers that no uninterrupted run gives.
        doubled: Rounds that belong to no query, or to two.
        stopped: Daemons that ended by themselves.
        seconds: How long it took.
        trouble: Examples.
    """

    kills: int = 0
    connected: int = 0
    restarts: int = 0
    pauses: int = 0
    queries: int = 0
    answers: int = 0
    repeated: int = 0
    lost: int = 0
    renoised: int = 0
    doubled: int = 0
    stopped: int = 0
    seconds: int = 0
    trouble: list[str] = field(default_factory=list)

    @property
    def broken(self) -> bool:
        """Whether a promise was."""
        return bool(self.lost or self.renoised or self.doubled or self.stopped)

    def figures(self) -> dict[str, int]:
        """Return all but the examples, by name."""
        return {name: value for name, value in asdict(self).items() if name != "trouble"}


def storm(folder: Path, options: StormOptions, on_fault: Callable[[], None] = lambda: None) -> StormResult:
    """Run one in an empty folder."""
    started, row = time.monotonic(), StormResult()
    with Mosquitto(folder / "broker") as broker:
        model = MqttModelUnderTest(broker, "storm", folder, chaos_plan(options.predictor)).create()
        config = model.config(mqtt="request_seconds = 2\nkeepalive_seconds = 5", state="snapshot_rounds = 200")
        slot = MqttSlot(config, folder / "serve.log", options.mutant)
        load = Load(model, options.clients, options.queries, options.rate, options.seed)
        slot.start()
        _wait(lambda: _connected(slot), TIMEOUT, slot, row)  # before that no broker keeps anything for us
        load.start()
        try:
            _inject_faults(broker, slot, load, row, options, on_fault)
            _wait(lambda: load.done and len(load.answers()) >= options.queries, options.answer_seconds, slot, row)
            _wait(lambda: _connected(slot) and _serves(slot), TIMEOUT, slot, row)
        finally:
            if slot.code is not None or slot.stop() != 0:
                row.stopped += 1
                row.trouble.append(f"ended with {slot.code}: {slot.events()[-3:]}")
            load.close()
        _judge(model, load, row)
    row.seconds = round(time.monotonic() - started)
    return row


def _connected(slot: MqttSlot) -> bool:
    return any(event["event"] == "bus.connected" for event in slot.events())


def _serves(slot: MqttSlot) -> bool:
    """Return whether it may be asked for a clean stop; while it recovers there is nothing to drain."""
    return any(event["event"] == "daemon.serving" for event in slot.events())


def _inject_faults(  # noqa: PLR0913, PLR0917 -- the parts of a storm
    broker: Mosquitto, slot: MqttSlot, load: Load, row: StormResult, options: StormOptions, on_fault: Callable[[], None]
) -> None:
    rng = random.Random(f"{options.seed} faults")  # noqa: S311  # moments and choices, not noise
    faults = ["kill"] * options.kills + ["restart"] * options.restarts + ["pause"] * options.pauses
    rng.shuffle(faults)
    for number, fault in enumerate(faults):
        at = (number + rng.random()) / len(faults)
        _wait(lambda at=at: load.part >= at, TIMEOUT, slot, row)  # type: ignore[misc]
        if fault == "kill":
            moment = rng.expovariate(2.0)
            _wait(lambda moment=moment: slot.age >= moment, TIMEOUT, slot, row)  # type: ignore[misc]
            row.connected += _connected(slot)
            slot.kill()
            row.kills += 1
            slot.start()
        elif fault == "restart":
            broker.restart()
            row.restarts += 1
        else:
            broker.pause()
            time.sleep(rng.choice([0.2, 1.0, 8.0]))  # the last one outlasts the keep-alive
            broker.resume()
            row.pauses += 1
        on_fault()


def _wait(done: Callable[[], bool], seconds: float, slot: MqttSlot, row: StormResult) -> None:
    """Wait, and start again a daemon that ended by itself."""
    deadline = time.monotonic() + seconds
    while not done() and time.monotonic() < deadline:
        if slot.code is not None:
            row.stopped += 1
            row.trouble.append(f"ended with {slot.code}: {slot.events()[-3:]}")
            if row.stopped > _MOST_STOPPED:
                raise RuntimeError(row.trouble[-1])
            slot.start()
        time.sleep(_POLL_SECONDS)


def _judge(model: MqttModelUnderTest, load: Load, row: StormResult) -> None:
    """Compare all answers with those of one run in memory over the queries in the order of their rounds."""
    heard = load.answers()
    row.queries, row.answers = len(load.asked), sum(map(len, heard.values()))
    different = [correlation for correlation, some in heard.items() if len(set(some)) > 1]
    row.renoised += len(different)
    row.trouble += [f"re-noised, or changed: {sorted(map(repr, set(heard[one])))[:2]}" for one in different[:3]]
    answers = {correlation: [one.body for one in some] for correlation, some in heard.items()}
    missing = load.asked.keys() - answers.keys()
    row.lost = len(missing)
    row.repeated = row.answers - row.queries + row.lost
    row.trouble += [f"lost: query {number.decode()}" for number in sorted(missing)[:3]]
    by_round: dict[int, bytes] = {}
    for correlation, bodies in answers.items():
        for body in set(bodies):
            found = msgspec.json.decode(body)["round"]
            if found in by_round:
                row.doubled += 1
                row.trouble.append(f"round {found} is given twice")
            by_round[found] = correlation
    if sorted(by_round) != list(range(len(by_round))):
        row.doubled += 1
        row.trouble.append("rounds are missing: queries were answered twice, or answers lost")
        return
    order = [by_round[number] for number in range(len(by_round))]
    expected = model.expected([load.asked[correlation] for correlation in order])
    wrong = [number for number, correlation in zip(expected, order, strict=True) if number not in answers[correlation]]
    row.renoised += len(wrong)
    row.trouble += [f"re-noised: no run gives what came for {body!r}" for body in wrong[:3]]
