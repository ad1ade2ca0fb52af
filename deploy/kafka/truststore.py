#!/usr/bin/env python3
"""Writes a truststore for Java of the certificates that this machine's OpenSSL trusts: `truststore.py FILE`.

Java has a list of its own, and an authority that was added to the machine's list is often missing in it. Needs the
package `cryptography`.
"""

import ssl
import sys
import warnings
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

__all__ = ["PASSWORD", "write_truststore"]

PASSWORD = "changeit"  # noqa: S105 -- Java's own; nothing in it is secret


def write_truststore(path: Path) -> None:
    """Write the truststore, PKCS 12.

    Raises:
        OSError: The machine has no list, or the file cannot be written.
    """
    bundle = ssl.get_default_verify_paths().cafile
    if bundle is None:
        raise FileNotFoundError("this machine has no list of trusted certificates")
    with warnings.catch_warnings(action="ignore"):  # some old authorities have odd serial numbers
        found = x509.load_pem_x509_certificates(Path(bundle).read_bytes())
    named = [pkcs12.PKCS12Certificate(certificate, b"%d" % number) for number, certificate in enumerate(found)]
    path.write_bytes(pkcs12.serialize_java_truststore(named, BestAvailableEncryption(PASSWORD.encode())))


if __name__ == "__main__":
    write_truststore(Path(sys.argv[1]))
