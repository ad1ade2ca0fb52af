"""What a test's process has printed, but for what others print there."""

import pytest

__all__ = ["printed"]


def printed(capfd: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Return what was printed since the last look.

    A Kafka client of an earlier test may still say, in a thread of its own, that its topic is gone.
    """
    output, error = capfd.readouterr()
    return output, "".join(line for line in error.splitlines(keepends=True) if "|rdkafka#" not in line)
