"""One Apache Kafka node on loopback, for tests and demonstrations: fetched once, then started and stopped by folder.

It needs the standard library only, a JDK 17 or newer, and Maven the first time (`jars.py`). All that a node owns is in
its folder:

- `broker.json`: its ports, listeners, properties and heap, remembered for the next start;
- `broker.pid`: the process, as its id and the time it started;
- `server.properties`, `log4j2.xml`: what Kafka reads, written anew at each start;
- `data`: Kafka's own log folder; `server.log` and `console.log`: what it said.
"""  # noqa: INP001 - a tool to run, not a package

import argparse
import base64
import contextlib
import dataclasses
import json
import os
import secrets
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jars import check_java, fetch, find_java
from processes import STOP_SECONDS, BrokerError, detach, end, last_lines, locked, run, say, started_at

if TYPE_CHECKING:
    import subprocess

HOST = "127.0.0.1"
PLAIN, CONTROLLER = "PLAINTEXT", "CONTROLLER"
FORMAT_SECONDS = 120
API_VERSIONS, METADATA = (18, 0), (3, 1)  # (request, version) of Kafka's protocol

# One node keeps one copy; what else stands here keeps it small and quick to start.
DEFAULTS = {
    "auto.create.topics.enable": "false",
    "broker.heartbeat.interval.ms": "250",
    "broker.session.timeout.ms": "2500",  # a node that was killed may register again only after this
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "8388608",
    "num.io.threads": "4",
    "num.network.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
}

QUICK_JAVA = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]  # half the processor time until it answers

LOGGING = """<Configuration status="WARN" shutdownHook="disable">
  <Appenders>
    <RollingFile name="file" fileName="{folder}/server.log" filePattern="{folder}/server.log.%i">
      <PatternLayout pattern="[%d] %p %m (%c{{1}})%n"/>
      <SizeBasedTriggeringPolicy size="16MB"/>
      <DefaultRolloverStrategy max="2"/>
    </RollingFile>
  </Appenders>
  <Loggers><Root level="INFO"><AppenderRef ref="file"/></Root></Loggers>
</Configuration>
"""


@dataclasses.dataclass
class Settings:
    """What a folder remembers of its node: ports and protocols by listener, Kafka's properties, Java's -Xmx."""

    ports: dict[str, int]
    listeners: dict[str, str]
    properties: dict[str, str]
    heap: str

    @classmethod
    def read(cls, folder: Path) -> "Settings":
        """Return what the folder remembers, or the settings of a new one."""
        path = folder / "broker.json"
        if not path.exists():
            return cls({}, {PLAIN: PLAIN, CONTROLLER: PLAIN}, {}, "512m")
        return cls(**json.loads(path.read_text()))

    def write(self, folder: Path) -> None:
        """Remember, and write what Kafka reads."""
        write_private(folder / "broker.json", json.dumps(dataclasses.asdict(self), indent=1) + "\n")
        properties = self.kafka_properties(folder)
        write_private(folder / "server.properties", "".join(f"{name}={properties[name]}\n" for name in properties))
        write_private(folder / "log4j2.xml", LOGGING.format(folder=folder))

    def kafka_properties(self, folder: Path) -> dict[str, str]:
        """Return the contents of `server.properties`; those of `--property` win."""
        addresses = {name: f"{name}://{HOST}:{port}" for name, port in self.ports.items()}
        return {
            **DEFAULTS,
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{HOST}:{self.ports[CONTROLLER]}",
            "controller.listener.names": CONTROLLER,
            "inter.broker.listener.name": PLAIN,
            "listeners": ",".join(addresses.values()),
            "advertised.listeners": ",".join(addresses[name] for name in addresses if name != CONTROLLER),
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in self.listeners.items()),
            "log.dirs": str(folder / "data"),
            **self.properties,
        }


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner reads (properties may hold passwords), whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    partial.touch(mode=0o600)
    partial.write_text(text)
    partial.replace(path)


# Running, and ready


def running(folder: Path) -> int | None:
    """Return the id of the folder's node if it runs."""
    try:
        pid, ticks = map(int, (folder / "broker.pid").read_text().split())
    except (FileNotFoundError, ValueError):
        return None
    return pid if started_at(pid) == ticks else None


def ask(port: int, request: tuple[int, int], body: bytes = b"", seconds: float = 2.0) -> bytes | None:
    """Send one request of Kafka's protocol; return the answer's body, or None if nothing answers yet."""
    client = b"perpetua"
    header = struct.pack(">hhih", *request, 1, len(client)) + client
    try:
        with socket.create_connection((HOST, port), timeout=seconds) as connection:
            connection.sendall(struct.pack(">i", len(header + body)) + header + body)
            with connection.makefile("rb") as stream:
                size = stream.read(4)
                answer = stream.read(struct.unpack(">i", size)[0]) if len(size) == 4 else b""  # noqa: PLR2004
    except OSError:
        return None
    return answer[4:] if len(answer) > 4 else None  # noqa: PLR2004 - behind the correlation id


def answers(port: int) -> bool:
    """Say whether a node answers, and counts itself among the nodes that can be given partitions."""
    if ask(port, API_VERSIONS) is None:
        return False
    metadata = ask(port, METADATA, struct.pack(">i", 0))  # of no topic
    return metadata is not None and len(metadata) >= 4 and struct.unpack_from(">i", metadata)[0] > 0  # noqa: PLR2004


def wait_until_ready(folder: Path, process: "subprocess.Popen[bytes]", port: int, seconds: float) -> None:
    """Wait until the node answers; refuse if it ends or the deadline passes."""
    deadline = time.monotonic() + seconds
    while not answers(port):
        if process.poll() is not None:
            raise BrokerError(f"Kafka ended while it started ({folder}/server.log):\n{complaints(folder)}")
        if time.monotonic() > deadline:
            raise BrokerError(f"Kafka did not answer within {seconds:g} s ({folder}/server.log):\n{complaints(folder)}")
        time.sleep(0.05)


def complaints(folder: Path) -> str:
    """Return the last lines of what the node said on its console and in its log."""
    names = [folder / "console.log", folder / "server.log"]
    texts = [name.read_text(errors="replace").strip() for name in names if name.exists()]
    return "\n".join(last_lines(text) for text in texts if text) or "  (it said nothing)"


# Ports


def can_listen(port: int) -> bool:
    """Say whether a port of loopback is free to listen on."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_port(taken: Sequence[int]) -> int:
    """Return a free port below those that the kernel gives to outgoing connections, so that it is free after a stop."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    candidates = range(10_000, lowest) if lowest > 12_000 else range(61_000, 65_536)  # noqa: PLR2004
    for _ in range(200):
        port = secrets.choice(candidates)
        if port not in taken and can_listen(port):
            return port
    raise BrokerError(f"No free port on {HOST} between {candidates.start} and {candidates.stop - 1} in 200 tries.")


def choose_ports(settings: Settings) -> None:
    """Give each listener without a port a free one, and refuse those that are in use."""
    for name, port in settings.ports.items():
        if not can_listen(port):
            raise BrokerError(f"Port {port} on {HOST} (listener {name}) is in use. Stop what listens there.")
    for name in settings.listeners:
        if name not in settings.ports:
            settings.ports[name] = free_port(list(settings.ports.values()))


# Commands


def start(folder: Path, options: argparse.Namespace) -> None:
    """Start the folder's node, wait until it answers, and print where."""
    make_folder(folder)
    with locked(folder / "lock"):
        if (pid := running(folder)) is not None:
            raise BrokerError(f"A broker runs in {folder} already (process {pid}). Stop it first.")
        java = find_java()
        jars = fetch()
        settings = merged(Settings.read(folder), options)
        choose_ports(settings)
        settings.write(folder)
        classes = ["-cp", f"{jars}/*", f"-Dlog4j2.configurationFile={folder}/log4j2.xml"]
        if not (folder / "data" / "meta.properties").exists():
            check_java(java)
            scram = [word for credential in options.add_scram for word in ("--add-scram", credential)]
            identity = ["--cluster-id", cluster_id(), "--config", f"{folder}/server.properties"]
            command = [java, *QUICK_JAVA, *classes, "kafka.tools.StorageTool", "format", *identity, *scram]
            run(command, seconds=FORMAT_SECONDS, purpose="format Kafka's log folder")
        flags = [f"-Xmx{settings.heap}", *(QUICK_JAVA if options.quick else [])]
        command = [java, *flags, *classes, "kafka.Kafka", f"{folder}/server.properties"]
        process = detach(command, folder / "console.log")
        try:
            write_private(folder / "broker.pid", f"{process.pid} {started_at(process.pid)}\n")
            if options.die_with is not None:
                watch = ["watch", "--folder", str(folder), "--die-with", str(options.die_with)]
                detach([sys.executable, "-S", str(Path(__file__).resolve()), *watch], folder / "console.log")
            wait_until_ready(folder, process, settings.ports[PLAIN], options.deadline)
        except BaseException:
            process.kill()
            process.wait()
            raise
        status(folder)


def make_folder(folder: Path) -> None:
    """Make the folder for its owner alone, and check that it can be written."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / "lock").touch()
    except OSError as error:
        raise BrokerError(f"Cannot write in {folder}: {error.strerror}.") from error


def merged(settings: Settings, options: argparse.Namespace) -> Settings:
    """Return the remembered settings under what the command line gives."""
    given = {PLAIN: options.port, CONTROLLER: options.controller_port}
    return Settings(
        ports={**settings.ports, **{name: port for name, port in given.items() if port is not None}},
        listeners={**settings.listeners, **dict(options.listener)},
        properties={**settings.properties, **dict(options.property)},
        heap=options.heap or settings.heap,
    )


def cluster_id() -> str:
    """Return a new id in Kafka's form: 16 bytes in base64, without a sign at the front that looks like an option."""
    return "P" + base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")[1:]


def stop(folder: Path, options: argparse.Namespace) -> None:
    """Stop the folder's node if it runs."""
    pid = running(folder)
    if pid is not None:
        end(pid, kill=options.kill, seconds=STOP_SECONDS)
    (folder / "broker.pid").unlink(missing_ok=True)


def restart(folder: Path, options: argparse.Namespace) -> None:
    """Stop the folder's node, and start it at the same ports."""
    stop(folder, options)
    start(folder, options)


def status(folder: Path, _options: argparse.Namespace | None = None) -> None:
    """Print addresses and process of the folder's node, if it answers."""
    pid = running(folder)
    if pid is None:
        raise BrokerError(f"No broker runs in {folder}.")
    settings = Settings.read(folder)
    if not answers(settings.ports[PLAIN]):
        raise BrokerError(f"The broker in {folder} (process {pid}) runs but does not answer.")
    lines = [f"bootstrap.servers={HOST}:{settings.ports[PLAIN]}"]
    lines += [
        f"listener.{name}={HOST}:{port}" for name, port in settings.ports.items() if name not in (PLAIN, CONTROLLER)
    ]
    sys.stdout.write("\n".join([*lines, f"pid={pid}"]) + "\n")


def watch(folder: Path, options: argparse.Namespace) -> None:
    """Stop the folder's node as soon as another process has ended; end with the node."""
    pid = running(folder)
    if pid is None:
        return
    with contextlib.suppress(ProcessLookupError):
        handles = [os.pidfd_open(options.die_with), os.pidfd_open(pid)]
        select.select(handles, [], [])
    end(pid, kill=False, seconds=5)


def pair(text: str, separator: str) -> tuple[str, str]:
    """Split a word of the command line in two."""
    name, found, value = text.partition(separator)
    if not (name and found):
        raise argparse.ArgumentTypeError(f"{text!r} lacks {separator!r}")
    return name, value


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    top = argparse.ArgumentParser(prog="broker.py", description=(__doc__ or "").partition("\n")[0])
    commands = top.add_subparsers(dest="command", required=True, metavar="{fetch,start,restart,stop,status}")
    fetching = commands.add_parser("fetch", help="copy Kafka's jars into the cache and print where")
    fetching.set_defaults(act=lambda _folder, _options: sys.stdout.write(f"{fetch()}\n"), folder=Path())
    for act, text in (
        (start, "start the node of a folder, making the folder the first time"),
        (restart, "stop it, then start it at the same ports"),
        (stop, "stop it, and wait until it has ended"),
        (status, "print its addresses and process; status 1 if it does not answer"),
        (watch, ""),
    ):
        command = commands.add_parser(act.__name__, help=text) if text else commands.add_parser(act.__name__)
        command.set_defaults(act=act)
        command.add_argument("--folder", type=lambda word: Path(word).absolute(), required=True)
        if act in (start, restart, watch):
            command.add_argument("--die-with", type=int, metavar="PID", help="stop the node when this process ends")
        if act in (start, restart):
            add_settings(command)
        if act in (stop, restart):
            command.add_argument("--kill", action="store_true", help="SIGKILL at once")
    return top


def add_settings(command: argparse.ArgumentParser) -> None:
    """Add what a start can be told; the folder remembers the first five in the folder."""
    command.add_argument("--port", type=int, help="of the plain listener; a free one if not given")
    command.add_argument("--controller-port", type=int, help="of the controller; a free one if not given")
    command.add_argument("--property", type=lambda word: pair(word, "="), action="append", default=[], metavar="K=V")
    command.add_argument(
        "--listener",
        type=lambda word: pair(word, ":"),
        action="append",
        default=[],
        metavar="NAME:PROTOCOL",
        help="one more listener: SSL, SASL_PLAINTEXT or SASL_SSL",
    )
    command.add_argument("--heap", help="as Java's -Xmx; 512m if not given")
    command.add_argument("--quick", action="store_true", help="spare Java's optimizing compiler: for tests")
    command.add_argument("--add-scram", action="append", default=[], metavar="CREDENTIAL", help="at the first start")
    command.add_argument("--deadline", type=float, default=120.0, metavar="SECONDS", help="to answer (120)")


def main() -> int:
    """Run the command line and return the exit status."""
    options = parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        options.act(options.folder, options)
    except BrokerError as error:
        say(f"{error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
