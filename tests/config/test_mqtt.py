"""The tables of a configuration that serves MQTT."""

import pytest

from connectors.mqtt.settings import MqttSettings
from oracle.errors import InputError, StorageError
from oracle.hosting.mqtt import mqtt_settings
from tests.support.configs import SECRET, refusal, write_secret
from tests.support.shards import small_plan

_OTHER = "other-7Qx"
_SOURCE = '[source]\nkind = "mqtt"\ntopic = "vfr/queries"\n'
_SINK = '[sink]\nkind = "mqtt"\ntopic = "vfr/answers"\n'
_BROKER = '[mqtt]\nserver = "broker:1883"\n'
_LOGIN = '[mqtt.login]\nusername = "oracle"\n'


@pytest.fixture
def settings(load):
    """A function that makes the connector's settings of these tables."""

    def read(*tables: str) -> MqttSettings:
        return mqtt_settings(load(*tables), small_plan())

    return read


def test_least_configuration(settings):
    """Broker and two topics are enough; the client id is made of the model's name."""
    made = settings(_BROKER, _SOURCE, _SINK)
    assert (made.host, made.port, made.topic, made.answers) == ("broker", 1883, "vfr/queries", "vfr/answers")
    assert made.client_id == f"perpetua-{small_plan().name}"
    assert (made.tls, made.login, made.reply_topics) == (None, None, ())
    assert made.largest_reply > made.message_bytes


def test_password_comes_from_a_file_or_the_environment_only(load, settings, tmp_path, monkeypatch):
    """In the file itself it is refused, unshown; a file's last newline does not count; the environment goes first."""
    told = refusal(lambda: load(_BROKER, _LOGIN + f'password = "{SECRET}"\n', _SOURCE, _SINK))
    assert "PERPETUA_MQTT__LOGIN__PASSWORD" in told
    write_secret(tmp_path / "password", SECRET + "\n")
    named = _LOGIN + f'password_file = "{tmp_path}/password"\n'
    made = settings(_BROKER, named, _SOURCE, _SINK)
    assert made.login is not None
    assert made.login.password == SECRET
    assert SECRET not in repr(made)
    monkeypatch.setenv("PERPETUA_MQTT__LOGIN__PASSWORD", _OTHER)
    made = settings(_BROKER, named, _SOURCE, _SINK)
    assert made.login is not None
    assert made.login.password == _OTHER


def test_password_file_that_is_not_there(settings):
    """It is named."""
    with pytest.raises(StorageError, match=r"mqtt\.login\.password_file = '/nowhere/p'"):
        settings(_BROKER, _LOGIN + 'password_file = "/nowhere/p"\n', _SOURCE, _SINK)


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        ("$share/group/vfr/queries", "one stream in one order"),
        ("vfr/+/queries", "without + and #"),
        ("vfr/#", "without + and #"),
        ("$SYS/broker", "does not begin with"),
        ("", "1 to 65,535 bytes"),
    ],
)
def test_query_topic_is_one_plain_topic(load, topic, words):
    """Shared subscriptions, wildcards, the broker's own topics and what is too long are refused with the reason."""
    with pytest.raises(InputError, match=r"source\.topic") as caught:
        load(_BROKER, f'[source]\nkind = "mqtt"\ntopic = "{topic}"\n', _SINK)
    assert words in caught.value.bound


@pytest.mark.parametrize(
    ("wildcard", "words"),
    [
        ("#", "must begin with a name"),
        ("+/replies", "must begin with a name"),
        ("$SYS/#", "must begin with a name"),
        ("vfr/a#", "must be a topic filter"),
        ("vfr/#/b", "must be a topic filter"),
        ("vfr/a+b", "must be a topic filter"),
        ("", "must be a topic filter"),
    ],
)
def test_reply_filters_cannot_let_a_query_name_any_topic(load, wildcard, words):
    """A filter that begins with a wildcard, and what is none, is refused."""
    with pytest.raises(InputError, match=r"sink\.reply_topics") as caught:
        load(_BROKER, _SOURCE, _SINK + f'reply_topics = ["{wildcard}"]\n')
    assert words in caught.value.bound


@pytest.mark.parametrize("wildcard", ["vfr/replies/+", "vfr/#", "vfr/replies/a", "a/+/b/#"])
def test_reply_filters_that_are_fine(settings, wildcard):
    """Filters that begin with a name are taken."""
    assert settings(_BROKER, _SOURCE, _SINK + f'reply_topics = ["{wildcard}"]\n').reply_topics == (wildcard,)


@pytest.mark.parametrize("name", ["topic", "ledger", "dead_letter", "status"])
def test_every_topic_has_one_use(load, name):
    """The query topic is refused for anything else."""
    sink = '[sink]\nkind = "mqtt"\n' + ("" if name == "topic" else 'topic = "vfr/answers"\n')
    with pytest.raises(InputError, match="named twice"):
        load(_BROKER, _SOURCE, sink + f'{name} = "vfr/queries"\n')


@pytest.mark.parametrize(
    ("tables", "field"),
    [
        ((_SOURCE, _SINK), "mqtt"),
        ((_BROKER, _SOURCE, '[sink]\nkind = "stdout"\n'), "sink.kind"),
        ((_BROKER, '[source]\nkind = "stdin"\n', _SINK), "sink.kind"),
        ((_BROKER, '[source]\nkind = "stdin"\n', '[sink]\nkind = "stdout"\n'), "mqtt"),
        ((_BROKER.replace(":1883", ""), _SOURCE, _SINK), "mqtt.server"),
        ((_BROKER + "keepalive_seconds = 4\n", _SOURCE, _SINK), "mqtt.keepalive_seconds"),
        ((_BROKER + 'client_id = "a b"\n', _SOURCE, _SINK), "mqtt.client_id"),
        ((_BROKER, _SOURCE + "receive_maximum = 1001\n", _SINK), "source.receive_maximum"),
        ((_BROKER, _SOURCE + "journal_bytes = 1000\n", _SINK), "source.journal_bytes"),
        ((_BROKER, _SOURCE, _SINK + "outbox_bytes = 1000\n"), "sink.outbox_bytes"),
        ((_BROKER, _SOURCE + "receive_maximun = 5\n", _SINK), "source.receive_maximun"),
    ],
)
def test_what_does_not_fit_is_named(load, tables, field):
    """Tables that do not go together, unknown settings and values out of bounds are refused by name."""
    with pytest.raises(InputError) as caught:
        load(*tables)
    assert caught.value.field == field


@pytest.mark.parametrize("port", ["0", "65536", "99999"])
def test_port_that_there_is_none_of_is_refused(load, port):
    """A port outside 1 to 65,535 is refused by name, before the system's own calls meet it."""
    told = refusal(lambda: load(f'[mqtt]\nserver = "broker:{port}"\n', _SOURCE, _SINK))
    assert "mqtt.server" in told
    assert "a port of 1 to 65,535" in told
