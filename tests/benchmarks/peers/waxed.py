"""Answer each query by a linear rule over Bytewax: `python -m bytewax.run waxed:flow`.

Its sink has no transactions: after a crash it answers again.
"""

import json

from bytewax import operators as op
from bytewax.connectors.kafka import KafkaSinkMessage, KafkaSource, KafkaSourceMessage
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow
from rule import ANSWERS, GROUP, QUERIES, SERVERS, answer

# It keeps offsets in files of its own; those that it commits here are what the benchmark waits for.
committing = {"group.id": GROUP, "enable.auto.commit": "true", "auto.commit.interval.ms": "100"}


def answered(message: KafkaSourceMessage) -> KafkaSinkMessage:
    """Answer one message."""
    return KafkaSinkMessage(message.key, json.dumps(answer(json.loads(message.value))).encode())


flow = Dataflow("peer")
queries = KafkaSource([SERVERS], [QUERIES], batch_size=16_384, add_config=committing)
answers = op.map("answer", op.input("queries", flow, queries), answered)
kop.output("answers", answers, brokers=[SERVERS], topic=ANSWERS)
