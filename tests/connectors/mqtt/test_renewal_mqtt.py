"""Certificates, a key and its password that are exchanged under a running daemon: the next connection has them."""

import contextlib
import shutil

from tests.support.certificates import Authority
from tests.support.configs import write_secret
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt import Asker, MqttModelUnderTest
from tests.support.shards import bodies
from tests.support.waiting import eventually


def _exchange(folder, authority, password):
    """Give broker and daemon what this authority signs, at the same places."""
    shutil.copy(authority.certificate, folder / "ca.pem")
    shutil.copy(authority.issue("broker-fresh"), folder / "broker.pem")
    write_secret(folder / "fresh", authority.issue("client-fresh", password=password).read_text()).replace(
        folder / "client.pem"
    )
    write_secret(folder / "fresh", password).replace(folder / "key.password")


def test_all_of_tls_is_exchanged_and_nothing_is_lost(tmp_path):
    """One process, to the broker it had and to the broker as it comes back, which trusts another authority."""
    _exchange(tmp_path, Authority(tmp_path, "old"), "of the old key")
    listener = [f"cafile {tmp_path}/ca.pem", f"certfile {tmp_path}/broker.pem", f"keyfile {tmp_path}/broker.pem"]
    broker = Mosquitto(tmp_path / "broker", listener=[*listener, "allow_anonymous true", "require_certificate true"])
    files = f'certificate_file = "{tmp_path}/client.pem"\nkey_file = "{tmp_path}/client.pem"\n'
    table = f'[mqtt.tls]\nca_file = "{tmp_path}/ca.pem"\n{files}key_password_file = "{tmp_path}/key.password"\n'

    def asked(model, body):
        """Ask by what the files hold now, and return the answer."""
        password = (tmp_path / "key.password").read_text()
        paths = [str(tmp_path / name) for name in ("ca.pem", "client.pem", "client.pem")]

        def prepare(client) -> None:
            client.tls_set(*paths, keyfile_password=password)

        asker = Asker(broker.server, [model.answers], prepare=prepare)
        with contextlib.closing(asker):
            asker.ask(model.queries, body)
            eventually(lambda: asker.heard, what=model.log)
            return asker.heard[0].body

    with broker, contextlib.ExitStack() as stack:
        model = MqttModelUnderTest(broker, "m", tmp_path).create()
        stack.callback(model.end)
        process = model.serve(model.config(extra=table))
        model.wait_for_event("bus.connected")
        contents = bodies(2)
        answers = [asked(model, contents[0])]
        _exchange(tmp_path, Authority(tmp_path, "new"), "of the new key")
        broker.restart()
        answers.append(asked(model, contents[1]))
        assert answers == model.expected(contents)
        assert process.poll() is None
