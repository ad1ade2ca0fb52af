#!/usr/bin/env python3
"""Asks a model over MQTT, as any client of MQTT 5 may.

Each line of standard input is published at QoS 1, and names a topic of the asker's own as the place for its answer.
Answers are printed as they come. They come at least once: one that comes again is the very same, and is passed over by
its correlation data.
"""

import argparse
import asyncio
import sys

import aiomqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties


async def ask(server: str, queries: str, replies: str, bodies: list[bytes]) -> None:
    """Publish queries, and print their answers until all have come."""
    host, _, port = server.rpartition(":")
    async with aiomqtt.Client(host, int(port), protocol=aiomqtt.ProtocolVersion.V5) as client:
        await client.subscribe(replies, qos=1)
        for number, body in enumerate(bodies):
            properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # paho has no types here
            properties.ContentType = "application/json"
            properties.ResponseTopic = replies
            properties.CorrelationData = b"%d" % number
            await client.publish(queries, body, qos=1, properties=properties)
        waiting = {b"%d" % number for number in range(len(bodies))}
        async for message in client.messages:
            correlation = getattr(message.properties, "CorrelationData", b"")
            if correlation in waiting:
                waiting.remove(correlation)
                sys.stdout.write(f"{bytes(message.payload).decode()}\n")  # type: ignore[arg-type]  # aiomqtt's union
            if not waiting:
                return


def main() -> None:
    """Run with the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server", help="the broker, HOST:PORT")
    parser.add_argument("queries", help="the model's query topic")
    parser.add_argument("replies", help="a topic of this asker alone, which sink.reply_topics lets it name")
    given = parser.parse_args()
    lines = sys.stdin.buffer.read().splitlines()
    if lines:
        asyncio.run(ask(given.server, given.queries, given.replies, lines))


if __name__ == "__main__":
    main()
