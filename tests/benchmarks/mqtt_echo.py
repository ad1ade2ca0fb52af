"""`python -m tests.benchmarks.mqtt_echo`: a bare aiomqtt echo at QoS 1, as a process of its own.

It answers every message of a topic by one of an answer's size with the same correlation data, 50 under way at most. It
keeps nothing: what it has acknowledged (when paho does, as the message comes) and not published is lost with it.
"""

import argparse
import asyncio
import socket
import sys

import aiomqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

_UNDER_WAY = 50
_ANSWER = b'{"id":"q12345","label":0   ,"model":"box","round":123456,"phase":1}'


async def _echo(port: int, topic: str, answers: str) -> None:
    slots = asyncio.Semaphore(_UNDER_WAY)
    running: set[asyncio.Task[None]] = set()
    async with aiomqtt.Client(
        "127.0.0.1",
        port,
        protocol=aiomqtt.ProtocolVersion.V5,
        max_inflight_messages=_UNDER_WAY,
        socket_options=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],  # as the daemon's; without it, it is much slower
    ) as client:
        client.pending_calls_threshold = 10 * _UNDER_WAY
        await client.subscribe(topic, qos=1)
        sys.stdout.write("ready\n")
        sys.stdout.flush()

        async def answer(message: aiomqtt.Message) -> None:
            properties = Properties(PacketTypes.PUBLISH)
            properties.CorrelationData = message.properties.CorrelationData  # type: ignore[union-attr]
            properties.ContentType = "application/json"
            try:
                await client.publish(answers, _ANSWER, qos=1, properties=properties)
            finally:
                slots.release()

        async for message in client.messages:
            await slots.acquire()
            task = asyncio.create_task(answer(message))
            running.add(task)
            task.add_done_callback(running.discard)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.mqtt_echo", description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("topic")
    parser.add_argument("answers")
    chosen = parser.parse_args()
    asyncio.run(_echo(chosen.port, chosen.topic, chosen.answers))
