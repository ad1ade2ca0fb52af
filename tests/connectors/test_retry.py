"""Trying again: how long it pauses, how often it tries, and when it gives up."""

import asyncio

import pytest

from connectors.retry import Backoff, retry


def test_pauses_double_up_to_the_longest_and_each_is_at_least_half_of_its_length():
    """A long success, or `reset`, begins with the first pause again."""
    backoff = Backoff(1.0, 4.0)
    for lasted, longest in [(0.0, 1.0), (4.0, 2.0), (0.0, 4.0), (0.0, 4.0), (4.1, 1.0), (0.0, 2.0)]:
        assert longest / 2 <= backoff.pause(lasted) < longest
    backoff.reset()
    assert backoff.pause() < 1.0


def test_pauses_differ():
    """Else all clients of a broker would come back together."""
    assert len({Backoff().pause() for _ in range(20)}) > 1


def _failing(times, error):
    """Return (attempt, tries): it fails so many times."""
    tries = []

    async def attempt():
        tries.append(1)
        await asyncio.sleep(0)
        if len(tries) <= times:
            raise error
        return "done"

    return attempt, tries


async def test_it_tries_until_it_succeeds_and_tells_of_each_failure():
    """The result is that of the try that succeeded."""
    attempt, tries = _failing(3, OSError("no"))
    told: list[OSError] = []
    assert await retry(attempt, OSError, backoff=Backoff(0.001, 0.002), on_failure=told.append) == "done"
    assert len(tries) == 4
    assert list(map(str, told)) == ["no"] * 3


@pytest.mark.parametrize(("error", "seconds"), [(OSError(), -1.0), (ValueError(), 60.0)])
async def test_it_raises_when_the_time_is_over_or_the_error_is_not_one_that_passes(error, seconds):
    """Nobody is told: the caller knows."""
    attempt, tries = _failing(9, error)
    told: list[OSError] = []
    with pytest.raises(type(error)):
        await retry(attempt, OSError, seconds=seconds, on_failure=told.append)
    assert (len(tries), told) == (1, [])
