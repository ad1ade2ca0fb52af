"""Kafka's console producer and consumer, as far as pages use them: the jars of a broker are without."""

import argparse
import sys

from confluent_kafka import Consumer, Producer, TopicPartition


def produce(servers: str, topic: str) -> None:
    """Send each line of standard input."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    for line in sys.stdin:
        producer.produce(topic, line.rstrip("\n").encode())
    assert producer.flush(120) == 0


def consume(servers: str, topic: str, settings: dict[str, str], count: int) -> None:
    """Print so many records of partition 0 from its beginning, and wait for them."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "console", "enable.auto.commit": False, **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])
    while count:
        message = consumer.poll(1.0)
        if message is not None and not message.error():
            sys.stdout.write((message.value() or b"").decode() + "\n")
            count -= 1
    consumer.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--from-beginning", action="store_true")
    parser.add_argument("--consumer-property", action="append", default=[])
    parser.add_argument("--max-messages", type=int)
    given = parser.parse_args()
    if given.max_messages is None:
        produce(given.bootstrap_server, given.topic)
    else:
        properties = dict(one.split("=", 1) for one in given.consumer_property)
        consume(given.bootstrap_server, given.topic, properties, given.max_messages)
