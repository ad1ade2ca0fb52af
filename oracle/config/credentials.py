"""Secrets of a configuration, read from the files that it names."""

from pathlib import Path

from connectors.secret_files import read_again, read_secret
from connectors.tls import Tls
from oracle.config.tls import TlsConfig

__all__ = ["secret_of", "tls_of"]


def secret_of(field: str, path: Path | None) -> str | None:
    """Return what stands in a file, without the newline at its end; None if no file is named.

    Raises:
        StorageError: It cannot be read.
        InputError: It is not UTF-8, or others can read it.
    """
    return None if path is None else read_secret(field, path)


def tls_of(table: TlsConfig | None, name: str) -> Tls | None:
    """Return what a connector is told about TLS.

    Raises:
        StorageError: The key's password cannot be read.
        InputError: Others can read it.
    """
    if table is None:
        return None
    password = secret_of(f"{name}.key_password_file", table.key_password_file)
    return Tls(
        table.ca_file,
        table.certificate_file,
        table.key_file,
        password,
        table.check_hostname,
        read_again(table.key_password_file),
    )
