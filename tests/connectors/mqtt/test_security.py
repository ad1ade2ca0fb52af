"""TLS, client certificates and passwords on a real broker: who proves who they are is served, others are told why."""

import asyncio
import contextlib
import ssl
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.mqtt.client import Connection, check_broker
from connectors.mqtt.messages import Incoming
from connectors.mqtt.protocols import Receiver
from connectors.mqtt.settings import Login, MqttSettings
from connectors.tls import Tls
from oracle.errors import BusError, PerpetuaError, RefusedError
from tests.support.certificates import Authority
from tests.support.configs import write_secret
from tests.support.folders import command, environment
from tests.support.mosquitto import Mosquitto, write_passwords
from tests.support.mqtt import Asker, MqttModelUnderTest
from tests.support.mqtt_link import SETTINGS
from tests.support.mqtt_script import ScriptedBroker
from tests.support.shards import bodies
from tests.support.waiting import TIMEOUT, eventually, until

_SECRET = "opensesame-7Qx"  # noqa: S105 -- a password of the test's own
_KEY_SECRET = "keypass-4Zw"  # noqa: S105 -- as above


class _Ground:
    """An authority, a stranger, and brokers that want proof."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority, self.stranger = Authority(folder), Authority(folder, "stranger")
        self.client = self.authority.issue("client", password=_KEY_SECRET)
        self._keys = [f"cafile {self.authority.certificate}", "allow_anonymous true"]
        pair = self.authority.issue("broker")
        self.passwords = folder / "passwords"
        write_passwords(self.passwords, oracle=_SECRET)
        self.ways = {
            "tls": [*self._keys, *_pair(pair)],
            "mutual": [*self._keys, *_pair(pair), "require_certificate true", "use_identity_as_username true"],
            "wrong host": [*self._keys, *_pair(self.authority.issue("elsewhere", host="mqtt.example"))],
            "password": [*_pair(pair), "allow_anonymous false", f"password_file {self.passwords}"],
            "plain": ["allow_anonymous true"],
        }

    def broker(self, way: str) -> Mosquitto:
        """Return a broker that wants this proof, not yet started."""
        return Mosquitto(self.folder / f"broker-{way.replace(' ', '-')}", listener=self.ways[way])

    def tls(self, authority: Authority | None = None) -> Tls:
        """Return settings that trust an authority."""
        return Tls(ca_file=(authority or self.authority).certificate)

    def mutual(self, password: str = _KEY_SECRET) -> Tls:
        """Return settings with a certificate of our own."""
        return Tls(self.authority.certificate, self.client, self.client, password)


def _pair(path: Path) -> list[str]:
    return [f"certfile {path}", f"keyfile {path}"]


@pytest.fixture(scope="module")
def ground(tmp_path_factory) -> _Ground:
    """Made once."""
    return _Ground(tmp_path_factory.mktemp("security"))


def _probe(broker: Mosquitto, **settings: object) -> None:
    asyncio.run(check_broker(replace(SETTINGS, port=broker.port, **settings)))  # type: ignore[arg-type]


_LET_IN = {
    "tls": lambda ground: {"tls": ground.tls()},
    "mutual": lambda ground: {"tls": ground.mutual()},
    "password": lambda ground: {"tls": ground.tls(), "login": Login("oracle", _SECRET)},
    "wrong host": lambda ground: {"tls": Tls(ca_file=ground.authority.certificate, check_hostname=False)},
}


@pytest.mark.parametrize("way", _LET_IN)
def test_who_proves_who_they_are_is_let_in(ground, way):
    """Over TLS, with certificates of both, with a password, and where the host's name is not to be looked at."""
    with ground.broker(way) as broker:
        _probe(broker, **_LET_IN[way](ground))


class _Pausing(Receiver):
    """Pauses its connection at the first message."""

    def __init__(self, settings: MqttSettings) -> None:
        self.connection = Connection(settings, self)
        self.bodies: list[bytes] = []

    def received(self, message: Incoming) -> None:
        if not self.bodies:
            self.connection.pause()
        self.bodies.append(message.body)


async def test_pause_over_tls_leaves_nothing_behind(ground):
    """TLS holds messages that the socket does not show any more: they are read when reading goes on, not later."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(ground.authority.issue("scripted"))
    async with ScriptedBroker(context) as broker:
        settings = replace(
            SETTINGS, port=broker.port, tls=ground.tls(), keepalive_seconds=120
        )  # no ping wakes the socket
        pausing = _Pausing(settings)
        await pausing.connection.enter()
        broker.send_at_once([b"one", b"two", b"three"])
        await until(lambda: pausing.bodies)
        await asyncio.sleep(0.2)
        assert pausing.bodies == [b"one"]
        pausing.connection.resume()
        await until(lambda: pausing.bodies == [b"one", b"two", b"three"])
        await pausing.connection.leave()


_REFUSED = {
    "stranger": ("tls", lambda ground: {"tls": ground.tls(ground.stranger)}, RefusedError, "is not trusted"),
    "system's only": ("tls", lambda _: {"tls": Tls()}, RefusedError, "is not trusted"),
    "other host": ("wrong host", lambda ground: {"tls": ground.tls()}, RefusedError, "not valid for '127.0.0.1'"),
    "no certificate": ("mutual", lambda ground: {"tls": ground.tls()}, PerpetuaError, "127.0.0.1"),
    "wrong key password": ("mutual", lambda ground: {"tls": ground.mutual("wrong")}, RefusedError, "files cannot be"),
    "wrong password": (
        "password",
        lambda ground: {"tls": ground.tls(), "login": Login("oracle", "wrong")},
        RefusedError,
        "not authorized",
    ),
    "no password": ("password", lambda ground: {"tls": ground.tls()}, RefusedError, "not authorized"),
    "no tls where it is": ("tls", lambda _: {}, BusError, "check mqtt.tls"),
    "tls where there is none": ("plain", lambda ground: {"tls": ground.tls()}, BusError, "127.0.0.1"),
}


@pytest.mark.parametrize("case", _REFUSED)
def test_who_does_not_is_told_why(ground, case):
    """A refusal by either side is told in its own words, without any secret."""
    way, settings, kind, said = _REFUSED[case]
    with ground.broker(way) as broker, pytest.raises(kind) as caught:
        _probe(broker, **settings(ground))
    assert said in str(caught.value)
    for secret in (_SECRET, _KEY_SECRET, "wrong"):
        assert secret not in str(caught.value).replace("wrong version", "")


def test_daemon_serves_over_mutual_tls_and_no_secret_is_printed(ground, tmp_path):
    """Certificates of both and a password from a file: queries are answered; no output of any kind has a secret."""
    lines = [*ground.ways["mutual"][:-1], f"password_file {ground.passwords}"]
    lines[lines.index("allow_anonymous true")] = "allow_anonymous false"
    with Mosquitto(tmp_path / "broker", listener=lines) as broker:
        model = MqttModelUnderTest(broker, "m", tmp_path).create()
        write_secret(tmp_path / "password", _SECRET + "\n")
        write_secret(tmp_path / "key-password", _KEY_SECRET + "\n")
        tables = f"""
[mqtt.tls]
ca_file = "{ground.authority.certificate}"
certificate_file = "{ground.client}"
key_file = "{ground.client}"
key_password_file = "{tmp_path}/key-password"
[mqtt.login]
username = "oracle"
password_file = "{tmp_path}/password"
"""
        config = model.config(extra=tables)
        with contextlib.ExitStack() as stack:
            stack.callback(model.end)
            model.serve(config)
            model.wait_for_event("bus.connected")

            def prepare(client) -> None:
                files = [str(path) for path in (ground.authority.certificate, ground.client, ground.client)]
                client.tls_set(*files, keyfile_password=_KEY_SECRET)
                client.username_pw_set("oracle", _SECRET)

            asker = Asker(broker.server, [model.answers], prepare=prepare)
            stack.callback(asker.close)
            asker.ask(model.queries, bodies(1)[0])
            eventually(lambda: asker.heard, what=model.log)
            checked = subprocess.run(
                command("check", config), capture_output=True, check=False, env=environment(), timeout=TIMEOUT
            )
            printed = (tmp_path / "serve.log").read_bytes() + checked.stdout + checked.stderr
    assert b"ok     broker accepts us" in checked.stdout
    for secret in (_SECRET, _KEY_SECRET):
        assert secret.encode() not in printed
