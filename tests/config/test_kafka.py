"""The tables of a configuration that serves Kafka."""

from pathlib import Path

import pytest

from connectors.kafka.security import OAuth
from connectors.kafka.settings import KafkaSettings
from connectors.kafka.tokens import TokenEndpoint
from oracle.errors import InputError, StorageError
from oracle.hosting.kafka_settings import kafka_settings
from tests.support.configs import SECRET, refusal, write_secret
from tests.support.shards import small_plan

_SOURCE = '[source]\nkind = "kafka"\ntopic = "q"\n'
_SINK = '[sink]\nkind = "kafka"\ntopic = "a"\n'
_CLUSTER = '[kafka]\nservers = ["b1:9092", "b2:9092"]\n'
_SASL = '[kafka.sasl]\nmechanism = "SCRAM-SHA-512"\nusername = "oracle"\n'


@pytest.fixture
def settings(load):
    """A function that makes the connector's settings of these tables."""

    def read(*tables: str) -> KafkaSettings:
        return kafka_settings(load(*tables), "tiny")

    return read


def test_least_configuration(settings):
    """Two topics and a server are enough: the group has the model's name, and there is no ledger."""
    found = settings(_SOURCE, _SINK, _CLUSTER)
    assert (found.servers, found.topic, found.answers) == (("b1:9092", "b2:9092"), "q", "a")
    assert found.group == f"perpetua-{small_plan().name}"
    assert (found.ledger, found.dead_letter, found.reply_topics, found.written) == (None, None, frozenset(), ("a",))
    assert found.security.protocol == "PLAINTEXT"


def test_everything_arrives(settings, tmp_path):
    """Every setting of the tables reaches the connector."""
    for name, secret in (("pw", f"{SECRET}\n"), ("kpw", "of the key")):
        write_secret(tmp_path / name, secret)
    found = settings(
        _SOURCE + 'group = "g"\nfirst_offset = 7\ninstance = "i"\nsession_seconds = 3\n',
        _SINK + 'reply_topics = ["r1", "r2"]\nledger = "l"\ndead_letter = "d"\ndead_letter_bodies = true\n',
        "transaction_seconds = 9\n",
        _CLUSTER + "request_seconds = 4\n",
        '[kafka.tls]\nca_file = "ca"\ncertificate_file = "c"\nkey_file = "k"\ncheck_hostname = false\n',
        f'key_password_file = "{tmp_path / "kpw"}"\n',
        _SASL + f'password_file = "{tmp_path / "pw"}"\n',
    )
    assert (found.group, found.first_offset, found.instance, found.session_seconds) == ("g", 7, "i", 3.0)
    assert found.written == ("a", "l", "d", "r1", "r2")
    assert found.dead_letter_bodies
    assert (found.transaction_seconds, found.request_seconds) == (9.0, 4.0)
    security = found.security
    assert security.protocol == "SASL_SSL"
    assert security.tls is not None
    assert security.sasl is not None
    assert (security.tls.key_password, security.tls.check_hostname) == ("of the key", False)
    assert (security.sasl.mechanism, security.sasl.username, security.sasl.password) == (
        "SCRAM-SHA-512",
        "oracle",
        SECRET,
    )
    assert SECRET not in repr(found) + str(found)
    assert "of the key" not in repr(found) + str(found)


def test_first_offsets_by_partition(settings, monkeypatch):
    """A table names partitions, and the others begin at 0; so may the environment; a number is for all of them."""
    found = settings(_SOURCE + 'first_offset = {"1" = 20, "0" = 500}\n', _SINK, _CLUSTER)
    assert [found.first_offset_of(partition) for partition in range(3)] == [500, 20, 0]
    found = settings(_SOURCE + "first_offset = 7\n", _SINK, _CLUSTER)
    assert [found.first_offset_of(partition) for partition in range(3)] == [7, 7, 7]
    monkeypatch.setenv("PERPETUA_SOURCE__FIRST_OFFSET__1", "30")
    found = settings(_SOURCE, _SINK, _CLUSTER)
    assert [found.first_offset_of(partition) for partition in range(3)] == [0, 30, 0]
    monkeypatch.delenv("PERPETUA_SOURCE__FIRST_OFFSET__1")
    monkeypatch.setenv("PERPETUA_SOURCE__FIRST_OFFSET", "30")
    found = settings(_SOURCE, _SINK, _CLUSTER)
    assert [found.first_offset_of(partition) for partition in range(3)] == [30, 30, 30]


def test_password_from_the_environment(settings, load, monkeypatch):
    """The environment may hold the password; the configuration and the settings do not show it."""
    monkeypatch.setenv("PERPETUA_KAFKA__SASL__PASSWORD", SECRET)
    found = settings(_SOURCE, _SINK, _CLUSTER, _SASL)
    assert found.security.sasl is not None
    assert found.security.sasl.password == SECRET
    config = load(_SOURCE, _SINK, _CLUSTER, _SASL)
    for shown in (repr(found), repr(config), str(config), str(config.model_dump()), config.model_dump_json()):
        assert SECRET not in shown


@pytest.mark.parametrize(
    "table",
    [
        f'[kafka.sasl]\nmechanism = "PLAIN"\nusername = "u"\npassword = "{SECRET}"\n',
        f'[kafka.sasl]\nmechanism = "PLAIN"\nusername = "u"\npasswort = "{SECRET}"\n',
        f'sasl = "{SECRET}"\n',
        f'sasl = {{mechanism = "{SECRET[:5]}", password = "{SECRET}"}}\n',
        f'password = "{SECRET}"\n',
        f'[kafka.sasl]\nmechanism = "PLAIN"\nusername = ["{SECRET}"]\npassword_file = "p"\n',
        f'[kafka.tls]\nkey_password = "{SECRET}"\n',
        f'tls = "{SECRET}"\n',
    ],
)
def test_password_in_the_file_is_refused_and_not_shown(load, table):
    """A password in the TOML file is refused, wherever it stands, and the refusal does not repeat it."""
    assert "kafka" in refusal(lambda: load(_SOURCE, _SINK, _CLUSTER, table))


def test_server_with_a_password_is_refused(load):
    """Servers are hosts and ports; a user and a password in one would get into logs."""
    cluster = f'[kafka]\nservers = ["oracle:{SECRET}@b1:9092"]\n'
    assert "kafka.servers" in refusal(lambda: load(_SOURCE, _SINK, cluster))


@pytest.mark.parametrize("variable", ["PERPETUA_KAFKA", "PERPETUA_KAFKA__SASL", "PERPETUA_KAFKA__TLS"])
@pytest.mark.parametrize("value", [SECRET, f'{{"password": "{SECRET}', f'["{SECRET}"]', f'{{"pass": "{SECRET}"}}'])
def test_garbage_in_the_environment_is_not_shown(load, monkeypatch, variable, value):
    """A whole table in one variable that cannot be read is refused without a word of it."""
    monkeypatch.setenv(variable, value)
    refusal(lambda: load(_SOURCE, _SINK, _CLUSTER))


def test_password_is_needed(settings):
    """A user without a password is refused with the two places where it may be."""
    said = refusal(lambda: settings(_SOURCE, _SINK, _CLUSTER, _SASL))
    assert "kafka.sasl.password_file" in said
    assert "PERPETUA_KAFKA__SASL__PASSWORD" in said


def test_password_file_must_be_readable(settings, tmp_path):
    """A missing file is named; a file that is not text is refused without its contents."""
    with pytest.raises(StorageError, match="No such file"):
        settings(_SOURCE, _SINK, _CLUSTER, _SASL, f'password_file = "{tmp_path / "none"}"\n')
    path = write_secret(tmp_path / "binary", "")
    path.write_bytes(b"\xff" + SECRET.encode())
    said = refusal(lambda: settings(_SOURCE, _SINK, _CLUSTER, _SASL, f'password_file = "{path}"\n'))
    assert "UTF-8" in said


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        ('reply_topics = ["q"]\n', "q is named twice"),
        ('reply_topics = ["r", "a"]\n', "a is named twice"),
        ('reply_topics = ["r", "r"]\n', "r is named twice"),
        ('ledger = "q"\n', "q is named twice"),
        ('ledger = "l"\ndead_letter = "l"\n', "l is named twice"),
        ('reply_topics = ["__consumer_offsets"]\n', "__consumer_offsets is Kafka's own"),
        ('dead_letter = "__transaction_state"\n', "__transaction_state is Kafka's own"),
        ('ledger = ".."\n', ".. is Kafka's own, or no name"),
        ('reply_topics = ["r/*"]\n', "sink.reply_topics.0"),
        ('reply_topics = ["caf\\u00e9"]\n', "sink.reply_topics.0"),
        ('reply_topics = ["' + "r" * 250 + '"]\n', "sink.reply_topics.0"),
        ('reply_topics = [""]\n', "sink.reply_topics.0"),
    ],
)
def test_topics_are_of_one_use_each(load, sink, said):
    """The allow-list holds plain names: no pattern, no topic of another use, none of Kafka's own."""
    assert said in refusal(lambda: load(_SOURCE, _SINK + sink, _CLUSTER))


@pytest.mark.parametrize(
    ("tables", "field"),
    [
        ((_SOURCE, _SINK), "kafka"),
        ((_SOURCE, '[sink]\nkind = "jsonl"\npath = "a"\n', _CLUSTER), "sink.kind"),
        (('[source]\nkind = "stdin"\n', _SINK, _CLUSTER), "sink.kind"),
        (('[source]\nkind = "stdin"\n', '[sink]\nkind = "stdout"\n', _CLUSTER), "kafka"),
        ((_SOURCE, _SINK, "[kafka]\nservers = []\n"), "kafka.servers"),
        ((_SOURCE, _SINK, '[kafka]\nservers = ["b1"]\n'), "kafka.servers.0"),
        ((_SOURCE + "session_seconds = 0.1\n", _SINK, _CLUSTER), "source.session_seconds"),
        ((_SOURCE + "first_offset = -1\n", _SINK, _CLUSTER), "source.first_offset"),
        ((_SOURCE + "first_offset = 1.5\n", _SINK, _CLUSTER), "source.first_offset"),
        ((_SOURCE + "first_offset = true\n", _SINK, _CLUSTER), "source.first_offset"),
        ((_SOURCE + "first_offset.0 = -1\n", _SINK, _CLUSTER), "source.first_offset"),
        ((_SOURCE + "first_offset.first = 1\n", _SINK, _CLUSTER), "source.first_offset"),
        ((_SOURCE, _SINK, _CLUSTER, '[kafka.sasl]\nmechanism = "GSSAPI"\nusername = "u"\n'), "kafka.sasl.mechanism"),
    ],
)
def test_refusals_name_the_field(load, tables, field):
    """What does not fit is refused by its own name."""
    with pytest.raises(InputError) as caught:
        load(*tables)
    assert caught.value.field == field


def test_misspelt_mechanism(load):
    """The nearest one is named."""
    with pytest.raises(InputError, match=r"kafka\.sasl\.mechanism = 'scram-sha512': .*; did you mean SCRAM-SHA-512\?$"):
        load(_SOURCE, _SINK, _CLUSTER, _SASL.replace("SCRAM-SHA-512", "scram-sha512"))


def test_settings_of_files_are_no_settings_of_kafka(load):
    """Only a Kafka source and sink make a connector's settings."""
    found = load('[source]\nkind = "stdin"\n[sink]\nkind = "stdout"\n')
    with pytest.raises(InputError, match=r"source\.kind"):
        kafka_settings(found, "tiny")


_TOKENS = '[kafka.sasl]\nmechanism = "OAUTHBEARER"\n'
_ENDPOINT = 'token_endpoint = "https://authority.example:8443/token?realm=a"\nclient_id = "me"\n'


def test_tokens_arrive(settings, tmp_path):
    """Of a file, and of an authorization server with a secret, which no text shows."""
    found = settings(_SOURCE, _SINK, _CLUSTER, _TOKENS + 'token_file = "t"\nextensions = {logicalCluster = "lkc-1"}\n')
    sasl = found.security.sasl
    assert isinstance(sasl, OAuth)
    assert (found.security.protocol, sasl.token, sasl.extensions) == (
        "SASL_PLAINTEXT",
        Path("t").absolute(),
        {"logicalCluster": "lkc-1"},
    )
    write_secret(tmp_path / "cs", SECRET + "\n")
    more = f'client_secret_file = "{tmp_path / "cs"}"\nscope = "s"\ntoken_ca_file = "ca"\n'
    sasl = settings(_SOURCE, _SINK, _CLUSTER, _TOKENS + _ENDPOINT + more).security.sasl
    assert isinstance(sasl, OAuth)
    assert isinstance(sasl.token, TokenEndpoint)
    assert (sasl.token.client_id, sasl.token.client_secret, sasl.token.scope) == ("me", SECRET, "s")
    assert sasl.token.files == (tmp_path / "cs", Path("ca").absolute())
    assert SECRET not in repr(sasl)


def test_a_secret_of_the_environment_goes_before_its_file_and_is_not_read_again(settings, monkeypatch, tmp_path):
    """As with passwords; it stays as long as the process does."""
    write_secret(tmp_path / "cs", "of the file")
    file = f'client_secret_file = "{tmp_path / "cs"}"\n'
    monkeypatch.setenv("PERPETUA_KAFKA__SASL__CLIENT_SECRET", SECRET)
    sasl = settings(_SOURCE, _SINK, _CLUSTER, _TOKENS + _ENDPOINT + file).security.sasl
    assert (sasl.token.client_secret, sasl.files) == (SECRET, ())


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (_TOKENS, "either token_file or token_endpoint"),
        (_TOKENS + _ENDPOINT + 'token_file = "t"\n', "either token_file or token_endpoint"),
        (_TOKENS + 'token_file = "t"\nusername = "u"\n', "must not have username"),
        (_TOKENS + 'token_file = "t"\nscope = "s"\n', "must not have scope"),
        (_TOKENS + _ENDPOINT, "kafka.sasl.client_secret_file is not set: must name the file, or set PERPETUA_KAFKA__"),
        (_TOKENS + 'token_endpoint = "https://a/t"\n', "must have a client_id"),
        ('[kafka.sasl]\nmechanism = "PLAIN"\n', "must have a username"),
        ('[kafka.sasl]\nmechanism = "PLAIN"\nusername = "u"\ntoken_file = "t"\n', "must not have token_file"),
        (_TOKENS + _ENDPOINT + f'client_secret = "{SECRET}"\n', "client_secret_file, or PERPETUA_KAFKA__SASL__CLIENT_"),
        *(
            (f'{_TOKENS}client_id = "c"\ntoken_endpoint = "{url}"\n', 'must be "https://HOST/PATH"')
            for url in ("http://authority.example/t", "ftp://a/t", "https:///t", f"https://u:{SECRET}@a/t", "a", "")
        ),
        (f'{_TOKENS}client_id = "c"\ntoken_endpoint = "https://a:99999/t"\n', 'must be "https://HOST/PATH"'),
        (f'{_TOKENS}client_id = "c"\ntoken_endpoint = "https://a/t\\r\\nX: y"\n', 'must be "https://HOST/PATH"'),
        (_TOKENS + 'token_file = "t"\nextensions = {auth = "x"}\n', "must have names of letters"),
        (_TOKENS + 'token_file = "t"\nextensions = {a = "x\\u0001auth=y"}\n', "must have names of letters"),
    ],
)
def test_what_does_not_fit_together_is_refused(settings, table, said):
    """By name, without a secret."""
    assert said in refusal(lambda: settings(_SOURCE, _SINK, _CLUSTER, table))
