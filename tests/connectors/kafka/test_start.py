"""Before there are brokers: a daemon waits, and stops when it is told to; other commands say so in one line."""

import signal
import socket
import socketserver
import struct
import subprocess
import threading
from collections.abc import Iterator

import pytest

from connectors.kafka.client import close_quietly, make_producer, start
from connectors.kafka.settings import KafkaSettings
from connectors.kafka.traffic import committed_values, first_and_last, send, send_event
from oracle.errors import BusError
from tests.support.folders import command, environment, long_plan, make_state
from tests.support.kafka import wait_until
from tests.support.processes import handles_stop
from tests.support.waiting import TIMEOUT

_CONFIG = """
[state]
folder = "{folder}"
[kafka]
servers = ["127.0.0.1:{port}"]
request_seconds = 60
[source]
kind = "kafka"
topic = "queries"
[sink]
kind = "kafka"
topic = "answers"
[service]
drain_seconds = 60
log = "json"
"""


@pytest.fixture
def starting() -> Iterator[int]:
    """A broker that has just started: it answers, and knows of no broker yet, not even itself."""
    apis = b"".join(struct.pack(">hhh", key, 0, 1) for key in range(19))
    answers = {3: struct.pack(">iii", 0, -1, 0), 18: struct.pack(">hi", 0, 19) + apis}  # Metadata, ApiVersions

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while size := self.rfile.read(4):
                api, _version, number = struct.unpack(">hhi", self.rfile.read(*struct.unpack(">i", size))[:8])
                answer = struct.pack(">i", number) + answers[api]
                self.wfile.write(struct.pack(">i", len(answer)) + answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


async def test_brokers_that_know_of_no_broker_yet_are_trouble_that_passes(starting):
    """The client itself fails an assertion then, which is no fault of ours, and nothing to end for."""
    settings = KafkaSettings(
        servers=(f"127.0.0.1:{starting}",), topic="q", answers="a", group="g", model="m", request_seconds=3.0
    )
    producer = make_producer(settings, 0)
    with pytest.raises(BusError, match=r"^topic q: the Kafka client failed"):
        await start(producer, settings, "topic q")
    await close_quietly(producer)


@pytest.fixture
def silent() -> Iterator[int]:
    """A port where connections are taken, and nothing answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def absent() -> int:
    """A port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


@pytest.fixture
def configure(tmp_path):
    """A function that writes the configuration of a new state on a port."""

    def write(port):
        make_state(tmp_path / "state", long_plan())
        path = tmp_path / "serve.toml"
        path.write_text(_CONFIG.format(folder=tmp_path / "state", port=port))
        return path

    return write


@pytest.mark.parametrize(("brokers", "event"), [("absent", "bus.unavailable"), ("silent", "daemon.starting")])
def test_a_daemon_that_waits_for_brokers_stops_when_told(request, configure, tmp_path, brokers, event):
    """Between two tries and within one: it ends cleanly, long before it would be cut off."""
    log = tmp_path / "log"
    with log.open("wb") as output:
        line = [*command("serve"), str(configure(request.getfixturevalue(brokers)))]
        process = subprocess.Popen(line, stderr=output, env=environment())
    try:
        wait_until(lambda: event in log.read_text())
        wait_until(lambda: handles_stop(process.pid))
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT) == 0
    finally:
        process.kill()
        process.wait()
    assert '"daemon.stopped"' in log.read_text().splitlines()[-1]


@pytest.mark.parametrize("words", [("check",), ("topics",), ("verify", "--from")])
def test_the_clients_own_talk_is_on_no_terminal(configure, tmp_path, absent, words):
    """All that a command says about brokers that are not there is its own line about them."""
    config = configure(absent)
    more = [str(tmp_path / "state.genesis")] if "--from" in words else []
    done = subprocess.run(
        [*command(words[0]), str(config), *words[1:], *more],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        timeout=TIMEOUT,
    )
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert "127.0.0.1" in said
    for line in done.stderr.splitlines():
        assert line.startswith("perpetua: ")


@pytest.mark.parametrize(
    ("act", "topic"),
    [
        (lambda settings: send(settings, [b"{}"]), "topic queries"),
        (lambda settings: anext(committed_values(settings, "answers", seconds=1)), "topic answers"),
        (lambda settings: first_and_last(settings, 3), "topic queries, partition 3"),
        (lambda settings: send_event(settings, 3, b"{}"), "topic ledger"),
    ],
)
async def test_error_names_the_topic_that_was_to_be_read_or_written(absent, act, topic):
    """Not the query topic, where it was about the answers or the ledger."""
    servers = (f"127.0.0.1:{absent}",)
    settings = KafkaSettings(servers=servers, topic="queries", answers="answers", ledger="ledger", group="g", model="m")
    with pytest.raises(BusError, match=rf"^{topic}: ") as caught:
        await act(settings)
    # each that was tried, and what came of it
    said = f"no broker accepts the connection: {servers[0]}: Connection refused; "
    assert said in str(caught.value)
