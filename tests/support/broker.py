"""A real Apache Kafka broker for tests: starts, stops, kills and pauses it through deploy/kafka, and makes topics."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psutil
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public by their documentation
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from concurrent.futures import Future

TOOL = Path(__file__).resolve().parents[2] / "deploy" / "kafka" / "broker.py"

# What a broker does in the background every few minutes, or refuses as too quick for a wide network.
_IMPATIENT = {
    "group.min.session.timeout.ms": "500",
    "log.cleaner.backoff.ms": "500",
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.segment.delete.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}

# For `make test-slow`: each record waits for the disk, and a commit has several.
if os.environ.get("SLOW_BROKER_MS"):
    _IMPATIENT["log.flush.interval.messages"] = "1"


def run_tool(*arguments: str | Path, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run deploy/kafka's tool to its end in a process of its own."""
    command = [sys.executable, str(TOOL), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200, env=environment)


class Broker:
    """One Kafka node, owned by a folder; as a context manager it runs inside and is stopped at the end.

    Objects over the same folder are the same node. Ports and data outlive a stop.

    Args:
        folder: Where its data, its log and its settings are.
        properties: Kafka's properties, over those that make a broker quick to act.
        listeners: More listeners, as protocols by name (`SSL`, `SASL_PLAINTEXT`, `SASL_SSL`).
        scram: Credentials in Kafka's form (`SCRAM-SHA-256=[name=alice,password=secret]`), added when the folder is new.
        die_with: The process with which the broker ends, however that ends; this one if not given.

    Attributes:
        quick: Whether Java spares its optimizing compiler, which starts sooner and is slower later; not for benchmarks.
    """

    def __init__(
        self,
        folder: Path,
        *,
        properties: Mapping[str, str] | None = None,
        listeners: Mapping[str, str] | None = None,
        scram: Iterable[str] = (),
        die_with: int | None = None,
    ) -> None:
        self.folder = folder
        self.quick = True
        self._addresses: dict[str, str] = {}
        self._client: AdminClient | None = None
        self._options = ["--die-with", str(die_with or os.getpid())]
        for name, value in {**_IMPATIENT, **(properties or {})}.items():
            self._options += ["--property", f"{name}={value}"]
        for name, protocol in (listeners or {}).items():
            self._options += ["--listener", f"{name}:{protocol}"]
        for credential in scram:
            self._options += ["--add-scram", credential]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # The process

    def start(self) -> None:
        """Start it and wait until it answers."""
        self._tool("start", *self._options, *self._java())

    def stop(self) -> None:
        """Stop it in good order; nothing happens if it does not run."""
        self._tool("stop")

    def kill(self) -> None:
        """End it with SIGKILL, as a machine without power would."""
        self._tool("stop", "--kill")

    def restart(self, *, kill: bool = False) -> None:
        """Stop or kill it, and start it at the same ports."""
        self._tool("restart", *self._options, *self._java(), *(["--kill"] if kill else []))

    def pause(self) -> None:
        """Stop its clock with SIGSTOP: connections stay open and nothing answers."""
        pid = self.pid
        os.kill(pid, signal.SIGSTOP)
        eventually(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, what=lambda: "the broker is paused")

    def resume(self) -> None:
        """Let it go on after `pause`."""
        os.kill(self.pid, signal.SIGCONT)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Pause it for the time of a block."""
        self.pause()
        try:
            yield
        finally:
            self.resume()

    @property
    def pid(self) -> int:
        """The process, by its id."""
        return int((self.folder / "broker.pid").read_text().split()[0])

    @property
    def servers(self) -> str:
        """The plain listener, as clients' `bootstrap.servers`."""
        return self._address("bootstrap.servers")

    def listener(self, name: str) -> str:
        """Return the address of one of the further listeners."""
        return self._address(f"listener.{name}")

    @property
    def log(self) -> str:
        """What it has written to its log so far."""
        return (self.folder / "server.log").read_text(errors="replace")

    # Topics

    @property
    def admin(self) -> AdminClient:
        """The client behind the methods below, for what they do not cover."""
        if self._client is None:
            self._client = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        return self._client

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """Create a topic, wait until it is there, and return its name."""
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        _wait(self.admin.create_topics([topic], operation_timeout=TIMEOUT, request_timeout=TIMEOUT))
        eventually(lambda: self._leaders(name) == partitions, what=lambda: f"topic {name} is there")
        return name

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until it is gone."""
        _wait(self.admin.delete_topics([name], operation_timeout=TIMEOUT, request_timeout=TIMEOUT))
        eventually(lambda: name not in self.topics(), what=lambda: f"topic {name} is gone")

    def add_partitions(self, name: str, total: int) -> None:
        """Raise a topic's number of partitions to `total`, and wait until they are there."""
        _wait(
            self.admin.create_partitions(
                [NewPartitions(name, total)], operation_timeout=TIMEOUT, request_timeout=TIMEOUT
            )
        )
        eventually(lambda: self._leaders(name) == total, what=lambda: f"topic {name} has {total} partitions")

    def configure_topic(self, name: str, config: Mapping[str, str]) -> None:
        """Set some of a topic's own configuration and leave the rest, and wait until the broker knows."""
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in config.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        _wait(self.admin.incremental_alter_configs([resource]))
        eventually(lambda: config.items() <= self._configuration(name).items(), what=lambda: f"topic {name}: {config}")

    def allow(self, rules: Sequence[AclBinding]) -> None:
        """Add access rules, and wait until the broker's authorizer goes by them."""
        _wait(self.admin.create_acls(list(rules)))
        kinds = (AclOperation.ANY, AclPermissionType.ANY)
        of_any = AclBindingFilter(ResourceType.ANY, None, ResourcePatternType.ANY, None, None, *kinds)  # type: ignore[arg-type]  # None is any, by its documentation
        eventually(lambda: set(rules) <= set(self.admin.describe_acls(of_any).result(TIMEOUT)), what=lambda: rules)

    def topics(self) -> set[str]:
        """Return the names of all topics but Kafka's own."""
        found = self.admin.list_topics(timeout=TIMEOUT).topics
        return {name for name in found if not name.startswith("__")}

    def _configuration(self, name: str) -> dict[str, str]:
        (future,) = self.admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)]).values()
        return {entry.name: entry.value for entry in future.result(TIMEOUT).values()}

    def _leaders(self, name: str) -> int:
        topic = self.admin.list_topics(timeout=TIMEOUT).topics.get(name)
        return sum(part.leader >= 0 for part in topic.partitions.values()) if topic else 0

    def _java(self) -> list[str]:
        return ["--quick"] if self.quick else []

    def _address(self, name: str) -> str:
        if not self._addresses:  # the folder remembers its ports, so that one look is enough
            self._tool("status")
        return self._addresses[name]

    def _tool(self, command: str, *options: str) -> None:
        done = run_tool(command, "--folder", self.folder, *options)
        if done.returncode:
            message = f"{command}: {done.stderr.strip()}"
            raise RuntimeError(message)
        if done.stdout:
            self._addresses = dict(line.split("=", 1) for line in done.stdout.splitlines())


@contextlib.contextmanager
def shared_broker(folder: Path, *, die_with: int) -> Iterator[Broker]:
    """Give the broker of a folder to several processes: the first starts it, the last stops it.

    Args:
        folder: Where the broker has its folder, beside the count of its users.
        die_with: The process with which the broker ends, for users that never came to give it back.
    """
    folder.mkdir(parents=True, exist_ok=True)
    broker = Broker(folder / "broker", die_with=die_with)
    with _users(folder, 1) as users:
        if users == 1:
            broker.start()
    try:
        yield broker
    finally:
        with _users(folder, -1) as users:
            if users == 0:
                broker.stop()


@contextlib.contextmanager
def _users(folder: Path, change: int) -> Iterator[int]:
    """Change the count of users for the time after the block, and hold the lock on it during the block."""
    with (folder / "users").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        users = int(file.read() or 0) + change
        yield users  # if this fails the count stays as it was
        file.truncate(0)
        file.write(str(users))


def _wait(futures: Mapping[Any, "Future[Any]"]) -> None:
    for future in futures.values():
        future.result(timeout=TIMEOUT)
