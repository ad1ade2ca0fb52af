import time

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public by their documentation
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.support.broker import Broker
from tests.support.certificates import Authority
from tests.support.waiting import TIMEOUT

MODULES = "org.apache.kafka.common.security"
SCRAM_MODULE = f"{MODULES}.scram.ScramLoginModule required;"
PASSWORDS = {"alice": "of alice", "bob": "of bob"}
SILENT = {"log_level": 0}


def secured(folder):
    """Return a broker with what deploy/kafka/README.md shows of listeners and access, and its authority."""
    authority = Authority(folder)
    users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    properties = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("broker")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "listener.name.tls.ssl.client.auth": "required",
        "listener.name.secret.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secret.plain.sasl.jaas.config": f"{MODULES}.plain.PlainLoginModule required {users};",
        "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.scram.scram-sha-256.sasl.jaas.config": SCRAM_MODULE,
        "listener.name.scram.scram-sha-512.sasl.jaas.config": SCRAM_MODULE,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:CN=root",
    }
    listeners = {"TLS": "SSL", "SECRET": "SASL_PLAINTEXT", "SCRAM": "SASL_SSL"}
    scram = [f"SCRAM-SHA-{bits}=[name=alice,password={PASSWORDS['alice']}]" for bits in (256, 512)]
    return Broker(folder / "broker", properties=properties, listeners=listeners, scram=scram), authority


def password(mechanism, user, secret=None):
    """Return a client's settings for a user's password, the right one unless given."""
    return {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": secret or PASSWORDS[user]}


def visible(address, **settings):
    """Return the topics that a client with these settings is shown."""
    client = AdminClient({"bootstrap.servers": address, **SILENT, **settings})
    return {name for name in client.list_topics(timeout=TIMEOUT).topics if not name.startswith("__")}


def fails(address, expected, **settings):
    """Say whether a client with these settings that writes a record meets this error in time."""
    codes: list[int] = []
    client = {"bootstrap.servers": address, "error_cb": lambda error: codes.append(error.code()), **SILENT, **settings}
    producer = Producer(client)
    producer.produce("open", b"x", on_delivery=lambda error, _: codes.append(error.code() if error else 0))
    deadline = time.monotonic() + TIMEOUT
    while expected not in codes and time.monotonic() < deadline:
        producer.poll(0.05)
    producer.purge()
    producer.flush(5)
    return expected in codes and 0 not in codes


def allow(broker, user, topic, operation):
    """Add a rule that allows a user something with a topic."""
    rule = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )
    broker.allow([rule])


@pytest.mark.slow
def test_listeners_with_tls_and_passwords_and_access_rules(tmp_path):
    """Each listener lets in who proves a name, keeps out who does not, and a name may do what a rule allows it."""
    broker, authority = secured(tmp_path)
    with broker:
        broker.create_topic("open")
        broker.create_topic("closed")
        allow(broker, "alice", "open", AclOperation.READ)
        tls = {"security.protocol": "SSL", "ssl.ca.location": str(authority.certificate)}
        files = {name: str(authority.issue(name)) for name in ("root", "nobody")}
        shown = {
            name: visible(broker.listener("TLS"), **tls, **{"ssl.certificate.location": file, "ssl.key.location": file})
            for name, file in files.items()
        }
        assert shown == {"root": {"open", "closed"}, "nobody": set()}

        plain = {"security.protocol": "SASL_PLAINTEXT"}
        secret, scram = broker.listener("SECRET"), broker.listener("SCRAM")
        assert visible(secret, **plain, **password("PLAIN", "alice")) == {"open"}
        assert visible(secret, **plain, **password("PLAIN", "bob")) == set()
        assert fails(secret, KafkaError.TOPIC_AUTHORIZATION_FAILED, **plain, **password("PLAIN", "alice"))
        assert fails(secret, KafkaError._AUTHENTICATION, **plain, **password("PLAIN", "alice", "guessed"))

        both = {**tls, "security.protocol": "SASL_SSL"}
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            assert visible(scram, **both, **password(mechanism, "alice")) == {"open"}
        stranger = Authority(tmp_path, "stranger")
        distrustful = {**both, "ssl.ca.location": str(stranger.certificate)}
        assert fails(scram, KafkaError._SSL, **distrustful, **password("SCRAM-SHA-256", "alice"))
