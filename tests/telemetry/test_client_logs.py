"""What libraries log: which part of them, the text as it stands in their code, and names of errors; no value."""

import io
import json
import logging

from oracle.telemetry.client_logs import LibraryLog, hear_client
from oracle.telemetry.log import PublicLog

_VALUE = "0.123 private"


def said(talk):
    """Return the log lines that come of what a library says."""
    stream = io.StringIO()
    logger = logging.getLogger("library.part")
    hear_client(LibraryLog(PublicLog(stream, "json", "m")), ["library.part"])
    talk(logger)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_text_is_told_without_its_values():
    """What it is said of may be private; the names of errors are not."""
    (line,) = said(lambda logger: logger.warning("Unable to reach %s at %r: %s", _VALUE, 17, OSError(_VALUE)))
    assert line["kind"] == "library.part"
    assert line["reason"] == "Unable to reach ... at ...: OS"


def test_an_error_that_is_logged_with_its_trace_is_named():
    """As the library met it, without its text."""

    def fail():
        raise ConnectionResetError(_VALUE)

    def talk(logger):
        try:
            fail()
        except ConnectionResetError:
            logger.exception("Sender has died")

    (line,) = said(talk)
    assert line["reason"] == "Sender has died (ConnectionReset)"


def test_a_text_that_was_put_together_is_not_told():
    """It may hold anything; its weight is all that is public."""
    (line,) = said(lambda logger: logger.error(f"Got {_VALUE}"))  # noqa: G004 -- as libraries do
    assert line["reason"] == "error"
    (line,) = said(lambda logger: logger.error(_VALUE + " %s", "x"))  # noqa: G003 -- as libraries do
    assert line["reason"] == "error"
