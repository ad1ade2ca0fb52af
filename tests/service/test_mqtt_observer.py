"""What the link tells, in the log's closed vocabulary."""

import io
import json

from oracle.errors import BusError
from oracle.service.log import PublicLog
from oracle.service.mqtt import LoggingObserver


def test_notes_are_told_once_in_a_while_and_troubles_are_passed_on():
    """The same words come at most once in ten seconds; others at once; a lost connection goes to who counts them."""
    stream, now = io.StringIO(), [0.0]
    troubles: list[BusError] = []
    observer = LoggingObserver(PublicLog(stream, "json", "m"), troubles.append, lambda: now[0])
    observer.connected()
    for seconds in (0.0, 9.0, 10.5):
        now[0] = seconds
        observer.noted("journal full")
    observer.noted("dropped at QoS 0")
    error = BusError("broker h:1: no answer in time")
    observer.lost(error)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["event"], line.get("reason")) for line in lines] == [
        ("bus.connected", None),
        ("bus.noted", "journal full"),
        ("bus.noted", "journal full"),
        ("bus.noted", "dropped at QoS 0"),
    ]
    assert troubles == [error]
