"""The Mosquitto configuration that is shipped does for the daemon, with its default settings, on a real Mosquitto."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.configs import write_secret
from tests.support.folders import perpetua
from tests.support.mosquitto import Mosquitto, write_passwords
from tests.support.mqtt import Asker, MqttModelUnderTest
from tests.support.shards import bodies
from tests.support.waiting import all_come

_CONFIG = Path(__file__).resolve().parents[3] / "deploy" / "compose" / "mosquitto.conf"
_PLACES = {"password_file", "persistence_location", "listener", "log_dest"}
"""Settings that name places of the container."""

_SECRET = "opensesame-9Rt"  # noqa: S105 -- a password of the test's own


class _Shipped(Mosquitto):
    """Has the shipped settings and no others, but for places."""

    def settings_of(self, store: Path) -> list[str]:
        """Return the lines of its configuration."""
        shipped = [line for line in _CONFIG.read_text().splitlines() if line and not line.startswith("#")]
        kept = [line for line in shipped if line.split()[0] not in _PLACES]
        return [*self.places(store), f"password_file {self.folder}-passwords", f"listener {self.port} 127.0.0.1", *kept]


@pytest.fixture
def shipped(tmp_path: Path) -> Iterator[MqttModelUnderTest]:
    """A model on such a broker."""
    write_passwords(tmp_path / "broker-passwords", oracle=_SECRET)
    with _Shipped(tmp_path / "broker") as broker:
        made = MqttModelUnderTest(broker, "m", tmp_path).create()
        write_secret(tmp_path / "password", _SECRET)
        made.config(extra=f'[mqtt.login]\nusername = "oracle"\npassword_file = "{tmp_path}/password"\n')
        yield made
        made.end()


@pytest.mark.slow
def test_daemon_of_default_settings_is_let_in_and_no_query_is_dropped(shipped):
    """`perpetua check` finds nothing wrong with the broker; 1,300 queries that wait for the daemon are all answered."""
    config = shipped.folder / "serve.toml"
    assert b"ok     broker accepts us and supports what is needed" in perpetua("check", config).stdout
    shipped.serve(config)
    shipped.wait_for_event("bus.connected")
    assert shipped.stop(shipped.processes[0]) == 0
    asker = Asker(
        shipped.broker.server, [shipped.answers], prepare=lambda client: client.username_pw_set("oracle", _SECRET)
    )
    shipped.askers.append(asker)
    contents = bodies(1_300)
    for body in contents:
        asker.ask(shipped.queries, body)
    all_come(lambda: len(asker.taken), len(contents))
    shipped.serve(config)
    all_come(lambda: len(asker.heard), len(contents))
    assert [one.body for one in asker.heard] == shipped.expected(contents)
