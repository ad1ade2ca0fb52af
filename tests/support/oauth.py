"""An authority of bearer tokens for tests: signs them, publishes its key as a broker reads it, and answers clients."""

import base64
import contextlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote_plus

import uvicorn
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.support.waiting import eventually

ISSUER: Final = "https://authority.example"
AUDIENCE: Final = "kafka"


class TokenAuthority:
    """Signs tokens (RS256) for clients that it knows by their secrets (RFC 6749, section 4.4).

    Attributes:
        keys: The file of its public key, as a JWK set.
        clients: Secrets by client.
        life: Seconds that a token is good for.
        given: How many tokens were given out over HTTP.
        failed: How often it has failed instead.
        failing: A status and a body for all that ask; None to answer.
    """

    def __init__(self, folder: Path, life: int = 3600) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._id = secrets.token_hex(8)
        self.keys = folder / "keys.json"
        numbers = self._key.public_key().public_numbers()
        names = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": self._id}
        public = names | {"n": _encoded(_bytes(numbers.n)), "e": _encoded(_bytes(numbers.e))}
        self.keys.write_text(json.dumps({"keys": [public]}))
        self.clients: dict[str, str] = {}
        self.life = life
        self.given = self.failed = 0
        self.failing: tuple[int, Any] | None = None

    def token(self, subject: str, *, life: float | None = None, audience: str = AUDIENCE) -> str:
        """Return a signed token (RFC 7519) that is good for so many seconds; below 0 it has expired."""
        now = int(time.time())
        end = now + int(self.life if life is None else life)
        claims = {"iss": ISSUER, "aud": audience, "sub": subject, "iat": min(now, end) - 1, "exp": end}
        claims |= {"scope": "kafka", "jti": secrets.token_hex(8)}
        parts = [{"alg": "RS256", "typ": "JWT", "kid": self._id}, claims]
        signed = ".".join(_encoded(json.dumps(part).encode()) for part in parts)
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_encoded(signature)}"

    async def _answer(self, request: Request) -> Response:
        if self.failing is not None:
            self.failed += 1
            return JSONResponse(self.failing[1], self.failing[0])
        scheme, _, proof = request.headers.get("authorization", "").partition(" ")
        name, _, secret = base64.b64decode(proof).decode().partition(":")
        name, secret = unquote_plus(name), unquote_plus(secret)
        if scheme != "Basic" or self.clients.get(name) != secret:
            return JSONResponse({"error": "invalid_client"}, 401)
        form = await request.body()
        if b"grant_type=client_credentials" not in form:
            return JSONResponse({"error": "unsupported_grant_type"}, 400)
        self.given += 1
        return JSONResponse({"access_token": self.token(name), "token_type": "Bearer", "expires_in": self.life})

    @contextlib.contextmanager
    def served(self, certificate: Path) -> Iterator[str]:
        """Answer over HTTPS on this machine, and lend the address."""
        app = Starlette(routes=[Route("/oauth/token", self._answer, methods=["POST"])])
        settings = uvicorn.Config(app, port=0, log_config=None, lifespan="off", ssl_certfile=certificate)
        server = uvicorn.Server(settings)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        try:
            eventually(lambda: server.started)
            yield f"https://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/oauth/token"
        finally:
            server.should_exit = True
            thread.join()


def _bytes(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
