"""An answer that ends connections is found and given up; others, and those under a broker's own troubles, are not."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors import retry
from connectors.base import Committed
from connectors.mqtt.messages import Outgoing, pack_pairs
from connectors.mqtt.outbox import Publication
from connectors.mqtt.poison import PoisonDetector, TopicLimits
from connectors.mqtt.reasons import Ending, ending
from tests.support.mqtt import MqttModelUnderTest
from tests.support.mqtt_link import LinkBench, an_answer, link_bench
from tests.support.shards import bodies
from tests.support.waiting import eventually, until


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    """The pauses between connections have tests of their own."""
    monkeypatch.setattr(retry, "FIRST", 0.02)
    monkeypatch.setattr(retry, "LONGEST", 0.2)


_CULPRIT = Outgoing("m/replies/x", b"culprit", "t", ours=False)


async def _publish(bench: LinkBench, *messages: Outgoing, position: int = 1) -> None:
    """Commit messages over a connected link, and wait until each is accepted or given up."""
    await bench.connected()
    await bench.outbox.commit(messages, Committed(position, b""))
    await until(lambda: bench.outbox.settled, lambda: bench.observer.errors)


def _bodies(bench: LinkBench) -> list[bytes]:
    return [body for _, body, _ in bench.broker.published]


@pytest.mark.parametrize("says", [None, 0x80, 0x81, 0x83, 0x87, 0x90, 0x95, 0x99])
async def test_answer_that_ends_connections_is_given_up(tmp_path, says):
    """Alone among twenty in one commit: the others arrive, in order; it is told once, with a note, and gone."""
    async with link_bench(tmp_path, dead_letter="d") as bench:
        bench.broker.ends_at, bench.broker.says = {_CULPRIT.body}, says
        answers = [an_answer(number) for number in range(20)]
        await _publish(bench, *answers[:7], _CULPRIT, *answers[7:], position=5)
        assert bench.observer.lost_answers == ["answer given up: its publication ends the connection"]
        first = list(dict.fromkeys(body for body in _bodies(bench) if body.startswith(b"answer")))
        assert first == [answer.body for answer in answers]
        note = msgspec.json.decode(_bodies(bench)[-1])
        assert note == {"reason": "undelivered", "topic": "q", "position": 5, "size": 7}
        assert len(bench.broker.connected) <= 5
        await until(lambda: not bench.left_after_a_crash())
        before = len(bench.broker.connected)
        await _publish(bench, an_answer(99), position=6)
        assert len(bench.broker.connected) == before


async def test_answer_alone_costs_two_connections(tmp_path):
    """Where nothing else was under way both times, the third connection goes on without it."""
    async with link_bench(tmp_path) as bench:
        bench.broker.ends_at, bench.broker.says = {_CULPRIT.body}, 0x81
        await _publish(bench, _CULPRIT)
        await bench.connected(3)
        assert _bodies(bench).count(_CULPRIT.body) == 2
        assert bench.observer.errors[0].endswith("connection lost: malformed packet (0x81)")


async def test_several_are_found_one_after_the_other(tmp_path):
    """Each costs two connections or three, without the pauses growing; nothing else is lost."""
    culprits = [Outgoing("m/replies/x", b"culprit %d" % number, "t", ours=False) for number in range(4)]
    async with link_bench(tmp_path) as bench:
        bench.broker.ends_at, bench.broker.says = {one.body for one in culprits}, 0x90
        mixed = [one for pair in zip(culprits, map(an_answer, range(4)), strict=True) for one in pair]
        await _publish(bench, *mixed)
        assert len(bench.observer.lost_answers) == 4
        assert {b"answer %d" % number for number in range(4)} <= set(_bodies(bench))
        assert len(bench.broker.connected) <= 10


def _named(number: int, topic: str) -> Outgoing:
    return Outgoing(topic, b"culprit %d" % number, "t", ours=False)


async def test_a_flood_of_them_holds_nobody_up(tmp_path):
    """Once three have shown that topics of so many levels are not taken, others are given up untried."""
    culprits = [_named(number, "m/replies/" + "/x" * (9 + number % 3)) for number in range(200)]
    honest = [Outgoing(f"m/replies/{number}/a", b"honest %d" % number, "t", ours=False) for number in range(200)]
    async with link_bench(tmp_path) as bench:
        bench.broker.ends_at, bench.broker.says = {one.body for one in culprits}, 0x90
        mixed = [one for pair in zip(culprits, honest, strict=True) for one in pair]
        await _publish(bench, *mixed)
        assert len(bench.observer.lost_answers) == 200
        assert {one.body for one in honest} <= set(_bodies(bench))
        assert len(bench.broker.connected) <= 30


_DEEP, _LONG = "a" + "/b" * 20, "a" * 300


@pytest.mark.parametrize(("rejected", "exceeding"), [(_DEEP, [_DEEP, _DEEP + "/c"]), (_LONG, [_LONG, _LONG + "a"])])
def test_topics_beyond_the_limits_are_known(rejected, exceeding):
    """Three answers given up are needed, and nothing like them that was taken; after an hour it is tried again."""
    limits = TopicLimits()
    limits.accepted("a/b/c")
    for times in range(3):
        assert not any(limits.exceeded(topic, 5.0) for topic in exceeding)
        limits.rejected(rejected, float(times))
    assert all(limits.exceeded(topic, 5.0) for topic in exceeding)
    assert not limits.exceeded("a/b/c/d", 5.0)
    assert not limits.exceeded(rejected, 4000.0)
    limits.accepted(rejected)
    assert not limits.exceeded(rejected, 5.0)


@pytest.mark.parametrize("says", [0x8B, 0x89, 0x8D, 0x96, 0x97, 0x98, 0x9C, 0x9F, 0xA0])
async def test_a_reason_that_is_the_brokers_own_is_held_against_no_answer(tmp_path, says):
    """It may end as many connections as it likes over the same answer: shutting down, busy, a quota, and so on."""
    async with link_bench(tmp_path) as bench:
        bench.broker.ends_at, bench.broker.says = {b"answer 1"}, says
        await bench.connected()
        await bench.outbox.commit([an_answer(1)], Committed(1, b""))
        await bench.connected(4)
        bench.broker.ends_at = set()
        await until(lambda: bench.outbox.settled, lambda: bench.observer.errors)
        assert not bench.observer.lost_answers


async def test_a_broker_that_dies_again_and_again_costs_no_answer(tmp_path):
    """It is killed again and again while one answer is under way, and is away for a while each time; then it lives."""
    async with link_bench(tmp_path) as bench:
        await bench.connected()
        bench.broker.takes = [None] * 4
        await bench.outbox.commit([an_answer(1)], Committed(1, b""))
        for times in range(1, 5):
            await until(lambda: len(bench.broker.published) == times)  # noqa: B023 -- awaited here
            tried = len(bench.broker.connected)
            bench.broker.refuses = True
            bench.broker.drop()
            await until(lambda: len(bench.broker.connected) > tried + 1)  # noqa: B023 -- awaited here
            bench.broker.refuses = False
        await until(lambda: bench.outbox.settled, lambda: bench.observer.errors)
        assert not bench.observer.lost_answers
        assert len({body for body in _bodies(bench) if body}) == 1


async def test_a_broker_that_refuses_for_a_while_costs_no_answer(tmp_path):
    """A reason that may be its own trouble (unspecified, implementation specific) is waited out."""
    async with link_bench(tmp_path) as bench:
        bench.broker.takes = [0x80, 0x83, 0x80]
        await _publish(bench, an_answer(1))
        assert not bench.observer.lost_answers
        assert _bodies(bench) == [b"answer 1"] * 4


async def test_what_is_refused_for_its_content_is_given_up_at_once(tmp_path):
    """Also on our own answer topic: one message does not stop the daemon."""
    async with link_bench(tmp_path) as bench:
        bench.broker.takes = [0x99, 0x95]
        await _publish(bench, an_answer(1), an_answer(2), an_answer(3))
        assert bench.observer.lost_answers == [
            "answer refused: payload format invalid (0x99)",
            "answer refused: packet too large (0x95)",
        ]
        bench.link.check()


async def test_what_the_client_cannot_send_is_given_up(tmp_path):
    """A message that paho raises at is one answer lost, on our own topic too, and no connection."""
    async with link_bench(tmp_path) as bench:
        odd = [
            Outgoing("a", b"", "t", correlation=bytes(70_000)),
            Outgoing("a", b"", "t", expiry=1 << 40),
            Outgoing("a", b"", "t", user=pack_pairs([("x" * 70_000, "")])),
        ]
        await _publish(bench, *odd, an_answer(1))
        assert bench.observer.lost_answers == ["answer cannot be sent"] * 3
        assert _bodies(bench) == [b"answer 1"]
        assert len(bench.broker.connected) == 1


_ENDINGS = st.sampled_from(list(Ending))


@settings(deadline=None)
@given(steps=st.lists(st.tuples(st.integers(0, 3), _ENDINGS, st.booleans()), max_size=30))
def test_only_what_was_alone_twice_in_a_row_is_given_up(steps):
    """Whatever ends how: an answer is given up only after two ends in a row that found it in flight alone."""
    queue = [Publication(number, an_answer(number)) for number in range(3)]
    poison, alone_in_a_row = PoisonDetector(), [0, 0, 0]
    for count, how, at_once in steps:
        in_flight = queue[: min(count, poison.one_by_one) if poison.one_by_one else count]
        poison.connection_ended(in_flight, how)
        poison.connection_tried(let_in=at_once)
        if how is not Ending.ELSEWHERE and len(in_flight) == 1:
            alone_in_a_row[0] += 1
        assert not any(poison.verdict(one, 0.0) for one in queue[1:])
        assert not poison.verdict(queue[0], 0.0) or alone_in_a_row[0] >= 2
    poison.removed(queue[0])
    assert not poison.verdict(queue[0], 0.0)


def test_a_broker_that_is_away_afterwards_is_suspected_itself():
    """Six ends in a row, and not two, where each time it was away afterwards: it may be killed, or crash at it."""
    poison, publication = PoisonDetector(), Publication(1, an_answer(1))
    for times in range(1, 7):
        assert not poison.verdict(publication, 0.0)
        poison.connection_ended([publication], Ending.SILENT)
        poison.connection_tried(let_in=False)
        poison.connection_tried(let_in=True)
        assert bool(poison.verdict(publication, 0.0)) is (times == 6)
        assert poison.uptime_for(publication) > 0


@pytest.mark.parametrize(
    ("code", "by_broker", "expected"),
    [
        (0x81, True, Ending.NAMED),
        (0x80, True, Ending.SILENT),
        (0x80, False, Ending.SILENT),
        (None, False, Ending.SILENT),
        (0x8D, False, Ending.ELSEWHERE),
        (0x8B, True, Ending.ELSEWHERE),
        (0xFE, True, Ending.ELSEWHERE),
    ],
)
def test_what_an_end_says(code, by_broker, expected):
    """Only a reason of the broker's that may be about a packet names one; our own keep-alive says nothing of it."""
    assert ending(code, by_broker=by_broker) is expected


def test_drill_poison_answer_on_mosquitto(own_model: MqttModelUnderTest):
    """With the bound on levels out of the way, Mosquitto ends the connection over one answer; all others arrive.

    Also across a kill of the daemon in the midst of it. The answer is counted, told and noted, and gone for good.
    """
    model = own_model
    config = model.config(sink="reply_levels = 1000")
    model.serve(config)
    model.wait_for_event("bus.connected")
    asker = model.asker(model.answers, f"{model.name}/dead")
    deep = f"{model.name}/replies/" + "/".join("x" * 250)
    contents = bodies(30)
    for number, body in enumerate(contents):
        asker.ask(model.queries, body, reply=deep if number == 11 else None)
    model.wait_for_event("bus.unavailable")
    model.processes[0].kill()
    model.processes[0].wait()
    model.serve(config)
    note = {"reason": "undelivered"}
    eventually(
        lambda: [one for one in asker.on(f"{model.name}/dead") if note.items() <= one.json.items()], what=model.log
    )
    expected = model.expected(contents)
    wanted = {body for number, body in enumerate(expected) if number != 11}
    eventually(lambda: {one.body for one in asker.on(model.answers)} == wanted, what=model.log)
    reasons = [line["reason"] for line in model.log() if line["event"] == "bus.noted"]
    assert reasons == ["answer given up: its publication ends the connection"]
    assert model.stop(model.processes[1]) == 0
    model.serve(config)
    model.wait_for_event("daemon.serving", 3)
    lost = model.events().count("bus.unavailable")
    asker.ask(model.queries, b'{"id":"after","x":[0.5,0.5]}')
    eventually(lambda: any(one.json["id"] == "after" for one in asker.on(model.answers)), what=model.log)
    assert model.events().count("bus.unavailable") == lost


def test_drill_deep_response_topics_go_to_the_answer_topic(model: MqttModelUnderTest):
    """By default no topic that Mosquitto would end the connection for is published to: it never loses the daemon."""
    model.serve(model.config())
    model.wait_for_event("bus.connected")
    asker = model.asker(f"{model.name}/#")
    base = f"{model.name}/replies/"
    deep, long = base + "/".join("x" * 250), base + "y" * 60_000
    fits = base + "/".join("z" * (128 - base.count("/")))
    odd = [deep, long, base + "/" * 250, fits + "/z"]
    for reply in [*odd, fits]:
        asker.ask(model.queries, bodies(1)[0], reply=reply, correlation=reply.encode()[:200])
    eventually(lambda: len(asker.on(model.answers)) == 4 and asker.on(fits), what=model.log)
    assert model.events().count("bus.connected") == 1
