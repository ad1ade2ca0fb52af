"""TLS to a broker: what every bus is told about it, and the context made of it."""

import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from connectors.secret_files import open_secret, read_secret
from oracle.errors import InputError, RefusedError

__all__ = ["Tls", "secured", "tls_context"]


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS to the brokers.

    Attributes:
        ca_file: Certificates to trust (PEM); None for the system's.
        certificate_file: Our own certificate (PEM), where brokers ask for one.
        key_file: Its private key (PEM).
        key_password: What the private key is encrypted with.
        check_hostname: Whether the broker's certificate must name its host.
        key_password_file: Holds the key's password; it is read anew for each context, and goes before `key_password`.
    """

    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    key_password_file: Path | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        """All that a context is made of."""
        named = (self.ca_file, self.certificate_file, self.key_file, self.key_password_file)
        return tuple(path for path in named if path is not None)


def tls_context(tls: Tls, table: str) -> ssl.SSLContext:
    """Return the context; `table` is what the user calls its settings.

    Raises:
        RefusedError: One of the files cannot be used, or others can read the private key.
        StorageError: The key's password cannot be read.
    """
    password = tls.key_password
    if tls.key_password_file is not None:
        password = read_secret(f"{table}.key_password_file", tls.key_password_file)
    with_key = "certificate_file" if tls.key_file is None else "key_file"
    for name in ("ca_file", "certificate_file", "key_file"):
        _refuse_unfit(f"{table}.{name}", getattr(tls, name), secret=name == with_key)
    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
        if tls.certificate_file is not None:
            context.load_cert_chain(tls.certificate_file, tls.key_file, password or "")
    except OSError as exc:  # an ssl.SSLError is one
        reason = exc.reason if isinstance(exc, ssl.SSLError) else exc.strerror
        raise RefusedError(f"{table}: its files cannot be used: {reason}") from exc
    context.check_hostname = tls.check_hostname
    return context


def _refuse_unfit(field: str, path: Path | None, *, secret: bool) -> None:
    """Refuse a file that cannot be opened by its own name, as the context would not say which one it is."""
    if path is None:
        return
    try:
        if secret:
            open_secret(field, path).close()
        else:
            path.open("rb").close()
    except OSError as exc:
        raise InputError(field, str(path), f"cannot be read: {exc.strerror}") from exc


def secured(context: ssl.SSLContext, plain: socket.socket, host: str, seconds: float) -> ssl.SSLSocket:
    """Return a connected socket with TLS on it, after the handshake; close it if that fails.

    Raises:
        OSError: The handshake failed, or took longer than so many seconds.
    """
    wrapped = context.wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False)
    try:
        wrapped.settimeout(seconds)
        wrapped.do_handshake()
    except BaseException:
        wrapped.close()
        raise
    return wrapped
