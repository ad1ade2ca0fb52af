"""A client of a daemon that has forgotten an answer."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import oracle
from oracle.errors import RefusedError
from tests.support.waiting import TIMEOUT


class _Forgetful(BaseHTTPRequestHandler):
    """Takes each question in, and knows none."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._say(202, b"{}", "/v1/answers/01")

    def do_GET(self) -> None:
        self._say(404, b'{"message":"its answer is no longer kept"}', "")

    def _say(self, status: int, body: bytes, where: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Location", where)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def forgetful() -> Iterator[str]:
    """The URL of a daemon that keeps no answer."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Forgetful) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_an_answer_that_is_no_longer_kept_is_not_waited_for(forgetful):
    """Its question was answered, and so many after it that the daemon has dropped the answer: who waits is told."""
    with (
        oracle.SyncClient(oracle.Client.http(forgetful, "t")) as client,
        pytest.raises(RefusedError, match="404: its answer is no longer kept"),
    ):
        client.ask({"x": [1]}, TIMEOUT)
