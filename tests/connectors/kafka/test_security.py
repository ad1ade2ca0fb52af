"""TLS and passwords on a real broker: who proves who they are is served, who does not is told why and stops."""

import asyncio
import subprocess
import sys

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public by their documentation
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

import oracle
from oracle.config.daemon import load_config
from oracle.errors import BusError, RefusedError
from oracle.hosting.kafka import check_topics, open_model
from tests.connectors.kafka.conftest import unique_name
from tests.support.broker import Broker
from tests.support.certificates import Authority
from tests.support.configs import write_secret
from tests.support.folders import command, environment
from tests.support.kafka import KafkaModelUnderTest
from tests.support.kafka_here import run_here, serve_here
from tests.support.shards import bodies
from tests.support.waiting import TIMEOUT, eventually, until

# A connection that is refused while it shakes hands is closed by the collector: the client forgets it.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

_MODULES = "org.apache.kafka.common.security"
_SECRET = "opensesame-7Qx"  # noqa: S105 -- a password of the test's own
_WRONG = "opensesame-8Qx"
_KEY_SECRET = "of the key-9Zz"  # noqa: S105
_SERVED = 5


class Cluster:
    """A broker with four more listeners, its authority, and a model on it."""

    def __init__(self, folder):
        self.authority = Authority(folder)
        self.stranger = Authority(folder, "stranger")
        self.client = self.authority.issue("client", password=_KEY_SECRET)
        elsewhere = self.authority.issue("elsewhere", host="kafka.example")
        scram = f"{_MODULES}.scram.ScramLoginModule required;"
        plain = f'{_MODULES}.plain.PlainLoginModule required user_oracle="{_SECRET}";'
        self.broker = Broker(
            folder / "broker",
            listeners={"TLS": "SSL", "MUTUAL": "SSL", "WRONG": "SSL", "PLAIN": "SASL_SSL", "SCRAM": "SASL_SSL"},
            properties={
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.authority.issue("broker")),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.authority.certificate),
                "listener.name.mutual.ssl.client.auth": "required",
                "listener.name.wrong.ssl.keystore.type": "PEM",
                "listener.name.wrong.ssl.keystore.location": str(elsewhere),
                "listener.name.plain.sasl.enabled.mechanisms": "PLAIN",
                "listener.name.plain.plain.sasl.jaas.config": plain,
                "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-512",
                "listener.name.scram.scram-sha-512.sasl.jaas.config": scram,
            },
            scram=[f"SCRAM-SHA-512=[name=oracle,password={_SECRET}]"],
        )
        self.files = {}
        for name, secret in (("right", _SECRET), ("wrong", _WRONG), ("key", _KEY_SECRET)):
            self.files[name] = folder / f"{name}.password"
            write_secret(self.files[name], f"{secret}\n")

    def tls(self, authority=None, more=""):
        """Return the table of TLS."""
        trusted = (authority or self.authority).certificate
        return f'[kafka.tls]\nca_file = "{trusted}"\n{more}\n'

    def mutual(self, key="key"):
        """Return the table of TLS with a certificate of the client's own."""
        files = f'certificate_file = "{self.client}"\nkey_file = "{self.client}"\n'
        return self.tls(more=files + f'key_password_file = "{self.files[key]}"')

    def sasl(self, mechanism, password="right"):  # noqa: S107 -- the name of a file
        """Return the table of name and password."""
        file = self.files[password]
        return f'[kafka.sasl]\nmechanism = "{mechanism}"\nusername = "oracle"\npassword_file = "{file}"\n'


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The broker of these tests."""
    made = Cluster(tmp_path_factory.mktemp("secured"))
    with made.broker:
        yield made


@pytest.fixture
def model(cluster, request, tmp_path):
    """A model on the broker of these tests."""
    made = KafkaModelUnderTest(cluster.broker, unique_name(request), tmp_path).create()
    yield made
    made.end()


def through(model, listener, *tables, **sections):
    """Return a configuration of a daemon that reaches the broker by another listener."""
    path = model.config(extra="".join(tables), **sections)
    address = model.broker.listener(listener) if listener else model.broker.servers
    path.write_text(path.read_text().replace(f'"{model.broker.servers}"', f'"{address}"'))
    return path


_WAYS = {
    "TLS": lambda cluster: [cluster.tls()],
    "MUTUAL": lambda cluster: [cluster.mutual()],
    "WRONG": lambda cluster: [cluster.tls(more="check_hostname = false")],
    "PLAIN": lambda cluster: [cluster.tls(), cluster.sasl("PLAIN")],
    "SCRAM": lambda cluster: [cluster.tls(), cluster.sasl("SCRAM-SHA-512")],
}


@pytest.mark.parametrize("listener", _WAYS)
def test_who_proves_who_they_are_is_served(cluster, model, listener):
    """Over TLS, with certificates of both, and with a password by PLAIN and by SCRAM, all queries are answered."""
    config = through(model, listener, *_WAYS[listener](cluster))
    contents = bodies(_SERVED)
    model.ask(contents)
    serve_here(config, lambda _log: model.count() >= _SERVED)
    assert [answer.value for answer in model.read()] == model.expected(contents)


def test_clients_prove_who_they_are_too(cluster, model):
    """In the same words as the configuration; with a wrong password they are refused, and nothing is written."""
    listener = cluster.broker.listener("SCRAM")
    sasl = {"mechanism": "SCRAM-SHA-512", "username": "oracle", "password": _SECRET}

    def client(**changed):
        tls = {"ca_file": str(cluster.authority.certificate)}
        return oracle.Client.kafka(listener, model.queries, model.answers, tls=tls, sasl=sasl | changed)

    async def ask(asker):
        async with asker as opened:
            question = await opened.send({"id": "q", "x": [0.5, 0.5]})
            await until(lambda: question.written)
            answering = asyncio.create_task(asyncio.to_thread(serve_here, model.config(), lambda _: model.count() > 0))
            answer = await question.answer(TIMEOUT)
            await answering
            return answer["id"]

    with pytest.raises(RefusedError, match="SaslAuthenticationFailed") as caught:
        run_here(ask(client(password=_WRONG)))
    assert _WRONG not in str(caught.value)
    assert (model.written(), run_here(ask(client()))) == (0, "q")


_REFUSED = {
    "wrong password by SCRAM": (
        "SCRAM",
        lambda cluster: [cluster.tls(), cluster.sasl("SCRAM-SHA-512", "wrong")],
        "refused by the brokers: SaslAuthenticationFailed",
    ),
    "wrong password by PLAIN": (
        "PLAIN",
        lambda cluster: [cluster.tls(), cluster.sasl("PLAIN", "wrong")],
        "refused by the brokers: SaslAuthenticationFailed",
    ),
    "mechanism that is not enabled": (
        "SCRAM",
        lambda cluster: [cluster.tls(), cluster.sasl("SCRAM-SHA-256")],
        "refused by the brokers: UnsupportedSaslMechanism",
    ),
    "authority that did not sign it": (
        "TLS",
        lambda cluster: [cluster.tls(cluster.stranger)],
        "the broker's certificate is not trusted",
    ),
    "authorities of the system only": ("TLS", lambda _: ["[kafka.tls]\n"], "the broker's certificate is not trusted"),
    "certificate of another host": (
        "WRONG",
        lambda cluster: [cluster.tls()],
        "is not valid for '127.0.0.1'",
    ),
    "no certificate of our own": ("MUTUAL", lambda cluster: [cluster.tls()], "CERTIFICATE"),
    "wrong password of the key": (
        "MUTUAL",
        lambda cluster: [cluster.mutual("wrong")],
        "tls: its files cannot be",
    ),
}


@pytest.mark.timeout(280)
@pytest.mark.parametrize("case", _REFUSED)
def test_who_does_not_is_refused_at_once_with_the_reason(cluster, model, case):
    """A refusal by either side is told in its own words, without the password, and is not tried again.

    It would be tried for longer than this test may last.
    """
    listener, tables, said = _REFUSED[case]
    config = through(model, listener, *tables(cluster), kafka="request_seconds = 300")
    with pytest.raises(RefusedError) as caught:
        serve_here(config, lambda _log: False)
    assert said in str(caught.value)
    assert "127.0.0.1:" in str(caught.value) or "kafka.tls" in str(caught.value)
    for secret in (_SECRET, _WRONG, _KEY_SECRET):
        assert secret not in str(caught.value)


@pytest.mark.parametrize("with_tls", [False, True])
def test_another_protocol_than_the_listener_speaks_is_hinted_at(cluster, model, with_tls):
    """TLS where there is none, and none where there is, look like a broker that is down; the message says so."""
    tables = [cluster.tls()] if with_tls else []
    config = load_config(through(model, "" if with_tls else "TLS", *tables))
    with pytest.raises(BusError, match=r"check kafka\.servers, kafka\.tls and kafka\.sasl"):
        run_here(check_topics(open_model(config)))


def _output(config, *arguments, **variables):
    """Run `perpetua` to its end with all the talk it has, and return its exit code and all that it said."""
    line = [*command(*arguments), *([str(config)] if config else [])]
    done = subprocess.run(
        [sys.executable, "-X", "dev", *line[1:]],
        capture_output=True,
        check=False,
        timeout=TIMEOUT,
        env={**environment(), "PERPETUA_DEBUG": "1", "PYTHONASYNCIODEBUG": "1", **variables},
    )
    return done.returncode, (done.stdout + done.stderr).decode()


def test_password_is_in_no_output(cluster, model):
    """Passwords from a file and from the environment are in no log, message or traceback; the exit code is 2."""
    wrong = through(model, "SCRAM", cluster.tls(), cluster.sasl("SCRAM-SHA-512", "wrong"))
    code, said = _output(wrong, "serve")
    assert code == 2
    assert "SaslAuthenticationFailed" in said
    assert _WRONG not in said

    table = '[kafka.sasl]\nmechanism = "SCRAM-SHA-512"\nusername = "oracle"\n'
    variable = {"PERPETUA_KAFKA__SASL__PASSWORD": _SECRET}
    distrustful = through(model, "SCRAM", cluster.tls(cluster.stranger), table)
    code, said = _output(distrustful, "serve", **variable)
    assert code == 2
    assert "not trusted" in said
    assert _SECRET not in said

    code, said = _output(None, "serve", "--help", **variable)
    assert code == 0
    assert _SECRET not in said


@pytest.mark.slow
def test_password_of_the_environment_that_is_changed_under_a_running_daemon_ends_it(cluster, model, monkeypatch):
    """A daemon that is refused when it comes back after a restart of the broker stops with the reason.

    It does not try the old password for ever: no other one can come. With the right one it goes on where it was.
    """
    table = '[kafka.sasl]\nmechanism = "SCRAM-SHA-512"\nusername = "oracle"\n'
    config = through(model, "SCRAM", cluster.tls(), table)
    contents = bodies(2 * _SERVED)
    model.ask(contents[:_SERVED])
    changed: list[bool] = []

    def done(_log):
        if model.count() >= _SERVED and not changed:
            changed.append(True)
            _set_password(cluster.broker, _WRONG)
            cluster.broker.restart()
        return False

    monkeypatch.setenv("PERPETUA_KAFKA__SASL__PASSWORD", _SECRET)
    with pytest.raises(RefusedError, match="SaslAuthenticationFailed"):
        serve_here(config, done)
    _set_password(cluster.broker, _SECRET)
    eventually(lambda: _lets_in(cluster, _SECRET))  # it has agreed to the change, and goes by it a while later
    model.ask(contents[_SERVED:])
    serve_here(config, lambda _log: model.count() >= 2 * _SERVED)
    assert [answer.value for answer in model.read()] == model.expected(contents)


def _set_password(broker, password):
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change = UserScramCredentialUpsertion("oracle", info, password.encode())
    for future in broker.admin.alter_user_scram_credentials([change]).values():
        future.result(TIMEOUT)


def _lets_in(cluster, password):
    settings = {
        "bootstrap.servers": cluster.broker.listener("SCRAM"),
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(cluster.authority.certificate),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "oracle",
        "sasl.password": password,
        "log_level": 0,
    }
    try:
        return AdminClient(settings).list_topics(timeout=5)
    except KafkaException:
        return None
