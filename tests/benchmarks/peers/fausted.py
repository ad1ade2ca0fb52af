"""Answer each query by a linear rule, exactly once, over Faust: `python fausted.py worker -l error`."""

from typing import Any

import faust
from rule import ANSWERS, FOLDER, GROUP, QUERIES, SERVERS, SESSION_MS, answer

app = faust.App(
    GROUP,
    broker=f"kafka://{SERVERS}",
    datadir=FOLDER,
    processing_guarantee="exactly_once",
    value_serializer="json",
    topic_disable_leader=True,
    consumer_auto_offset_reset="earliest",
    broker_session_timeout=SESSION_MS / 1000,
    broker_heartbeat_interval=SESSION_MS / 4000,
    broker_commit_interval=0.1,  # as often as Kafka Streams by its own defaults
    stream_wait_empty=False,
    web_enabled=False,
)
queries = app.topic(QUERIES)
answers = app.topic(ANSWERS)


@app.agent(queries)  # type: ignore[untyped-decorator]  # Faust has no types
async def answering(stream: Any) -> None:
    """Answer one after the other."""
    async for query in stream:
        await answers.send(value=answer(query))


app.main()
