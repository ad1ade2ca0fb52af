"""The daemon's log: public facts in a closed vocabulary, and nothing of a query or an answer."""

import datetime as dt
import io
import json
import re

import pytest

from oracle.telemetry.log import FIELDS, PublicLog

_COUNT = 900  # two phases end within


def _lines(output):
    return [json.loads(line) for line in output.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        ("query.answered", {}),
        ("daemon.serving", {"label": 1}),
        ("daemon.serving", {"x": 0.5}),
        ("daemon.serving", {"depth": 3}),
        ("daemon.serving", {"round": 1, "mediums": 2}),
        ("daemon.serving", {"exc_info": 1}),
    ],
)
@pytest.mark.parametrize("level", ["info", "warning", "error"])
def test_log_refuses_what_is_not_in_its_vocabulary(level, event, fields):
    """An unlisted event or field raises and writes nothing."""
    output = io.StringIO()
    log = PublicLog(output, "json", "m")
    with pytest.raises(KeyError, match="closed vocabulary"):
        getattr(log, level)(event, **fields)
    assert output.getvalue() == ""


def test_vocabulary_has_no_private_word():
    """No field's name says label, feature, query, depth, medium, size or id."""
    private = ("label", "feature", "query", "depth", "medium", "point", "size", "id", "x", "body", "header")
    assert not FIELDS & set(private)


@pytest.mark.parametrize("layout", ["json", "text"])
def test_log_layouts(layout):
    """Both layouts put one event on one line with its model; text to a file has no colour codes."""
    output = io.StringIO()
    PublicLog(output, layout, "m").info("phase.started", phase=3, round=17)
    (line,) = output.getvalue().splitlines()
    assert "\x1b" not in line
    if layout == "json":
        fields = json.loads(line)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", fields.pop("timestamp"))
        assert fields == {"event": "phase.started", "level": "info", "model": "m", "phase": 3, "round": 17}
    else:
        assert all(part in line for part in ("phase.started", "phase=3", "round=17", "model=m"))
        assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ", line)


def test_log_lines_tell_whole_seconds(monkeypatch):
    """Between two lines of one second nothing can be measured, and the second is not rounded up."""

    class _Late(dt.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 11, 21, 23, 59, 59, 999_999, tz)

    monkeypatch.setattr(dt, "datetime", _Late)
    output = io.StringIO()
    PublicLog(output, "json", "m").info("daemon.recovered", seconds=1.0)
    assert json.loads(output.getvalue())["timestamp"] == "2026-11-21T23:59:59Z"
