"""Certificates and passwords that are exchanged under a running daemon: it goes on with the new ones."""

import shutil

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public by their documentation
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.connectors.kafka.conftest import unique_name
from tests.support.broker import Broker
from tests.support.certificates import Authority
from tests.support.configs import write_secret
from tests.support.kafka import KafkaModelUnderTest
from tests.support.kafka_here import serve_here
from tests.support.shards import bodies
from tests.support.waiting import TIMEOUT

# A connection that is refused while it shakes hands is closed by the collector: the client forgets it.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

_OLD, _NEW = "opensesame-7Qx", "opensesame-8Qx"
_SERVED = 5


class Ground:
    """A broker that wants a certificate and a password, and the client's files, as they are now."""

    def __init__(self, folder):
        self.folder = folder
        self.files = folder / "client"
        self.files.mkdir()
        self.old = Authority(folder)
        shutil.copy(self.old.certificate, folder / "trusted.pem")
        self.old.issue("broker")
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        self.broker = Broker(
            folder / "broker",
            listeners={"USERS": "SASL_SSL"},
            properties={
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(folder / "broker.pem"),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(folder / "trusted.pem"),
                "listener.name.users.ssl.client.auth": "required",
                "listener.name.users.sasl.enabled.mechanisms": "SCRAM-SHA-512",
                "listener.name.users.scram-sha-512.sasl.jaas.config": scram,
            },
            scram=[f"SCRAM-SHA-512=[name=oracle,password={_OLD}]"],
        )
        self.give("ca.pem", self.old.certificate.read_text())
        self.give("client.pem", self.old.issue("client").read_text())
        self.give("password", _OLD)

    def give(self, name, text):
        """Put a file in the place of the client's one, whole or not at all, as mounted secrets are exchanged."""
        write_secret(self.files / "fresh", text).replace(self.files / name)

    def exchange(self, authority, password):
        """Have the broker show a certificate of this authority, trust only it, and know this password; break all."""
        authority.issue("broker")
        shutil.copy(authority.certificate, self.folder / "trusted.pem")
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion("oracle", info, password.encode())
        for future in self.broker.admin.alter_user_scram_credentials([change]).values():
            future.result(TIMEOUT)
        self.broker.restart()

    @property
    def tables(self):
        """The tables of a configuration."""
        return (
            f'[kafka.tls]\nca_file = "{self.files}/ca.pem"\ncertificate_file = "{self.files}/client.pem"\n'
            '[kafka.sasl]\nmechanism = "SCRAM-SHA-512"\nusername = "oracle"\n'
            f'password_file = "{self.files}/password"\n'
        )


@pytest.fixture
def ground(tmp_path):
    """A broker of the test's own, as it is restarted."""
    made = Ground(tmp_path)
    with made.broker:
        yield made


@pytest.fixture
def model(ground, request, tmp_path):
    """A model on it."""
    made = KafkaModelUnderTest(ground.broker, unique_name(request), tmp_path).create()
    yield made
    made.end()


def _config(ground, model):
    path = model.config(extra=ground.tables)
    address = ground.broker.listener("USERS")
    path.write_text(path.read_text().replace(f'"{ground.broker.servers}"', f'"{address}"'))
    return path


def _told(log, words):
    return any(words in f"{line.get('error')} {line.get('reason')}" for line in log)


def test_all_of_them_are_exchanged_and_nothing_is_lost(ground, model):
    """First the broker's, so that it refuses us for a while, then ours, one after the other, some of them half written.

    It is one process, which is refused by each side in turn, says so, waits, and answers what was asked meanwhile.
    """
    contents = bodies(2 * _SERVED)
    fresh = Authority(ground.folder, "fresh")
    steps = iter(
        [
            (lambda _log: model.count() >= _SERVED, lambda: ground.exchange(fresh, _NEW)),
            (lambda log: _told(log, "not trusted"), lambda: ground.give("ca.pem", fresh.certificate.read_text()[:300])),
            (len, lambda: ground.give("ca.pem", fresh.certificate.read_text())),
            (lambda log: _told(log, "the TLS handshake failed"), lambda: ground.give("client.pem", "half")),
            (
                lambda log: _told(log, "the TLS handshake failed"),
                lambda: ground.give("client.pem", fresh.issue("client").read_text()),
            ),
            (lambda log: _told(log, "SaslAuthenticationFailed"), lambda: ground.give("password", "")),
            (len, lambda: ground.give("password", _NEW)),
            (lambda _log: True, lambda: model.ask(contents[_SERVED:])),
        ]
    )
    step = [next(steps, None)]

    def done(log):
        if step[0] is None:
            return model.count() >= len(contents)
        holds, act = step[0]
        if holds(log):
            act()
            step[0] = next(steps, None)
        return False

    model.ask(contents[:_SERVED])
    log = serve_here(_config(ground, model), done)
    assert [answer.value for answer in model.read()] == model.expected(contents)
    assert [line["event"] for line in log].count("daemon.starting") <= 1
    assert _OLD not in str(log)
    assert _NEW not in str(log)


@pytest.mark.slow
def test_who_never_was_let_in_does_not_wait(ground, model):
    """A daemon that is started with the wrong password ends at once, whatever its file may hold later."""
    ground.give("password", _NEW)
    process = model.serve(_config(ground, model))
    assert process.wait(TIMEOUT) == 2
