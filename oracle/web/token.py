"""The bearer token that requests must carry, from a private file."""

import hmac
import re
from pathlib import Path
from typing import Final

from oracle.errors import InputError
from oracle.state.files import read_private

__all__ = ["is_shown", "read_token"]

_READ_LIMIT: Final = 4096
_SHORTEST: Final = 16
"""Characters; shorter ones could be guessed."""

_TOKEN: Final = re.compile(rb"[A-Za-z0-9._~+/-]+=*")
"""Tokens that fit the header (RFC 6750, section 2.1)."""


def read_token(path: Path) -> bytes:
    """Return the token: the file's one line.

    Raises:
        InputError: The file is missing, readable by others, or holds no token of 16 characters or more.
    """
    try:
        text = read_private(path, _READ_LIMIT)
    except OSError as exc:
        raise InputError("web.token_file", str(path), exc.strerror or "cannot be read") from exc
    token = text.rstrip(b"\r\n")
    if not _TOKEN.fullmatch(token):
        bound = "must contain one token on one line: letters, digits and ._~+/-, optionally = at the end"
        raise InputError("web.token_file", str(path), bound)
    if len(token) < _SHORTEST:
        raise InputError("web.token_file", str(path), f"must contain a token of at least {_SHORTEST} characters")
    return token


def is_shown(token: bytes, authorization: bytes) -> bool:
    """Return whether an Authorization header holds the token, in constant time."""
    scheme, _, given = authorization.partition(b" ")
    return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), token)
