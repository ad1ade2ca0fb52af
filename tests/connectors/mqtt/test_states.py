"""What a shard on MQTT is, told alike everywhere: before the broker, without it, refused by it, unable to save."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agreement import Told
from tests.support.mosquitto import Mosquitto, write_passwords
from tests.support.mqtt import Asker, MqttModelUnderTest
from tests.support.shards import bodies
from tests.support.waiting import eventually

_WEB = "[web]\nport = 0\nready_lag_seconds = 600\n"


@pytest.fixture
def late(tmp_path: Path) -> Iterator[MqttModelUnderTest]:
    """A model whose broker is not there yet."""
    model = MqttModelUnderTest(Mosquitto(tmp_path / "broker"), "m", tmp_path).create()
    yield model
    model.end()
    model.broker.stop(kill=True)


def test_drill_broker_that_comes_goes_and_comes_back(late):
    """Started before the broker, it waits; with the broker it serves; three losses later it serves again."""
    late.serve(late.config(extra=_WEB))
    told = Told(late)
    (reason,) = told.becomes("waiting")
    assert (reason["check"], reason["text"]) == ("restored", "shard 0 is waiting for the bus")
    late.broker.start()
    told.becomes("serving")
    for kill in (False, True, False):
        late.broker.stop(kill=kill)
        (reason,) = told.becomes("waiting")
        assert late.events()[-1] in {"bus.unavailable", "bus.client"}
        late.broker.start()
        told.becomes("serving")
    asker = late.asker()
    asker.ask(late.queries, bodies(1)[0])
    eventually(lambda: asker.heard, what=late.log)
    events = late.events()
    assert events.count("bus.connected") == 4
    assert late.stop(late.processes[0]) == 0


def test_drill_snapshots_that_fail_while_it_answers(late):
    """Its state folder is gone for a while: it answers, says that it cannot save, and is well again afterwards."""
    late.broker.start()
    journal = late.folder / "journal"
    web = late.config(extra=_WEB, state="snapshot_rounds = 5", source=f'journal = "{journal}"')
    late.serve(web)
    told = Told(late)
    told.becomes("serving")
    state, away = late.folder / "state", late.folder / "away"
    asker = late.asker()
    for times in range(1, 3):
        state.rename(away)
        for body in bodies(20):
            asker.ask(late.queries, body)
        eventually(lambda: len(asker.heard) == 20 * times, what=late.log)  # noqa: B023 -- called at once
        reasons = told.becomes("degraded")
        assert {reason["check"] for reason in reasons} == {"folder"}
        late.broker.stop()
        assert {reason["check"] for reason in told.becomes("waiting")} == {"restored", "folder"}
        late.broker.start()
        told.becomes("degraded")
        away.rename(state)
        told.becomes("serving")
    assert "snapshot.failed" in late.events()


class _Guarded:
    """A model on a broker that asks for a password, which can be changed on either side."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.passwords, self.secret = folder / "passwords", folder / "secret"
        self.change_at_broker("one")
        self.change_here("one")
        listener = ["allow_anonymous false", f"password_file {self.passwords}"]
        self.broker = Mosquitto(folder / "broker", listener=listener).start()
        self.model = MqttModelUnderTest(self.broker, "m", folder).create()
        login = f'[mqtt.login]\nusername = "oracle"\npassword_file = "{self.secret}"\n'
        self.config = self.model.config(extra=login + _WEB)

    def change_at_broker(self, password: str) -> None:
        write_passwords(self.passwords, oracle=password, asker="asker")

    def change_here(self, password: str) -> None:
        self.secret.write_text(f"{password}\n")
        self.secret.chmod(0o600)

    def reload(self) -> None:
        self.broker._process.send_signal(signal.SIGHUP)  # type: ignore[union-attr]  # it runs

    def end(self) -> None:
        self.model.end()
        self.broker.stop(kill=True)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[_Guarded]:
    """A model that is let in by its password."""
    made = _Guarded(tmp_path)
    yield made
    made.end()


@pytest.mark.parametrize("restart", [False, True])
def test_drill_password_that_is_revoked_and_given_back(guarded, restart):
    """It is told as an error with its reason, everywhere, and nothing but the broker's word is needed to go on."""
    model = guarded.model
    model.serve(guarded.config)
    told = Told(model)
    told.becomes("serving")
    guarded.change_at_broker("two")
    guarded.broker.restart() if restart else guarded.reload()
    (reason,) = told.becomes("refused")
    assert reason["check"] == "refused"
    assert reason["text"].endswith("refused: not authorized (0x87)")
    (line, *_) = [line for line in model.log() if line["event"] == "bus.refused"]
    assert line["level"] == "error"
    guarded.change_at_broker("one")
    guarded.reload()
    told.becomes("serving")
    assert model.processes[0].poll() is None


def test_drill_password_that_is_rotated(guarded):
    """Changed at the broker and then in the file: the file is read again for each connection, and no restart needed."""
    model = guarded.model
    model.serve(guarded.config)
    told = Told(model)
    told.becomes("serving")
    guarded.change_at_broker("two")
    guarded.broker.restart()
    told.becomes("refused")
    guarded.secret.unlink()
    eventually(lambda: any("password_file" in line.get("error", "") for line in model.log()), what=model.log)
    guarded.change_here("two")
    told.becomes("serving")
    asker = Asker(guarded.broker.server, [model.answers], prepare=lambda c: c.username_pw_set("asker", "asker"))
    asker.ask(model.queries, bodies(1)[0])
    eventually(lambda: asker.heard, what=model.log)
    asker.close()


def test_wrong_password_at_the_start_is_the_configurations(guarded):
    """Never let in, it ends at once and says so: nothing waits yet, and the operator stands beside it."""
    guarded.change_here("wrong")
    assert guarded.model.serve(guarded.config).wait(60) == 2
    assert "refused: not authorized (0x87)" in str(guarded.model.log())
