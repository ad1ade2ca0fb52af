"""Questions over HTTP through a gateway that does not always hear what the daemon says."""

import asyncio

import pytest

import oracle
from connectors.desk.asking import HttpAsker
from oracle.errors import BusError, RefusedError, UnansweredError
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


@pytest.mark.parametrize("status", [None, 502])
async def test_a_refusal_behind_a_try_that_may_have_been_taken_is_no_refusal(status):
    """It says nothing of the first try, so it is told that nobody knows; a first refusal is one."""
    with gateway(status, then=401) as (url, _):
        async with oracle.Client.http(url, "token") as client:
            question = await client.send({"x": [1]})
            with pytest.raises(UnansweredError, match="401: no; an earlier try may have been taken: then the question"):
                await question.answer(20)
            assert question.written is None
            with pytest.raises(RefusedError, match=r"401: no$"):
                await client.ask({"x": [1]}, 20)


@pytest.mark.parametrize("where", ["", "@example.org/x", "//example.org/v1/answers/01", "/v1/answers/01/..", "/v1/ask"])
async def test_answers_are_fetched_from_the_daemon_only(where):
    """A place that is no answer's is not gone to, with the token at that."""
    with gateway(502, then=202, where=where) as (url, _):
        async with oracle.Client.http(url, "token") as client:
            question = await client.send({"x": [1]})
            with pytest.raises(BusError, match="202: it does not answer as a daemon does"):
                await question.answer(20)
            assert question.written
