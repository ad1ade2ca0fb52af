"""The registry's table: where it must be, what it says of secrets, and which models can have one."""

import pytest

from connectors.base import AVRO, PROTOBUF
from connectors.registry.settings import RegistrySettings
from oracle.errors import InputError
from oracle.hosting import registered
from oracle.hosting.kafka_settings import kafka_settings
from oracle.hosting.registered import SchemaRegistry, open_registry
from tests.predictors.examples import example
from tests.support.configs import SECRET, refusal, write_secret
from tests.support.shards import small_plan

_SINK = '[sink]\nkind = "kafka"\ntopic = "a"\n'
_CLUSTER = '[kafka]\nservers = ["b1:9092"]\n'
_URL = '[kafka.registry]\nurl = "https://r:8081/api/"\n'


def _source(form):
    return f'[source]\nkind = "kafka"\ntopic = "q"\nformat = "{form}"\n'


@pytest.fixture
def registry(load):
    """A function that opens the registry of these tables."""

    def opened(*tables: str, form: str = "avro") -> tuple[SchemaRegistry, RegistrySettings]:
        found = open_registry(load(_source(form), _SINK, _CLUSTER, *tables), small_plan())
        assert found is not None
        return found, found.client._settings

    return opened


def test_least_table(registry, load):
    """A URL is enough; without a registry there is none."""
    found, settings = registry(_URL)
    assert (found.content_type, found.kind, found.subject, found.new) == (AVRO, "AVRO", "a-value", True)
    assert settings == RegistrySettings("https://r:8081/api/")
    assert registry(_URL, form="protobuf")[0].kind == "PROTOBUF"
    config = load(_source("protobuf"), _SINK, _CLUSTER, _URL)
    assert kafka_settings(config, "m").content_type == PROTOBUF
    assert open_registry(load(_source("json"), _SINK, _CLUSTER), small_plan()) is None


@pytest.mark.parametrize(
    ("subject", "name"), [("record", "perpetua.tiny.Answer"), ("topic-record", "a-perpetua.tiny.Answer")]
)
def test_subjects(registry, subject, name):
    """As Confluent's strategies have them."""
    found, _ = registry(_URL, f'subject = "{subject}"\nregister_answers = false\n')
    assert (found.subject, found.new) == (name, False)


def test_what_ids_mean_is_kept_by_the_url(registry):
    """Another registry's ids mean something else; a slash at the end says nothing."""
    first, same, other = (registry(f'[kafka.registry]\nurl = "http://r{end}"\n')[0].file for end in ("", "/", "/x"))
    assert first == same != other


def test_secrets_come_from_files_and_the_environment(registry, tmp_path, monkeypatch):
    """They are shown nowhere."""
    write_secret(tmp_path / "pw", f"{SECRET}\n")
    _, settings = registry(_URL, f'username = "u"\npassword_file = "{tmp_path / "pw"}"\n')
    assert (settings.username, settings.password) == ("u", SECRET)
    monkeypatch.setenv("PERPETUA_KAFKA__REGISTRY__TOKEN", SECRET)
    found, settings = registry(_URL)
    assert settings.token == SECRET
    assert SECRET not in repr(found)


@pytest.mark.parametrize(
    ("tables", "named"),
    [
        ((f'[kafka.registry]\nurl = "http://u:{SECRET}@r"\n',), "kafka.registry.url"),
        (('[kafka.registry]\nurl = "ftp://r"\n',), "kafka.registry.url"),
        (('[kafka.registry]\nurl = "http://r?x"\n',), "kafka.registry.url"),
        ((_URL, f'password = "{SECRET}"\n'), "kafka.registry.password"),
        ((_URL, f'token = "{SECRET}"\n'), "kafka.registry.token"),
        ((_URL, 'username = "u"\n'), "kafka.registry.username"),
        ((_URL, 'subject = "x"\n'), "kafka.registry.subject"),
        ((_URL.replace("https", "http"), "[kafka.registry.tls]\n"), "kafka.registry.url"),
        ((), "kafka.registry"),
    ],
)
def test_what_is_wrong_is_named(registry, tables, named):
    """By the field, and without a secret."""
    assert named in refusal(lambda: registry(*tables))


@pytest.mark.parametrize("setting", ["token_file", "password_file"])
def test_a_secret_is_sent_to_no_other_machine_in_the_clear(registry, tmp_path, setting):
    """By https, or to this machine; without a secret http will do."""
    write_secret(tmp_path / "s", SECRET)
    tables = 'username = "u"\n' * (setting == "password_file") + f'{setting} = "{tmp_path / "s"}"\n'
    for url in ("https://r", "http://127.0.0.1:8081", "http://localhost"):
        registry(_URL.replace("https://r:8081/api/", url), tables)
    plain = _URL.replace("https", "http")
    assert "kafka.registry.url" in refusal(lambda: registry(plain, tables))
    registry(plain)


def test_a_registry_without_a_format_is_refused(load):
    """It would say nothing."""
    assert "kafka.registry" in refusal(lambda: load(_source("json"), _SINK, _CLUSTER, _URL))


@pytest.mark.parametrize("predictor", ["statistics", "sparse-vector", "distribution"])
def test_questions_are_json_only(load, predictor):
    """Said before anything is served."""
    config = load(_source("avro"), _SINK, _CLUSTER, _URL)
    with pytest.raises(InputError, match="must be json: questions"):
        open_registry(config, example(predictor))


@pytest.mark.parametrize("predictor", ["rectangles", "stumps", "bisection", "classical", "ensemble"])
@pytest.mark.parametrize("form", ["avro", "protobuf"])
def test_every_other_model_has_schemas(load, predictor, form):
    """Of queries and of answers."""
    assert open_registry(load(_source(form), _SINK, _CLUSTER, _URL), example(predictor)) is not None


def test_a_missing_extra_is_named(load, monkeypatch):
    """With the command that installs it."""
    monkeypatch.setattr(registered, "find_spec", lambda _name: None)
    with pytest.raises(InputError, match=r"pip install 'perpetua\[schemas\]'"):
        open_registry(load(_source("avro"), _SINK, _CLUSTER, _URL), small_plan())


def test_a_standby_and_later_labels_go_with_schemas(load):
    """Both read what the daemon has read or written."""
    config = load(_source("avro") + "standby = true\n", _SINK, _CLUSTER, _URL, '[truth]\nfolder = "t"\ntopic = "l"\n')
    assert (config.source.standby, config.truth.topic) == (True, "l")
