"""Answer each query by a linear rule, exactly once, over Quix Streams."""

from quixstreams import Application
from rule import ANSWERS, FOLDER, GROUP, QUERIES, SERVERS, SESSION_MS, answer

app = Application(
    broker_address=SERVERS,
    consumer_group=GROUP,
    auto_offset_reset="earliest",
    auto_create_topics=False,
    use_changelog_topics=False,
    state_dir=FOLDER,
    processing_guarantee="exactly-once",
    commit_interval=0.1,  # as often as Kafka Streams by its own defaults; Quix Streams' own is 5 s
    consumer_extra_config={"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": SESSION_MS // 4},
)
queries = app.topic(QUERIES, value_deserializer="json")
answers = app.topic(ANSWERS, value_serializer="json")
app.dataframe(queries).apply(answer).to_topic(answers)
app.run()
