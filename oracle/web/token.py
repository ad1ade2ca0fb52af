"""The bearer token that requests must carry, from a private file."""

import hmac
import re
from pathlib import Path
from typing import Final

from oracle.errors import InputError
from oracle.state.files import read_private

__all__ = ["is_shown", "read_token", "read_tokens", "shown"]

_READ_LIMIT: Final = 4096
_LONG_LIMIT: Final = 1 << 20
_SHORTEST: Final = 16
"""Characters; shorter ones could be guessed."""

_TOKEN: Final = re.compile(rb"[A-Za-z0-9._~+/-]+=*")
"""Tokens that fit the header (RFC 6750, section 2.1)."""


def read_token(path: Path) -> bytes:
    """Return the token: the file's one line.

    Raises:
        InputError: The file is missing, readable by others, or holds no token of 16 characters or more.
    """
    token = _text("web.token_file", path, _READ_LIMIT).rstrip(b"\r\n")
    _check("web.token_file", path, token)
    return token


def read_tokens(path: Path) -> list[bytes]:
    """Return tokens: one on each line of a file, empty lines left out.

    Raises:
        InputError: The file is missing, readable by others, or holds no tokens of 16 characters or more, or one twice.
    """
    name = "http.tokens_file"
    tokens = list(filter(None, _text(name, path, _LONG_LIMIT).splitlines()))
    for token in tokens or [b""]:
        _check(name, path, token)
    if len(set(tokens)) < len(tokens):
        raise InputError(name, str(path), "must contain a token once: each asker has one of its own")
    return tokens


def _text(name: str, path: Path, limit: int) -> bytes:
    try:
        return read_private(path, limit)
    except OSError as exc:
        raise InputError(name, str(path), exc.strerror or "cannot be read") from exc


def _check(name: str, path: Path, token: bytes) -> None:
    if not _TOKEN.fullmatch(token):
        bound = "must contain one token on one line: letters, digits and ._~+/-, optionally = at the end"
        raise InputError(name, str(path), bound)
    if len(token) < _SHORTEST:
        raise InputError(name, str(path), f"must contain a token of at least {_SHORTEST} characters")


def shown(authorization: bytes) -> bytes | None:
    """Return the token that an Authorization header holds; None if it holds none."""
    scheme, _, given = authorization.partition(b" ")
    return given.strip() if scheme.lower() == b"bearer" else None


def is_shown(token: bytes, authorization: bytes) -> bool:
    """Return whether an Authorization header holds the token, in constant time."""
    given = shown(authorization)
    return given is not None and hmac.compare_digest(given, token)
