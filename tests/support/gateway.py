"""A gateway before a daemon that answers over HTTP, which does not tell what the daemon says to the first question."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

ANSWER = b'{"id":"a","label":1,"model":"vfr","round":0,"phase":1}'


@contextmanager
def gateway(status: int | None, then: int = 200, where: str = "") -> Iterator[tuple[str, list[str | None]]]:
    """Say one thing to the first question, and another to all others; lend the URL and the keys that came.

    Args:
        status: To the first one; None to say nothing, and end the connection.
        then: To the others; with 200 comes `ANSWER`, with any other status a refusal.
        where: `Location` of what is said to the others.
    """
    keys: list[str | None] = []

    class Gateway(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._say(404, b"{}")

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            keys.append(self.headers["Idempotency-Key"])
            if len(keys) > 1:
                self._say(then, ANSWER if then == 200 else b'{"message":"no"}', where)
            elif status is not None:
                self._say(status, b"{}")
            else:
                self.close_connection = True

        def log_message(self, *_args: object) -> None:
            """Say nothing."""

        def _say(self, code: int, body: bytes, where: str = "") -> None:
            self.send_response(code)
            self.send_header("Location", where)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with HTTPServer(("127.0.0.1", 0), Gateway) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", keys
        finally:
            server.shutdown()
            serving.join()
