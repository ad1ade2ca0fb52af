"""Settings that the brokers do not take: refused with their own names, instead of being tried for ever."""

import pytest

from oracle.errors import RefusedError
from tests.support.kafka_here import serve_here


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"transaction_seconds": 1000.0}, r"sink.transaction_seconds is above the brokers' transaction.max.timeout.ms"),
        (
            {"session_seconds": 2000.0},
            "source.session_seconds is not between the brokers' group.min.session.timeout.ms",
        ),
    ],
)
def test_times_that_the_brokers_do_not_take_are_refused(model, settings, said):
    """A transaction or a session that may last longer than the brokers allow ends the daemon with the reason."""
    with pytest.raises(RefusedError, match=said):
        serve_here(model.config(), lambda _log: False, **settings)
