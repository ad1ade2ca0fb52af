"""The leak test (`tests/leaks/test_leaks.py`) on a real broker: of labels, of values, and of a table's rows.

Stumps and classical predictors are answered for as boxes are, label by label; `tests/leaks` runs them over files.
"""

import pytest

from tests.leaks import on_kafka
from tests.leaks.pairs import equal_pair
from tests.leaks.sightings import compare


@pytest.mark.slow
@pytest.mark.parametrize(
    ("subject", "kind"),
    [
        ("rectangles", "label"),
        ("ensemble", "query"),
        ("bisection", "query"),
        ("statistics, marginals", "training row"),
    ],
)
def test_nothing_shows_on_kafka(subject, kind, broker, tmp_path, group):
    """Topics, offsets, headers, log, metrics and pages are the same, but for what the hidden record may change."""
    pair = equal_pair(subject, kind)
    seen = [on_kafka.sight(pair, which, tmp_path / str(which), broker, f"{group}-{which}") for which in (0, 1)]
    assert {one.channel: one for one in compare(*seen)} == {}
    assert len(seen[0].channels["answers"]) == len(pair.worlds[0].messages)
    assert seen[0].channels.keys() >= {"ledger", "dead", "log", "metrics", "status", "files", "snapshot headers"}
