"""What a shard on Kafka is, told alike everywhere: before the brokers, without them, and unable to save."""

from pathlib import Path

from oracle.state.folder import FolderStore
from tests.support.agreement import Told
from tests.support.broker import Broker
from tests.support.kafka import KafkaModelUnderTest
from tests.support.shards import MASTER_KEY, bodies

_WEB = "[web]\nport = 0\nready_lag_seconds = 600\n"
_SOON = "session_seconds = 6"


def test_drill_broker_that_comes_goes_and_comes_back(own_broker: Broker, tmp_path: Path):
    """Started before the brokers it has no shard; with them it serves; two losses later it serves again."""
    model = KafkaModelUnderTest(own_broker, "m", tmp_path).create()
    try:
        _lose_and_find(own_broker, model)
    finally:
        model.end()


def _lose_and_find(own_broker: Broker, model: KafkaModelUnderTest) -> None:
    own_broker.stop()
    model.serve(model.config(extra=_WEB, source=_SOON))
    told = Told(model)
    (reason,) = told.becomes("", known=False)
    assert reason["check"] == "restored"
    own_broker.start()
    told.becomes("serving")
    for kill in (False, True):
        own_broker.kill() if kill else own_broker.stop()
        told.becomes("waiting", known=False)
        own_broker.start()
        told.becomes("serving")
    model.ask(bodies(5))
    assert len(model.wait_for_answers(5)) == 5


def test_drill_snapshots_that_fail_while_it_answers(model: KafkaModelUnderTest):
    """Another process holds its state folder, then it is gone for a while: each time it answers, and says so."""
    model.serve(model.config(extra=_WEB))
    told = Told(model)
    told.becomes("serving")
    state, away = model.folder / "state", model.folder / "away"
    with FolderStore.open(state, MASTER_KEY):
        _answers_unsaved(model, told, 600)
    told.becomes("serving")
    state.rename(away)
    _answers_unsaved(model, told, 1200)
    away.rename(state)
    told.becomes("serving")
    assert model.events().count("snapshot.failed") >= 2


def _answers_unsaved(model: KafkaModelUnderTest, told: Told, answered: int) -> None:
    model.ask(bodies(600))
    model.wait_for_answers(answered)
    assert {reason["check"] for reason in told.becomes("degraded")} == {"folder"}


def test_drill_a_topic_of_ours_goes_while_it_serves(model: KafkaModelUnderTest):
    """The client would look for it until the transaction is over, here in a quarter of an hour; the shard says so."""
    model.serve(model.config(extra=_WEB, sink="transaction_seconds = 900"))
    told = Told(model)
    told.becomes("serving")
    model.ask(bodies(5))
    model.wait_for_answers(5)
    model.broker.delete_topic(model.answers)
    model.ask(bodies(5, seed=2))
    told.becomes("waiting", known=False)
    assert f"topic {model.answers}: does not exist; create it" in str(model.log())
    model.broker.create_topic(model.answers, 1, {"max.message.bytes": "20000000"})
    told.becomes("serving")
    assert [answer.value for answer in model.wait_for_answers(5)] == model.expected([*bodies(5), *bodies(5, seed=2)])[
        5:
    ]
