"""What the link tells, in the log's closed vocabulary."""

import io
import itertools
import json
import logging
from typing import Any

from oracle.errors import BusError, RefusedError
from oracle.hosting.mqtt import LoggingObserver
from oracle.telemetry.client_logs import LibraryLog
from oracle.telemetry.log import PublicLog
from oracle.telemetry.reporter import Reporter
from oracle.telemetry.states import State
from tests.support.shards import small_plan


def test_notes_are_told_once_in_a_while_and_troubles_are_passed_on():
    """The same words come at most once in ten seconds; others at once; a lost connection goes to who counts them."""
    stream, now = io.StringIO(), [0.0]
    log = PublicLog(stream, "json", "m")
    reporter = Reporter(small_plan(), log)
    reporter.serving()
    observer = LoggingObserver(log, reporter, lambda: now[0])
    observer.connected()
    for seconds in (0.0, 9.0, 10.5):
        now[0] = seconds
        observer.noted("journal full")
    observer.noted("dropped at QoS 0")
    observer.given_up("answer cannot be sent")
    observer.given_up("answer cannot be sent")
    observer.lost(BusError("broker h:1: no answer in time"))
    assert reporter.telemetry.state is State.WAITING
    observer.refused(RefusedError("broker h:1: refuses us"))
    assert (reporter.telemetry.state, reporter.telemetry.refusal) == (State.REFUSED, "broker h:1: refuses us")
    observer.connected()
    assert (reporter.telemetry.state, reporter.telemetry.refusal) == (State.SERVING, None)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()][1:]
    assert [(line["event"], line.get("reason"), line["level"]) for line in lines] == [
        ("bus.connected", None, "info"),
        ("bus.noted", "journal full", "warning"),
        ("bus.noted", "journal full", "warning"),
        ("bus.noted", "dropped at QoS 0", "warning"),
        ("bus.noted", "answer cannot be sent", "warning"),
        ("bus.unavailable", None, "warning"),
        ("bus.refused", None, "error"),
        ("bus.connected", None, "info"),
    ]
    assert (reporter.telemetry.bus_failures, reporter.telemetry.undelivered) == (2, 2)


def test_the_clients_own_lines_tell_the_kinds_of_errors_and_no_text():
    """Paho hands the error over as an argument, others as a traceback; a text, which may be private, is never shown."""
    stream = io.StringIO()
    handler, logger = LibraryLog(PublicLog(stream, "json", "m"), clock=itertools.count(0, 60).__next__), "a"
    given: list[tuple[Any, ...]] = [
        ("failed on socket: %s", (ConnectionResetError("secret"),), None),
        ("secret %s", ("secret",), None),
    ]
    given.append(("secret", (), (KeyError, KeyError("secret"), None)))
    for text, arguments, info in given:
        handler.emit(logging.LogRecord(logger, logging.ERROR, "secret", 1, text, arguments, info))
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["reason"] for line in lines] == ["error (ConnectionReset)", "error", "error (Key)"]
    assert "secret" not in stream.getvalue()
