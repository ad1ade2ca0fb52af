"""A gateway before a daemon that answers over HTTP, which does not hear what the daemon says to the first question."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

ANSWER = b'{"id":"a","label":1,"model":"vfr","round":0,"phase":1}'


@contextmanager
def gateway(status: int) -> Iterator[tuple[str, list[str | None]]]:
    """Say `status` to the first question and `ANSWER` to all others; lend the URL and the keys that came."""
    keys: list[str | None] = []

    class Gateway(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._say(404, b"{}")

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            keys.append(self.headers["Idempotency-Key"])
            first = len(keys) == 1
            self._say(status if first else 200, b"{}" if first else ANSWER)

        def log_message(self, *_args: object) -> None:
            """Say nothing."""

        def _say(self, code: int, body: bytes) -> None:
            self.send_response(code)
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
