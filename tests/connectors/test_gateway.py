"""Questions over HTTP through a gateway that does not always hear what the daemon says."""

import asyncio

import pytest

from connectors.desk.asking import HttpAsker
from tests.support.gateway import ANSWER, gateway


@pytest.mark.parametrize("status", [502, 503, 504])
async def test_a_question_that_a_gateway_lost_is_handed_in_again_as_the_same(status):
    """And is not refused: the daemon may have it, and who asks anew would take a second round."""
    answers = []
    with gateway(status) as (url, keys):
        asker = HttpAsker(url, "token")
        try:
            await asker.open(lambda correlation, body: answers.append((correlation, body)), lambda _error: None)
            assert await asyncio.wait_for(asker.send(b"key", b"{}"), 20)
        finally:
            await asker.close()
    assert keys == ["key", "key"]
    assert answers == [(b"key", ANSWER)]
