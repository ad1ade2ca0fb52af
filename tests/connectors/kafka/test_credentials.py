"""What a connection is made with: the files as they are, or as they last could be used, and tokens in good time."""

import io

import msgspec
import pytest

from connectors.kafka.errors import UnprovenError
from connectors.kafka.rights import grant
from connectors.kafka.security import OAuth, Sasl, Security
from connectors.kafka.settings import KafkaSettings
from connectors.kafka.tokens import FetchedToken, TokenEndpoint, _Given
from connectors.tls import Tls
from oracle.errors import BusError, InputError, RefusedError, StorageError
from oracle.telemetry.client_logs import LibraryLog, hear_client
from oracle.telemetry.log import PublicLog
from tests.support.certificates import Authority
from tests.support.configs import write_secret


@pytest.fixture
def lines():
    """A function that returns what was logged so far, as a daemon logs what its connectors say."""
    stream, clock = io.StringIO(), iter(range(0, 1000, 20))
    hear_client(LibraryLog(PublicLog(stream, "json", "m"), clock=lambda: next(clock)))
    yield lambda: [msgspec.json.decode(line) for line in stream.getvalue().splitlines()]
    hear_client()


def test_certificates_are_those_of_the_files_or_the_last_that_could_be_used(tmp_path, lines):
    """A new pair makes a new context; a half of one keeps the old context, and the log says so, once."""
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    certificate, key = tmp_path / "client.pem", tmp_path / "client.key"
    write_secret(certificate, old.issue("one").read_text())
    write_secret(key, (tmp_path / "one.pem").read_text())
    security = Security(Tls(old.certificate, certificate, key))
    first = security.options()["ssl_context"]
    assert security.options()["ssl_context"] is first
    write_secret(certificate, new.issue("two").read_text())  # whose key comes a moment later
    assert security.options()["ssl_context"] is security.options()["ssl_context"] is first
    assert [(line["event"], line["kind"], line["reason"]) for line in lines()] == [
        ("bus.client", "kafka", "kafka.tls: its files have changed and cannot be used; the old ones are kept")
    ]
    write_secret(key, (tmp_path / "two.pem").read_text())
    assert security.options()["ssl_context"] is not first


def test_password_is_that_of_the_file_or_the_last_that_could_be_read(tmp_path, lines):
    """Empty, gone, or open to others: the old one is kept, and told of without either."""
    file = write_secret(tmp_path / "password", "first\n")
    security = Security(sasl=Sasl("PLAIN", "me", "first", file))

    def password():
        return security.options()["sasl_plain_password"]

    assert password() == "first"
    write_secret(file, "")
    assert password() == "first"
    file.unlink()
    assert password() == "first"
    write_secret(file, "second").chmod(0o644)
    assert password() == "first"
    file.chmod(0o600)
    assert password() == "second"
    said = {line["reason"] for line in lines()}
    assert said == {"kafka.sasl: its file has changed and cannot be used; the old secret is kept"}
    assert Security(sasl=Sasl("PLAIN", "me", "stays")).options()["sasl_plain_password"] == "stays"  # noqa: S105 -- the test's own


def test_what_never_could_be_used_is_refused(tmp_path):
    """At the first connection, by name."""
    with pytest.raises(StorageError, match=r"kafka\.sasl\.password_file = .*: cannot be read"):
        Security(sasl=Sasl("PLAIN", "me", "", tmp_path / "none")).options()


def test_a_refusal_may_pass_for_who_was_in_and_has_files(tmp_path):
    """Of TLS and of passwords apart."""
    file = tmp_path / "file"
    security = Security(Tls(), Sasl("PLAIN", "me", "", file))
    assert not security.may_pass("kafka.sasl")
    security.entered = True
    assert (security.may_pass("kafka.sasl"), security.may_pass("kafka.tls")) == (True, False)


async def test_a_token_of_a_file_comes_as_it_is_now(tmp_path):
    """Its errors come as the client's own, with ours as the cause."""
    file = write_secret(tmp_path / "token", "one\n")
    provider = Security(sasl=OAuth(file, {"logicalCluster": "lkc"})).options()["sasl_oauth_token_provider"]
    assert (await provider.token(), provider.extensions()) == ("one", {"logicalCluster": "lkc"})
    write_secret(file, "a b")
    assert await provider.token() == "one"
    write_secret(file, "two")
    assert await provider.token() == "two"
    fresh = Security(sasl=OAuth(tmp_path / "none")).options()["sasl_oauth_token_provider"]
    with pytest.raises(UnprovenError) as caught:
        await fresh.token()
    assert isinstance(caught.value.__cause__, StorageError)
    assert not isinstance(caught.value.__cause__, InputError)


class _Scripted(FetchedToken):
    """Fetches what a script says: seconds that a token is good for, or an error."""

    def __init__(self, script):
        self.now, self.script, self.kept = 0.0, list(script), 0
        endpoint = TokenEndpoint("https://authority.example/t", "me", "secret")
        super().__init__(endpoint, {}, self._on_kept_here, clock=lambda: self.now)

    def _on_kept_here(self):
        self.kept += 1

    async def _fetch(self, now):
        life = self.script.pop(0)
        if isinstance(life, Exception):
            raise life
        return _Given(f"token at {now:g}", now + 0.8 * life, now + life)


async def test_tokens_are_fetched_in_good_time_and_old_ones_used_as_long_as_they_are_good():
    """At four fifths of its life another one is asked for; a server that fails is left alone for a while."""
    down = BusError("down")
    tokens = _Scripted([100, 100, down, down, RefusedError("no"), 50])
    found = []
    for tokens.now in (0, 79, 80, 159, 161, 161.01, 165, 179.9):
        found.append(await tokens.current())
    assert found == ["token at 0"] * 2 + ["token at 80"] * 6
    assert tokens.kept == 1
    assert len(tokens.script) <= 2  # of the fetches that fail, not each time that somebody asked
    tokens.script = [RefusedError("no"), 50]
    tokens.now = 200
    with pytest.raises(RefusedError, match="no"):
        await tokens.current()
    with pytest.raises(RefusedError, match="no"):
        await tokens.current()  # at once, without asking again
    tokens.now = 240
    assert await tokens.current() == "token at 240"


def test_rights_of_who_has_no_name_are_told_for_whoever_it_is(tmp_path):
    """The brokers make the principal of the token."""
    settings = KafkaSettings(
        servers=("b:9092",), topic="q", answers="a", group="g", model="m", security=Security(sasl=OAuth(tmp_path))
    )
    assert "--allow-principal User:NAME --operation Read" in grant(settings, "Read", "topic", "q")
