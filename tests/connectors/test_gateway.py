"""Questions over HTTP through a gateway that does not always hear what the daemon says."""

import asyncio
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from connectors.desk.asking import HttpAsker

_ANSWER = b'{"id":"a","label":1,"model":"vfr","round":0,"phase":1}'


@pytest.mark.parametrize("status", [502, 503, 504])
async def test_a_question_that_a_gateway_lost_is_handed_in_again_as_the_same(status):
    """And is not refused: the daemon may have it, and who asks anew would take a second round."""
    keys: list[str | None] = []

    class Gateway(BaseHTTPRequestHandler):
        def do_GET(self):
            self._say(404, b"{}")

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            keys.append(self.headers["Idempotency-Key"])
            self._say(status if len(keys) == 1 else 200, b"{}" if len(keys) == 1 else _ANSWER)

        def log_message(self, *_args):
            """Say nothing."""

        def _say(self, code, body):
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    answers = []
    with HTTPServer(("127.0.0.1", 0), Gateway) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        asker = HttpAsker(f"http://127.0.0.1:{server.server_port}", "token")
        try:
            await asker.open(lambda correlation, body: answers.append((correlation, body)), lambda _error: None)
            assert await asyncio.wait_for(asker.send(b"key", b"{}"), 20)
        finally:
            await asker.close()
            server.shutdown()
            serving.join()
    assert keys == ["key", "key"]
    assert answers == [(b"key", _ANSWER)]
