"""Bearer tokens on a real broker that checks their signatures: out of files, and of an authorization server."""

import asyncio
import os

import pytest

import oracle
from oracle.config.daemon import load_config
from oracle.errors import BusError, RefusedError
from oracle.hosting.kafka import check_topics, open_model
from tests.connectors.kafka.conftest import unique_name
from tests.support.broker import Broker
from tests.support.certificates import Authority
from tests.support.configs import write_secret
from tests.support.folders import perpetua
from tests.support.kafka import KafkaModelUnderTest
from tests.support.kafka_here import run_here, serve_here
from tests.support.oauth import AUDIENCE, ISSUER, TokenAuthority
from tests.support.shards import bodies
from tests.support.waiting import TIMEOUT, until

# A connection that is refused while it shakes hands is closed by the collector: the client forgets it.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

_MODULES = "org.apache.kafka.common.security.oauthbearer"
_SECRET = "of the client +/é"  # noqa: S105 -- a secret of the test's own
_SERVED = 5


class Cluster:
    """A broker that lets in who has a token of an authority, for a few seconds each time; and that authority."""

    def __init__(self, folder, monkeypatch):
        self.folder = folder
        self.certificates = Authority(folder)
        self.tokens, self.stranger = TokenAuthority(folder), TokenAuthority(folder / "stranger")
        self.tokens.clients["perpetua"] = _SECRET
        keys = self.tokens.keys.as_uri()
        monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys}")
        listener = "listener.name.tokens."
        self.broker = Broker(
            folder / "broker",
            listeners={"TOKENS": "SASL_SSL"},
            properties={
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.certificates.issue("broker")),
                f"{listener}sasl.enabled.mechanisms": "OAUTHBEARER",
                f"{listener}oauthbearer.sasl.jaas.config": f"{_MODULES}.OAuthBearerLoginModule required;",
                f"{listener}oauthbearer.sasl.server.callback.handler.class": (
                    f"{_MODULES}.OAuthBearerValidatorCallbackHandler"
                ),
                "sasl.oauthbearer.jwt.validator.class": f"{_MODULES}.BrokerJwtValidator",
                "sasl.oauthbearer.jwks.endpoint.url": keys,
                "sasl.oauthbearer.expected.audience": AUDIENCE,
                "sasl.oauthbearer.expected.issuer": ISSUER,
                # As tokens end: the broker closes every connection that is older.
                f"{listener}oauthbearer.connections.max.reauth.ms": "2000",
            },
        )

    def token(self, name, token):
        """Write a token's file, whole or not at all, and return it."""
        path = self.folder / f"{name}.token"
        fresh = write_secret(self.folder / f"{name}.fresh", f"{token}\n")
        fresh.replace(path)
        return path

    def table(self, **sasl):
        """Return the tables of TLS and of these settings of SASL."""
        lines = [f'{name} = "{value}"' for name, value in {"mechanism": "OAUTHBEARER", **sasl}.items()]
        return f'[kafka.tls]\nca_file = "{self.certificates.certificate}"\n[kafka.sasl]\n' + "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The broker of these tests."""
    folder = tmp_path_factory.mktemp("tokens")
    (folder / "stranger").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        made = Cluster(folder, patch)
        with made.broker:
            yield made


@pytest.fixture
def model(cluster, request, tmp_path):
    """A model on the broker of these tests."""
    made = KafkaModelUnderTest(cluster.broker, unique_name(request), tmp_path).create()
    yield made
    made.end()


@pytest.fixture
def endpoint(cluster):
    """The address of the authorization server."""
    tokens = cluster.tokens
    tokens.given, tokens.failed, tokens.life, tokens.failing = 0, 0, 3600, None
    with tokens.served(cluster.certificates.issue("endpoint")) as url:
        yield url


def _config(cluster, model, **sasl):
    path = model.config(extra=cluster.table(**sasl))
    address = cluster.broker.listener("TOKENS")
    path.write_text(path.read_text().replace(f'"{cluster.broker.servers}"', f'"{address}"'))
    return path


def _fetched(cluster, endpoint, secret=_SECRET):
    file = write_secret(cluster.folder / "client.secret", f"{secret}\n")
    return {
        "token_endpoint": endpoint,
        "client_id": "perpetua",
        "client_secret_file": file,
        "token_ca_file": cluster.certificates.certificate,
        "scope": "kafka",
    }


def test_a_token_of_a_file_serves_and_outlives_the_brokers_patience(cluster, model):
    """All clients of a daemon are let in by it; the broker closes connections every two seconds, and all is answered.

    The token is exchanged meanwhile, as whoever projects it does; the old one is good no more by then.
    """
    config = _config(cluster, model, token_file=cluster.token("mine", cluster.tokens.token("perpetua", life=6)))
    contents = bodies(4 * _SERVED)
    asked = [0]

    def done(_log):
        if asked[0] < len(contents) and model.count() >= asked[0]:
            if asked[0]:
                cluster.token("mine", cluster.tokens.token("perpetua", life=6))
                asyncio.run(asyncio.sleep(3))  # the broker's patience, and a little
            model.ask(contents[asked[0] : asked[0] + _SERVED])
            asked[0] += _SERVED
        return model.count() >= len(contents)

    log = serve_here(config, done)
    assert [answer.value for answer in model.read()] == model.expected(contents)
    assert [line["event"] for line in log].count("shard.failed") == 0


def test_a_token_is_fetched_once_for_all_clients_and_again_before_it_ends(cluster, model, endpoint):
    """Membership, sources, sinks and looks share one; a server that fails for a while stops nothing."""
    config = _config(cluster, model, **_fetched(cluster, endpoint))
    contents = bodies(2 * _SERVED)
    model.ask(contents[:_SERVED])
    serve_here(config, lambda _log: model.count() >= _SERVED)
    assert cluster.tokens.given == 1
    cluster.tokens.life = 4
    asked: list[bool] = []

    def done(_log):
        if cluster.tokens.given >= 3 and not asked:
            cluster.tokens.failing = (503, {"error": "temporarily_unavailable"})
            model.ask(contents[_SERVED:])
            asked.append(True)
        if cluster.tokens.failed >= 2:
            cluster.tokens.failing = None
        return bool(asked) and cluster.tokens.failing is None and model.count() >= len(contents)

    serve_here(config, done)
    assert [answer.value for answer in model.read()] == model.expected(contents)


def test_check_topics_and_askers_are_let_in_too(cluster, model, endpoint):
    """Each command, and a client in Python, with the words of the configuration."""
    config = _config(cluster, model, **_fetched(cluster, endpoint))
    checked = perpetua("check", config, "--json", SSL_CERT_FILE=os.devnull)
    assert b"topics exist and fit the plan" in checked.stdout
    assert b"ACLs allow" in checked.stdout
    assert _SECRET.encode() not in checked.stdout + checked.stderr
    assert perpetua("topics", config).returncode == 0
    sasl = {"mechanism": "OAUTHBEARER", "token_file": str(cluster.token("asker", cluster.tokens.token("asker")))}
    tls = {"ca_file": str(cluster.certificates.certificate)}

    async def ask():
        listener = cluster.broker.listener("TOKENS")
        async with oracle.Client.kafka(listener, model.queries, model.answers, tls=tls, sasl=sasl) as client:
            question = await client.send({"id": "q", "x": [0.5, 0.5]})
            await until(lambda: question.written)
            serving = asyncio.create_task(asyncio.to_thread(serve_here, config, lambda _log: model.count() > 0))
            answer = await question.answer(TIMEOUT)
            await serving
            return answer["id"]

    assert run_here(ask()) == "q"


@pytest.mark.parametrize(
    ("token", "said"),
    [
        (lambda cluster: cluster.tokens.token("perpetua", life=-600), "its token has expired"),
        (lambda cluster: cluster.tokens.token("perpetua", life=-45), "SaslAuthenticationFailed"),
        (lambda cluster: cluster.tokens.token("perpetua", audience="others"), "SaslAuthenticationFailed"),
        (lambda cluster: cluster.stranger.token("perpetua"), "SaslAuthenticationFailed"),
        (lambda _: "nonsense", "SaslAuthenticationFailed"),
        (lambda _: "two words", "must contain one token"),
        (lambda _: "a\x01auth=Bearer b", "must contain one token"),
        (lambda _: "", "must contain one token"),
    ],
)
def test_a_token_that_is_no_good_is_refused_and_not_shown(cluster, model, token, said):
    """Expired, for others, of another authority, none at all: told at once, by the broker's words or by ours."""
    given = token(cluster)
    config = _config(cluster, model, token_file=cluster.token("bad", given))
    with pytest.raises(RefusedError, match=said) as caught:
        serve_here(config, lambda _log: False)
    assert not given or given not in str(caught.value)


@pytest.mark.parametrize(
    ("failing", "secret", "kind", "said"),
    [
        (None, "wrong", RefusedError, r"token_endpoint: status 401, invalid_client; check kafka\.sasl\.client_id"),
        ((400, {"error": "invalid_scope"}), _SECRET, RefusedError, "status 400, invalid_scope"),
        ((400, {"error": _SECRET}), _SECRET, RefusedError, "status 400;"),
        ((503, "down"), _SECRET, BusError, "status 503"),
        ((302, {}), _SECRET, BusError, "status 302"),
        ((200, {"access_token": "a b"}), _SECRET, BusError, "no bearer token"),
        ((200, {"access_token": 7}), _SECRET, BusError, "its answer is no token"),
        ((200, {"access_token": "a", "token_type": "mac"}), _SECRET, BusError, "no bearer token"),
        ((200, ["a" * 300_000]), _SECRET, BusError, "its answer is no token"),
        ((200, {"access_token": "a", "expires_in": "soon"}), _SECRET, BusError, "its answer is no token"),
    ],
)
def test_what_the_authorization_server_says_is_told(request, failing, secret, kind, said):
    """A refusal is one, whatever may pass is tried again; of its words only those of the standard are repeated."""
    cluster, model, endpoint = map(request.getfixturevalue, ("cluster", "model", "endpoint"))
    cluster.tokens.failing = failing
    config = load_config(_config(cluster, model, **_fetched(cluster, endpoint, secret)))
    with pytest.raises(kind, match=said) as caught:
        run_here(check_topics(open_model(config)))
    assert _SECRET not in str(caught.value)


def test_a_server_with_another_certificate_gets_no_secret(cluster, model):
    """It is not asked, and the error says why."""
    false = Authority(cluster.folder / "stranger", "false")
    cluster.tokens.given = 0
    with cluster.tokens.served(false.issue("false-endpoint")) as url:
        config = load_config(_config(cluster, model, **_fetched(cluster, url)))
        with pytest.raises(BusError, match="token_endpoint: no answer: its certificate is not trusted"):
            run_here(check_topics(open_model(config)))
    assert cluster.tokens.given == 0
