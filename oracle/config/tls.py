"""`[kafka.tls]`, `[kafka.registry.tls]` and `[mqtt.tls]`: TLS to brokers and registries."""

from oracle.config.base import ConfigTable, LocalPath

__all__ = ["TlsConfig"]


class TlsConfig(ConfigTable):
    """TLS to the brokers, or to a registry.

    Attributes:
        ca_file: Certificates to trust; by default the system's.
        certificate_file: Our certificate, where brokers ask for one.
        key_file: Its private key.
        key_password_file: Holds what the private key is encrypted with.
        check_hostname: Whether a broker's certificate must name its host.
    """

    ca_file: LocalPath | None = None
    certificate_file: LocalPath | None = None
    key_file: LocalPath | None = None
    key_password_file: LocalPath | None = None
    check_hostname: bool = True
