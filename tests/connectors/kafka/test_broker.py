import os
import socket
import subprocess
import threading
import time
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.support.broker import Broker, run_tool, shared_broker
from tests.support.waiting import TIMEOUT

SILENT = {"log_level": 0}


@pytest.fixture
def sleeper():
    """A process of the test's own that waits to be killed."""
    process = subprocess.Popen(["/bin/sleep", "600"])
    yield process
    process.kill()
    process.wait()


def write(broker, topic, *values):
    """Write records and wait until the broker has them."""
    outcomes: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.servers, **SILENT})
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(TIMEOUT) == 0
    assert outcomes == [None] * len(values)


def read(broker, topic, count):
    """Return the first `count` records of the topic."""
    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": "reader", **SILENT})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return [message.value() for message in consumer.consume(count, timeout=TIMEOUT)]
    finally:
        consumer.close()


def ended(pid, seconds=TIMEOUT):
    """Say whether a process ends within so many seconds."""
    deadline = time.monotonic() + seconds
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_the_runs_broker_answers_and_gives_each_test_topics_of_its_own(broker, topic):
    """Two topics asked for under one word are two topics, and a record written to one is read from it alone."""
    first, second = topic(partitions=3, word="queries"), topic(word="queries")
    assert first != second
    assert {first, second} <= broker.topics()
    write(broker, first, b"of the first")
    write(broker, second, b"of the second")
    assert read(broker, second, 1) == [b"of the second"]
    assert len(broker.admin.list_topics(first).topics[first].partitions) == 3
    broker.add_partitions(first, 4)
    broker.configure_topic(first, {"retention.ms": "60000"})
    assert len(broker.admin.list_topics(first).topics[first].partitions) == 4
    broker.delete_topic(first)
    assert first not in broker.topics()


@pytest.mark.slow
def test_a_broker_keeps_ports_and_data_through_stop_and_kill_and_ends_with_its_process(tmp_path, sleeper):
    """The whole life of one folder: shared, stopped by its last user, started, killed, paused, and left alone."""
    with shared_broker(tmp_path, die_with=os.getpid()) as first:
        servers = first.servers
        first.create_topic("kept")
        write(first, "kept", b"before the stop")
        pid = first.pid
        with shared_broker(tmp_path, die_with=os.getpid()) as second:
            assert (second.servers, second.pid) == (servers, pid)
        with pytest.raises(RuntimeError, match=rf"runs in .* already \(process {pid}\)\. Stop it first"):
            first.start()
        assert first.pid == pid
        assert first.topics() == {"kept"}
    assert ended(pid, 0)

    broker = Broker(tmp_path / "broker", die_with=sleeper.pid)
    with pytest.raises(RuntimeError, match="No broker runs in"):
        _ = broker.servers
    broker.start()
    assert broker.servers == servers
    assert read(broker, "kept", 1) == [b"before the stop"]
    write(broker, "kept", b"before the kill")
    with broker.paused():
        assert psutil.Process(broker.pid).status() == psutil.STATUS_STOPPED
    pid = broker.pid
    broker.restart(kill=True)
    assert broker.pid != pid
    assert ended(pid, 0)
    assert broker.servers == servers
    assert read(broker, "kept", 2) == [b"before the stop", b"before the kill"]

    sleeper.kill()
    assert ended(broker.pid)
    assert "shutting down" in broker.log
    broker.stop()


# What goes wrong before Kafka runs is played with a `java` and a `mvn` of the test's own


def script(folder, name, text):
    """Make a command of the test's own."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def machine(tmp_path):
    """The environment of a machine with a Java 17, with Kafka's jars in the cache, and with nothing else."""
    script(tmp_path / "bin", "java", 'echo "openjdk version \\"17.0.1\\""')
    cache = tmp_path / "cache"
    environment = {"PATH": str(tmp_path / "bin"), "PERPETUA_CACHE": str(cache)}
    script(
        tmp_path / "bin", "mvn", 'for word; do case $word in -DoutputDirectory=*) /bin/mkdir "${word#*=}"; esac; done'
    )
    done = run_tool("fetch", environment=environment)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).parent == cache
    (tmp_path / "bin" / "mvn").unlink()
    return environment


def refusal(*arguments, environment):
    """Run the tool, which must fail, and return what it says."""
    done = run_tool(*arguments, environment=environment)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_machine_without_java_is_told_the_package(tmp_path, machine):
    """No `java` on the PATH or in JAVA_HOME: the message says where it looked and what to install."""
    start = ("start", "--folder", tmp_path / "broker")
    message = refusal(*start, environment={**machine, "PATH": str(tmp_path / "cache")})
    assert "no `java` on the PATH" in message
    assert "apt-get install default-jre-headless" in message
    message = refusal(*start, environment={**machine, "JAVA_HOME": str(tmp_path / "cache")})
    assert f"no `java` in JAVA_HOME ({tmp_path / 'cache'})" in message


def test_a_java_that_is_too_old_is_refused(tmp_path, machine):
    """Java 8 calls itself 1.8: the message names the version needed and the one found."""
    script(tmp_path / "bin", "java", 'echo "openjdk version \\"1.8.0_412\\""')
    message = refusal("start", "--folder", tmp_path / "broker", environment=machine)
    assert "needs a Java 17 or newer" in message
    assert "1.8.0_412" in message


def test_a_machine_without_maven_is_told_the_package_when_jars_are_missing(tmp_path, machine):
    """An empty cache needs Maven; a full one does not."""
    message = refusal("fetch", environment={**machine, "PERPETUA_CACHE": str(tmp_path / "other")})
    assert "apt-get install maven" in message
    assert run_tool("fetch", environment=machine).returncode == 0


def test_two_processes_fetch_once_and_a_fetch_that_failed_leaves_nothing(tmp_path, machine):
    """The second waits for the first; jars appear in the cache all at once."""
    log = tmp_path / "calls"
    other = {**machine, "PERPETUA_CACHE": str(tmp_path / "other")}
    script(tmp_path / "bin", "mvn", "echo the network is down; exit 1")
    assert "the network is down" in refusal("fetch", environment=other)
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["kafka.lock"]
    make = 'for word; do case $word in -DoutputDirectory=*) /bin/mkdir "${word#*=}"; esac; done'
    script(tmp_path / "bin", "mvn", f"echo call >> {log}; /bin/sleep 0.5; {make}")
    threads = [threading.Thread(target=run_tool, args=("fetch",), kwargs={"environment": other}) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert log.read_text() == "call\n"
    assert len(list((tmp_path / "other").iterdir())) == 2


def test_a_port_in_use_is_named(tmp_path, machine):
    """A port that another process listens on is refused before Kafka is started."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        message = refusal("start", "--folder", tmp_path / "b", "--port", str(port), environment=machine)
    assert f"Port {port} on 127.0.0.1 (listener PLAINTEXT) is in use" in message


def test_a_folder_that_cannot_be_written_is_named(tmp_path, machine):
    """A file in the place of the folder: the message names it."""
    (tmp_path / "file").touch()
    message = refusal("start", "--folder", tmp_path / "file", environment=machine)
    assert f"Cannot write in {tmp_path / 'file'}" in message


def test_the_end_of_a_broker_that_died_at_its_start_is_shown(tmp_path, machine):
    """Kafka ends with a message while the tool waits: the message is shown, and no broker is said to run."""
    script(
        tmp_path / "bin", "java", 'echo "version \\"17\\""; case "$*" in *kafka.Kafka*) echo no disk left; exit 1; esac'
    )
    message = refusal("start", "--folder", tmp_path / "b", environment=machine)
    assert "Kafka ended while it started" in message
    assert "no disk left" in message
    assert "No broker runs" in refusal("status", "--folder", tmp_path / "b", environment=machine)


def test_a_broker_that_never_answers_is_killed_at_the_deadline(tmp_path, machine):
    """A `java` that only sleeps: refused after the deadline, and the process is gone."""
    script(tmp_path / "bin", "java", 'echo "version \\"17\\""; case "$*" in *kafka.Kafka*) exec /bin/sleep 600; esac')
    message = refusal("start", "--folder", tmp_path / "b", "--deadline", "0.5", environment=machine)
    assert "did not answer within 0.5 s" in message
    assert ended(int((tmp_path / "b" / "broker.pid").read_text().split()[0]), 0)
