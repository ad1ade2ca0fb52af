"""Writes a truststore for Java of the certificates that this machine's OpenSSL trusts.

Java has a list of its own, and an authority that was added to the machine's list is often missing in it.
"""

import ssl
from pathlib import Path

__all__ = ["PASSWORD", "write_truststore"]

PASSWORD = "changeit"  # noqa: S105 -- Java's own; nothing in it is secret


def write_truststore(path: Path) -> bool:
    """Write the truststore, PKCS 12; return False where the machine has no bundle, or `cryptography` is not there."""
    try:
        from cryptography import x509  # noqa: PLC0415 -- the broker's tool runs without it too
        from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12  # noqa: PLC0415
    except ImportError:
        return False
    bundle = ssl.get_default_verify_paths().cafile
    if bundle is None:
        return False
    found = x509.load_pem_x509_certificates(Path(bundle).read_bytes())
    named = [pkcs12.PKCS12Certificate(certificate, b"%d" % number) for number, certificate in enumerate(found)]
    path.write_bytes(pkcs12.serialize_java_truststore(named, BestAvailableEncryption(PASSWORD.encode())))
    return True
