"""Askers that never pause for long, each with a topic of its own for its answers."""

import random
import threading
import time
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np

from oracle.planning.questions import QuestionPlan
from tests.predictors.tables import drawn_message
from tests.support.mqtt import Asker, Heard, MqttModelUnderTest

_FLUSH_SECONDS: Final = 120.0


@dataclass
class Load:
    """Asks a number of queries from many clients, and knows which of them the broker has taken.

    Queries are published at QoS 2, so that a client's own repetition after a lost connection is no second query.

    Attributes:
        model: The model.
        clients: How many ask.
        count: How many queries there are in all.
        rate: Queries a second, about.
        seed: Of the queries and pauses.
        asked: Bodies by correlation data.
    """

    model: MqttModelUnderTest
    clients: int
    count: int
    rate: float
    seed: int
    asked: dict[bytes, bytes] = field(default_factory=dict)
    askers: list[Asker] = field(default_factory=list)

    def start(self) -> None:
        """Connect the clients and begin to ask."""
        for number in range(self.clients):
            topic = f"{self.model.name}/replies/{number}"
            self.askers.append(Asker(self.model.broker.server, [topic], f"{self.model.name}-asker-{number}"))
        self._expected = [0] * self.clients
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Whether all was asked, and taken by the broker."""
        taken = all(len(asker.taken) >= wanted for asker, wanted in zip(self.askers, self._expected, strict=True))
        return not self._thread.is_alive() and taken

    @property
    def part(self) -> float:
        """How much of it was asked."""
        return len(self.asked) / self.count

    def answers(self) -> dict[bytes, list[Heard]]:
        """Return all answers that came, properties, repetitions and all, by correlation data."""
        found: dict[bytes, list[Heard]] = {}
        for asker in self.askers:
            for heard in list(asker.heard):
                found.setdefault(heard.correlation or b"", []).append(heard)
        return found

    def close(self) -> None:
        """Disconnect the clients."""
        for asker in self.askers:
            asker.close()

    def _run(self) -> None:
        rng = random.Random(f"{self.seed} queries")  # noqa: S311  # features of queries and pauses, not noise
        for number in range(self.count):
            client = rng.randrange(self.clients)
            correlation = b"%d" % number
            body = msgspec.json.encode(self._query(rng, number))
            self.asked[correlation] = body
            self._expected[client] += 1
            self.askers[client].ask(
                self.model.queries,
                body,
                qos=2,
                reply=f"{self.model.name}/replies/{client}",
                correlation=correlation,
                user=[("number", str(number)), ("number", "again")],
            )
            if number % 10 == 9:
                time.sleep(rng.random() * 20 / self.rate)

    def _query(self, rng: random.Random, number: int) -> dict[str, object]:
        plan = self.model.plan
        if isinstance(plan, QuestionPlan):
            return drawn_message(plan, np.random.default_rng(rng.getrandbits(64)), f"q{number}")
        return {"id": f"q{number}", "x": [rng.uniform(-0.1, 1.1), rng.uniform(-0.1, 1.1)]}
