"""`oracle.Client` on a real broker: many questions at once, and none of them twice, whatever ends in between."""

import asyncio
import contextlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

import oracle
from oracle.errors import BusError, InputError, RejectedError, StorageError, UnansweredError
from tests.connectors.kafka.conftest import unique_name
from tests.support.broker import Broker
from tests.support.kafka import KafkaModelUnderTest
from tests.support.kafka_here import run_here
from tests.support.waiting import TIMEOUT, until


def _client(model: KafkaModelUnderTest, replies: str = "", **kafka: Any) -> oracle.Client:
    return oracle.Client.kafka(model.broker.servers, model.queries, replies or model.answers, **kafka)


def _queries(count: int) -> list[dict[str, Any]]:
    return [{"id": str(number), "x": [number / count, 0.5]} for number in range(count)]


async def _answers(questions: Sequence[oracle.Question]) -> list[str]:
    return [(await question.answer(TIMEOUT))["id"] for question in questions]


def test_a_thousand_at_once(model: KafkaModelUnderTest):
    """Each hears its own answer, and the log has each question once, in the order of asking; what is none is told."""
    model.serve(model.config())
    queries = _queries(1000)

    async def ask() -> list[dict[str, Any]]:
        async with _client(model) as client:
            refused = await client.send({"id": "none", "x": [0.5]})
            answers = await asyncio.gather(*(client.ask(query, TIMEOUT) for query in queries))
            with pytest.raises(RejectedError, match="wrong-dimension"):
                await refused.answer(TIMEOUT)
            return answers

    assert [answer["id"] for answer in run_here(ask())] == [query["id"] for query in queries]
    _run_the_page(model)
    asked = [msgspec.json.decode(record.value).get("id") for record in model.read(model.queries)]
    assert asked[:1001] == ["none", *(query["id"] for query in queries)]
    assert len(asked) == 1001 + 101 + 100


def _run_the_page(model: KafkaModelUnderTest) -> None:
    """Run the programs of docs/how-to/ask.md."""
    text = (Path(__file__).parents[3] / "docs" / "how-to" / "ask.md").read_text()
    for there, here in {
        "broker-1:9092": model.broker.servers,
        "vfr.queries": model.queries,
        "vfr.replies-me": model.answers,
        "[5.2]": "[0.5, 0.5]",
        "[speed]": "[speed / 100, 0.5]",
    }.items():
        text = text.replace(there, here)
    programs = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(programs) == 2
    with contextlib.chdir(model.folder):
        for program in programs:
            exec(program, {"oracle": oracle})  # noqa: S102 -- our own page


def test_what_a_topic_does_not_take_is_told_and_the_others_go_on(model: KafkaModelUnderTest):
    """A question that is too large is not written; those before, beside and behind it are, once."""
    model.broker.configure_topic(model.queries, {"max.message.bytes": "20000"})

    async def ask() -> None:
        async with _client(model) as client:
            before, large, beside = [await client.send({"x": "a" * size}) for size in (10, 30_000, 10)]
            with pytest.raises(StorageError, match="larger than the topic's max"):
                await large.answer(TIMEOUT)
            behind = await client.send({"x": "b"})
            await until(lambda: before.written and behind.written)
            assert large.written is False
            with pytest.raises(UnansweredError, match="no answer within"):
                await beside.answer(0.0)

    run_here(ask())
    written = [len(record.value) for record in model.read(model.queries)]
    assert max(written) < 100
    assert len(written) in {2, 3}  # the one beside may have been refused with it: then nobody knows


def test_wrong_topics_and_partitions_are_named(model: KafkaModelUnderTest):
    """Before anything is written."""

    async def refused(client: oracle.Client) -> str:
        with pytest.raises((BusError, InputError)) as caught:
            async with client:
                pass
        return str(caught.value)

    servers = model.broker.servers
    for queries, replies in (("missing", model.answers), (model.queries, "missing")):
        client = oracle.Client.kafka(servers, queries, replies, request_seconds=1)
        assert "topic missing: UnknownTopicOrPartition" in run_here(refused(client))
    assert "must be below 1" in run_here(refused(_client(model, partition=1)))


@pytest.mark.slow
def test_killed_daemon_and_broker(own_broker: Broker, request: pytest.FixtureRequest, tmp_path):
    """Questions wait for a daemon and a broker that are killed: each is in the log once, and answered."""
    model = KafkaModelUnderTest(own_broker, unique_name(request), tmp_path).create()
    config = model.config()
    daemon = model.serve(config)

    async def ask() -> list[str]:
        async with _client(model) as client:
            asked = [await client.send(query) for query in _queries(100)]
            found = await _answers(asked)
            daemon.kill()
            daemon.wait()
            with pytest.raises(UnansweredError, match="the bus has the question") as caught:
                await client.ask({"id": "late", "x": [0.5, 0.5]}, seconds=5.0)
            asked += [await client.send(query) for _ in range(5) for query in _queries(100)]
            killing = asyncio.create_task(asyncio.to_thread(own_broker.restart, kill=True))
            asked += [await client.send(query) for _ in range(5) for query in _queries(100)]
            await killing
            await until(lambda: all(question.written for question in asked))
            model.serve(config, "again.log")
            found += await _answers([caught.value.question, *asked[100:]])
            return found

    try:
        wanted = [str(number) for number in range(100)]
        assert run_here(ask()) == [*wanted, "late", *(10 * wanted)]
        assert len(model.read(model.queries)) == 1101
    finally:
        model.end()
