"""The ids of answers to events: one for each place of each log of each state, and the same one whenever it is made."""

import itertools
import re

from connectors.events import AnswerIds, source_of


def test_no_two_answers_have_one_id():
    """Another state, topic, partition or position is another id; what is joined otherwise is too."""
    places = itertools.product([b"", b"a", b"b"], [("q",), ("q", 0), ("q", 1), ("q0",), ("r", 0)], range(50))
    made = [AnswerIds(secret, *log).of(position) for secret, log, position in places]
    assert len(set(made)) == len(made) == 750
    assert all(re.fullmatch(rb"[0-9a-f]{32}", one) for one in made)
    assert AnswerIds(b"a", "q", 1).of(7) == AnswerIds(b"a", "q", 1).of(7)


def test_a_source_is_a_reference():
    """Whatever a model's name has."""
    assert source_of("a b/\u00e9?#") == "/perpetua/a%20b%2F%C3%A9%3F%23"
