"""A run on a real MQTT broker: what it publishes, journals and says, one query after the other.

MQTT hands messages over one by one, so a batch is what has come by then. To have the same batches in both worlds, each
query waits for the answer to the one before. Looks are taken as on other buses. Left out beside what is named there is
how long the outbox's files are: it notes the broker's acknowledgements in groups, by when they come.
"""

import re
from functools import partial
from pathlib import Path
from typing import Final

from tests.leaks.outside import init_in, line_of, see_pages, serving_in
from tests.leaks.sightings import Sightings, masked
from tests.leaks.subjects import BAD, leak_plan
from tests.leaks.worlds import CHUNK, Pair
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt import Asker, Heard, MqttModelUnderTest
from tests.support.waiting import eventually

_NAME: Final = "leaks"
_SIZE: Final = re.compile(r" bytes=[0-9]+$")


def sight(pair: Pair, which: int, folder: Path) -> Sightings:
    """Run one of two worlds on a broker of its own, and return all that was in sight.

    Args:
        pair: The worlds.
        which: Which of them.
        folder: A new place for the state and the broker.
    """
    folder.mkdir()
    with Mosquitto(folder / "broker") as broker:
        (folder / "run").mkdir()
        model = MqttModelUnderTest(broker, _NAME, folder / "run", plan=leak_plan(pair.worlds[which].subject))
        run = _Run(pair, which, model)
        try:
            run.serve()
        finally:
            model.end()
    return run.seen


class _Run:
    """One world's topics and folder."""

    def __init__(self, pair: Pair, which: int, model: MqttModelUnderTest) -> None:
        self._world, self._left_out, self._model = pair.worlds[which], pair.left_out, model
        self._folder = model.folder
        self._port = 0
        self.seen = Sightings()

    def serve(self) -> None:
        """Make the state, ask, take a look behind each chunk, stop, and see what is left."""
        init_in(self._folder, self._world)
        config = self._model.config(
            state=f"snapshot_rounds = {CHUNK // 4}\nsnapshot_seconds = 3600", extra="[web]\nport = 0\n"
        )
        config.write_text(config.read_text().replace(f"{self._folder}/", ""))
        with serving_in(self._folder, config.name, self._world, self.seen):
            self._stream()
        said = (self._folder / "serve.err").read_text()
        self.seen.log(said.replace(self._model.broker.server, "the broker"))
        self.seen.files(self._folder / "state")
        self._leave_out_the_outbox()

    def _listening(self) -> bool:
        """Return whether the daemon is connected, and take note of its port."""
        for line in self._model.log("serve.err"):
            if line.get("event") == "web.listening":
                self._port = line["port"]
        return "bus.connected" in self._model.events("serve.err")

    def _stream(self) -> None:
        """Ask one by one, and look behind each chunk."""
        topics = [self._model.answers, f"{_NAME}/ledger", f"{_NAME}/dead"]
        asker = self._model.asker(*topics)
        eventually(self._listening, what=lambda: self._model.log("serve.err")[-3:])
        for number, message in enumerate(self._world.messages):
            body = b"" if message is None else line_of(self._world, number)
            asker.ask(self._model.queries, body, correlation=b"%05d" % number)
            eventually(partial(self._answered, asker, number))
            if (number + 1) % CHUNK == 0:
                self._look()
        bad = sum(message == BAD for message in self._world.messages)
        eventually(lambda: len(asker.on(topics[2])) == bad)
        self._see_answers(asker.on(topics[0]))
        for topic in topics[1:]:
            for heard in asker.on(topic):
                self.seen.document(topic, heard.body)

    def _answered(self, asker: Asker, number: int) -> bool:
        return len(asker.on(self._model.answers)) > number

    def _look(self) -> None:
        see_pages(self.seen, f"http://127.0.0.1:{self._port}")
        self.seen.files(self._folder / "state")
        self.seen.snapshots(self._folder / "state")

    def _leave_out_the_outbox(self) -> None:
        files = self.seen.channels["files"]
        files[:] = [_SIZE.sub("", entry) if "journal/answers/" in entry else entry for entry in map(str, files)]

    def _see_answers(self, answers: list[Heard]) -> None:
        for number, heard in enumerate(answers):
            body = masked(heard.body) if number in self._left_out else heard.body
            self.seen.add("answers", repr((heard.topic, body, heard.content_type, heard.correlation, heard.user)))
