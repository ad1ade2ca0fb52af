"""Certificates for tests of TLS: an authority, and what it has signed, as PEM files."""

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


class Authority:
    """A certificate authority with files in a folder.

    Args:
        folder: Where its files go.
        name: The authority's own name, and that of its certificate's file.
    """

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._name = _name(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(self._name, self._name, self._key.public_key(), self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_SIGNS_CERTIFICATES, critical=True)
        self.certificate = self._write(f"{name}.pem", _pem(builder.sign(self._key, hashes.SHA256())))

    def issue(self, name: str, *, host: str | None = None, password: str | None = None) -> Path:
        """Sign a certificate for this name; return a file with its key (PKCS 8) and itself.

        Kafka takes the file as a keystore of type PEM; a client takes it as key and as certificate.

        Args:
            name: Whose it is, and the file's name.
            host: The one host that it is for; if not given, localhost and 127.0.0.1.
            password: What the key is encrypted with, if it is.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        here = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        names = [x509.DNSName(host)] if host else here
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = _builder(_name(name), self._name, key.public_key(), self._key.public_key())
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        lock = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock)
        return self._write(f"{name}.pem", private + _pem(builder.sign(self._key, hashes.SHA256())))

    def _write(self, name: str, contents: bytes) -> Path:
        path = self._folder / name
        path.touch(mode=0o600)
        path.write_bytes(contents)
        return path


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, signer: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        # From Python 3.13 on, TLS refuses certificates without the two identifiers.
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False)
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)
