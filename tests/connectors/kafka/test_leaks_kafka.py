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


@pytest.mark.slow
@pytest.mark.long
def test_nothing_shows_beside_another_model(broker, tmp_path, group):
    """Nor where the process serves another model too: of that one everything is the same, whatever is hidden here."""
    pair = equal_pair("rectangles", "query")
    seen = [
        on_kafka.sight(pair, which, tmp_path / str(which), broker, f"{group}-{which}", beside=True) for which in (0, 1)
    ]
    assert {one.channel: one for one in compare(*seen)} == {}
    assert any('"model":"other"' in line or '"other"' in line for line in seen[0].channels["log"])
