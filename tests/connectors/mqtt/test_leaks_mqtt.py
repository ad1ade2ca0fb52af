"""Nothing private is in sight where a model is served over MQTT: topics, journals, log, metrics and pages."""

import pytest

from tests.leaks import on_mqtt
from tests.leaks.pairs import equal_pair
from tests.leaks.sightings import compare
from tests.leaks.worlds import CHUNK


@pytest.mark.slow
@pytest.mark.parametrize(("subject", "kind"), [("rectangles", "query"), ("sparse vector, spent", "training row")])
def test_nothing_shows_on_mqtt(subject, kind, tmp_path):
    """Two neighbouring worlds, in which one record differs, publish, journal and say the same, up to times."""
    pair = equal_pair(subject, kind).cut(2 * CHUNK)
    seen = [on_mqtt.sight(pair, which, tmp_path / str(which)) for which in (0, 1)]
    assert compare(*seen) == []
    assert len(seen[0].channels["answers"]) == 2 * CHUNK
    assert seen[0].channels.keys() >= {"metrics", "status", "log", "files", "leaks/ledger", "snapshot headers"}
    left, right = (run.private[0] for run in seen)
    assert any(left[name].tobytes() != right[name].tobytes() for name in left)
