"""A reply topic that takes no answers costs those who named it theirs, and nobody else anything."""

import signal
import time

import pytest

from tests.support.kafka import wait_until
from tests.support.shards import bodies

_LARGE = {"max.message.bytes": "20000000"}


class Askers:
    """A model with two reply topics, and its daemon."""

    def __init__(self, model, *, made=("good", "bad")):
        self.model = model
        for name in made:
            model.broker.create_topic(self.topic(name), 1, _LARGE)
        allowed = f'reply_topics = ["{self.topic("good")}", "{self.topic("bad")}"]'
        self.daemon = model.serve(model.config(sink=allowed, extra="[web]\nport = 0\n"))
        self.asked: list[tuple[str | None, bytes]] = []

    def topic(self, name):
        """Return a reply topic's name."""
        return f"{self.model.name}.{name}"

    def ask(self, count, seed, names=("good", "bad", None), *, keyed=False):
        """Ask so many queries in turn of each asker; None names no reply topic."""
        for number, body in enumerate(bodies(count, seed)):
            name = names[number % len(names)]
            self.asked.append((name, body))
            headers = [] if name is None else [("reply-topic", self.topic(name).encode())]
            self.model.ask([body], headers=headers, key=b"k" * 3000 if keyed else None)

    def expected(self, name):
        """Return the answers that an asker is to get: those of an uninterrupted run in which all topics are good."""
        answers = self.model.expected([body for _, body in self.asked])
        return [answer for (asker, _), answer in zip(self.asked, answers, strict=True) if asker == name]

    def wait_for_others(self):
        """Wait until everybody but the asker of the bad topic has all answers, once each, byte for byte."""
        for name in ("good", None):
            topic = self.model.answers if name is None else self.topic(name)
            wait_until(lambda t=topic, n=name: len(self.model.read(t)) >= len(self.expected(n)))
            assert [answer.value for answer in self.model.read(topic)] == self.expected(name)

    def letters(self):
        """Return the notes on answers that were given up."""
        return [letter.body for letter in self.model.read(f"{self.model.name}.dead")]

    def told(self):
        """Return the texts of the log's lines about reply topics."""
        return [line["error"] for line in self.model.log() if line.get("event") == "answers.undelivered"]

    def stop(self):
        """Stop the daemon, which has never had to begin anew."""
        self.daemon.send_signal(signal.SIGTERM)
        assert self.daemon.wait(30) == 0
        assert self.model.events().count("daemon.recovered") == 1
        assert "bus.unavailable" not in self.model.events()


def test_a_reply_topic_deleted_while_it_runs_costs_its_asker_only(model):
    """All others get all answers; what was given up is noted, counted and named; made anew, it is answered again."""
    askers = Askers(model)
    askers.ask(9, 1)
    askers.wait_for_others()
    wait_until(lambda: len(model.read(askers.topic("bad"))) >= 3)
    model.broker.delete_topic(askers.topic("bad"))
    before = len(askers.asked)
    askers.ask(12, 2)
    askers.wait_for_others()
    wait_until(lambda: len(askers.letters()) == 4)
    for letter in askers.letters():
        assert letter["reason"] == "undelivered"
        assert letter["reply_topic"] == askers.topic("bad")
        assert (letter["topic"], letter["partition"]) == (model.queries, 0)
        assert askers.asked[letter["offset"]][0] == "bad"
        assert letter["offset"] >= before
        assert letter["size"] == len(askers.asked[letter["offset"]][1])
    assert any(f"topic {askers.topic('bad')}: it does not exist" in text for text in askers.told())
    assert askers.topic("bad") not in model.broker.topics()
    model.broker.create_topic(askers.topic("bad"), 1, _LARGE)
    time.sleep(1.1)  # for so long a look counts
    askers.ask(9, 3)
    askers.wait_for_others()
    wait_until(lambda: len(model.read(askers.topic("bad"))) >= 3)
    assert [answer.value for answer in model.read(askers.topic("bad"))] == askers.expected("bad")[-3:]
    askers.stop()


def test_a_reply_topic_that_was_never_made_does_not_stop_a_start(model):
    """The daemon serves all others, and says which topic is missing; `perpetua topics` calls it wrong."""
    askers = Askers(model, made=("good",))
    askers.ask(9, 1)
    askers.wait_for_others()
    wait_until(lambda: len(askers.letters()) == 3)
    assert f"topic {askers.topic('bad')}: it does not exist" in askers.told()[0]
    askers.stop()


_REFUSES = {
    "too small for the marker of a transaction's end": {"max.message.bytes": "70"},
    "too small for an answer with a long key": {"max.message.bytes": "2000"},
    "compacted, and answers have no key": {"cleanup.policy": "compact"},
    "more copies in sync than there are": {"min.insync.replicas": "2"},
}


@pytest.mark.parametrize("how", _REFUSES)
def test_a_reply_topic_that_refuses_records_costs_its_asker_only(model, how):
    """What only shows when it is written to: the transaction is begun again without it, and it is left alone."""
    askers = Askers(model)
    askers.ask(6, 1)
    askers.wait_for_others()
    model.broker.configure_topic(askers.topic("bad"), _REFUSES[how])
    askers.ask(30, 2, keyed="key" in how and "no key" not in how)
    askers.wait_for_others()
    wait_until(lambda: len(askers.letters()) == 10)
    assert {letter["reply_topic"] for letter in askers.letters()} == {askers.topic("bad")}
    assert askers.topic("bad") in askers.told()[0]
    askers.stop()
