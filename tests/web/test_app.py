"""The web server on a real port, in front of a registry: paths, headers, the token, and clients that misbehave."""

import asyncio
import contextlib
import io
import json
import socket

import httpx
import msgspec
import pytest

from oracle.config.web import WebConfig
from oracle.errors import BusError, InputError
from oracle.planning.kinds import KINDS
from oracle.planning.promise import Promise, promise_of
from oracle.predictors.base import PublicFacts
from oracle.telemetry.log import PublicLog
from oracle.telemetry.models import Models
from oracle.telemetry.registry import Registry
from oracle.telemetry.watch import watching
from oracle.web import server
from oracle.web.guard import HEADERS
from oracle.web.server import listen, serving
from tests.predictors.examples import example
from tests.support.printed import printed
from tests.support.shards import small_plan
from tests.support.waiting import TIMEOUT, until

_PATHS = ["/livez", "/readyz", "/metrics", "/status", "/", "/static/page.css", "/static/page.js"]
_WRONG = [
    *["Bearer s3cret-of-the-sit", "Bearer s3cret-of-the-sites", "Basic s3cret-of-the-site", "s3cret-of-the-site"],
    "Bearer é",
]
_OPEN = {"/livez", "/", "/static/page.css", "/static/page.js"}


class _Site:
    """What a test has of a running web server."""

    def __init__(self, registry, output, port):
        self.registry = registry
        self.output = output
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    async def ask(self, path, method="GET", **headers):
        async with httpx.AsyncClient(trust_env=False, timeout=TIMEOUT) as client:
            return await client.request(method, self.url + path, headers=headers)

    def events(self):
        return [json.loads(line) for line in self.output.getvalue().splitlines()]


@contextlib.asynccontextmanager
async def _site(folder, *, grouped=False, plan=None, **settings):
    output = io.StringIO()
    log = PublicLog(output, "json", "tiny")
    registry = Registry(plan or small_plan(), log, version="1.2", grouped=grouped)
    models = Models.only(registry, lambda _shard: folder, log)
    table = WebConfig(port=0, **settings)
    async with (
        watching(models, table.ready_lag_seconds, log) as observers,
        serving(table, observers, log),
    ):
        (listening,) = [json.loads(line) for line in output.getvalue().splitlines()]
        assert listening["event"] == "web.listening"
        yield _Site(registry, output, listening["port"])


def _serve(registry, shard=0):
    reporter = registry.shard(shard)
    reporter.restoring(lambda: None)
    reporter.restored(PublicFacts(20, 1, 20, small_plan().phases[0].rounds, 0), 0, 0.1)
    reporter.serving()
    return reporter


@pytest.fixture
def token(tmp_path):
    """Return a token file that its owner only can read; it holds "s3cret-of-the-site"."""
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_text("s3cret-of-the-site\n")
    return path


async def test_every_answer_has_the_careful_headers(tmp_path):
    """Those of every path, of one that is not there, of a method that is not allowed, and of no HTTP at all."""
    async with _site(tmp_path) as site:
        answers = [await site.ask(path) for path in [*_PATHS, "/none", "/livez/"]]
        answers.append(await site.ask("/", "POST"))
        assert [answer.status_code for answer in answers] == [200] * len(_PATHS) + [404, 404, 405]
        for answer in answers:
            assert {name: answer.headers[name] for name in HEADERS} == HEADERS
            assert "server" not in answer.headers
        raw = await _raw(site.port, b"NO HTTP\r\n\r\n")
    assert raw.startswith(b"HTTP/1.1 400 ")
    assert all(f"{name}: {value}".encode() in raw for name, value in HEADERS.items())


async def _raw(port, data):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    answer = await asyncio.wait_for(reader.read(), TIMEOUT)
    writer.close()
    return answer


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
async def test_it_is_to_be_looked_at_only(tmp_path, method):
    """Any other method than GET and HEAD is refused, at paths that are there and at others."""
    async with _site(tmp_path) as site:
        for path in (*_PATHS, "/none"):
            answer = await site.ask(path, method)
            assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


async def test_head_is_get_without_a_body(tmp_path):
    """Its headers are the same."""
    async with _site(tmp_path) as site:
        for path in _PATHS:
            answer = await site.ask(path, "HEAD")
            assert (answer.status_code, answer.content) == (200, b"")


async def test_metrics_by_accept(tmp_path):
    """OpenMetrics for whoever asks for it, else Prometheus's text."""
    async with _site(tmp_path) as site:
        plain = await site.ask("/metrics")
        assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
        fine = await site.ask("/metrics", Accept="application/openmetrics-text;version=1.0.0;q=0.9,*/*;q=0.1")
        odd = await site.ask("/metrics", Accept="application/openmetrics-text;version=x")
    assert (odd.status_code, odd.headers["content-type"]) == (200, plain.headers["content-type"])
    assert fine.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert fine.text.endswith("# EOF\n")
    assert "perpetua_build_info" in plain.text


async def test_readiness_in_words(tmp_path):
    """503 and every reason, by shard; 200 and what it is doing."""
    async with _site(tmp_path, grouped=True) as site:
        outside = await site.ask("/readyz")
        site.registry.joined()
        standby = await site.ask("/readyz")
        site.registry.assigned(3)
        waiting = await site.ask("/readyz")
        reporter = _serve(site.registry, 3)
        serving_one = await site.ask("/readyz")
        reporter.fenced()
        fenced = await site.ask("/readyz")
    assert (outside.status_code, outside.json()["ready"]) == (503, False)
    (reason,) = outside.json()["not_ready"]
    assert (reason["shard"], reason["check"]) == (None, "restored")
    assert (standby.status_code, standby.json()["ready"]) == (200, True)
    assert "standby" in standby.json()["text"]
    assert waiting.json()["not_ready"] == [{"shard": 3, "check": "restored", "text": "shard 3 is waiting for the bus"}]
    assert serving_one.json() == {"ready": True, "not_ready": [], "text": "serving 1 shard"}
    assert fenced.status_code == 503
    assert fenced.json()["not_ready"][0]["check"] == "fenced"


async def test_status(tmp_path):
    """All fields are there; sums are over the shards; errors are the newest first."""
    async with _site(tmp_path) as site:
        first, _ = _serve(site.registry, 0), _serve(site.registry, 1)
        first.bus_failed(BusError("nobody answers"))
        found = (await site.ask("/status")).json()
        plan, (record, _) = small_plan(), site.registry.telemetry.shards
    assert list(found) == [
        *["version", "model", "profile", "predictor", "alpha", "promise", "proved", "protects_queries", "released"],
        "sums_delta",
        *[
            "now",
            "started",
            "ready",
            "not_ready",
            "epsilon",
            "declared",
            "paid_limit",
            "settles",
            "rests",
            "schedule",
            "delta_spent",
            "delta_limit",
            "shards",
            "history",
            "errors",
        ],
    ]
    assert (found["version"], found["model"], found["profile"], found["proved"]) == ("1.2", plan.name, "tight", True)
    assert found["protects_queries"] is True
    assert (found["epsilon"], found["delta_limit"]) == (plan.epsilon, 2 * plan.delta)
    assert found["delta_spent"] == pytest.approx(2 * record.delta_spent)
    assert (found["ready"], found["not_ready"][0]["check"]) == (False, "restored")
    shard = found["shards"][0]
    assert list(shard) == [
        *["shard", "state", "round", "phase", "phases", "phase_round", "phase_rounds", "rearms"],
        *[
            "paid",
            "rested",
            "rest_left",
            "delta",
            "delta_spent",
            "delta_limit",
            "batches",
            "rejections",
            "lag_records",
            "lag_seconds",
        ],
        *["snapshot_at", "snapshot_bytes", "rate"],
    ]
    assert (shard["state"], shard["round"], shard["rejections"], shard["lag_records"]) == ("waiting", 20, {}, None)
    assert list(found["history"]) == ["seconds", "ends", "rates", "lags"]
    (error,) = found["errors"]
    assert (error["shard"], error["event"], error["text"]) == (0, "bus.unavailable", "nobody answers")


@pytest.mark.parametrize("predictor", KINDS)
async def test_status_of_every_kind(tmp_path, predictor):
    """It says whom epsilon and delta are about, and which models' queries cost nothing, of which no delta is spent."""
    plan = example(predictor)
    async with _site(tmp_path, plan=plan) as site:
        site.registry.shard(0)
        found = (await site.ask("/status")).json()
    assert found["protects_queries"] == plan.protects_queries
    assert found["released"] == (predictor == "classical")
    assert (found["delta_limit"] == 0.0) == (found["delta_spent"] == 0.0) == found["released"]
    assert (found["predictor"], found["alpha"], found["declared"]) == (predictor, plan.alpha, plan.declared)
    assert msgspec.convert(found["promise"], Promise) == promise_of(plan)
    phases = [(phase["rounds"], phase["delta"]) for phase in found["schedule"]]
    assert phases == [(phase.rounds, phase.delta) for phase in plan.phases]


async def test_token(tmp_path, token):
    """Every path but /livez and the page's files asks for it; a wrong one, half of it, or another scheme are none."""
    async with _site(tmp_path, token_file=token) as site:
        for path in _OPEN:
            assert (await site.ask(path)).status_code == 200
        for path in [*(path for path in _PATHS if path not in _OPEN), "/none", "//", "/static/"]:
            for shown in (None, "", "Bearer", *_WRONG):
                headers = {} if shown is None else {"Authorization": shown.encode("latin-1")}
                answer = await site.ask(path, **headers)
                assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
                assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        for shown in ("Bearer s3cret-of-the-site", "bearer s3cret-of-the-site"):
            assert (await site.ask("/metrics", Authorization=shown)).status_code == 200
    assert "s3cret" not in site.output.getvalue()


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        ("s3cret-of-the-site", 0o644, "chmod 600"),
        ("", 0o600, "one token on one line"),
        ("\n", 0o600, "one token on one line"),
        ("two words", 0o600, "one token on one line"),
        ("two\nlines", 0o600, "one token on one line"),
        ("é", 0o600, "one token on one line"),
        ("fifteen-letters", 0o600, "at least 16 characters"),
        (None, 0o600, "No such file"),
    ],
)
async def test_token_file_that_is_none(tmp_path, token, content, mode, words):
    """It is refused by the setting's name, before anything is listened at."""
    token.write_text(content or "")
    token.chmod(mode)
    if content is None:
        token.unlink()
    with pytest.raises(InputError, match=r"web\.token_file") as caught:
        async with _site(tmp_path, token_file=token):
            pass
    assert words in str(caught.value)


def test_port_that_is_taken():
    """It is said by the setting's name."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(InputError, match=rf"web\.port = {port}: in use by another process at 127\.0\.0\.1"):
            listen(WebConfig(port=port))


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_host_that_is_not_here(token, host):
    """An address of somebody else's, and a name of nobody's."""
    with pytest.raises(InputError, match=r"web\.host"):
        listen(WebConfig(host=host, port=0, token_file=token))


async def test_it_listens_at_ipv6_too(tmp_path):
    """As its loopback address needs no token either."""
    async with _site(tmp_path, host="::1") as site, httpx.AsyncClient(trust_env=False, timeout=TIMEOUT) as client:
        assert (await client.get(f"http://[::1]:{site.port}/livez")).status_code == 200


async def test_connections_are_bounded_and_silent_ones_make_room(tmp_path, monkeypatch):
    """One more than there may be takes the place of the one that has been idle longest; no other is closed."""
    monkeypatch.setattr(server, "_CONNECTIONS", 3)
    async with _site(tmp_path) as site:
        held = []
        for _ in range(3):
            held.append(await asyncio.open_connection("127.0.0.1", site.port))
            await asyncio.sleep(0.05)
        await _asked(*held[0])  # now the second one has been idle longest
        assert (await site.ask("/livez")).status_code == 200
        assert await asyncio.wait_for(held[1][0].read(), TIMEOUT) == b""
        for number in (0, 2):
            assert await _asked(*held[number]) == b"HTTP/1.1 200 OK\r\n"
        for _, writer in held:
            writer.close()


async def _asked(reader, writer):
    """Ask for life on a connection that stays; return the first line of the answer."""
    writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = await asyncio.wait_for(reader.readuntil(b"alive\n"), TIMEOUT)
    return answer.partition(b"\n")[0] + b"\n"


async def test_a_crowd_of_silent_connections_locks_nobody_out(tmp_path, monkeypatch):
    """Also if they come at once, no more than may be are kept, and every probe is answered."""
    monkeypatch.setattr(server, "_CONNECTIONS", 3)
    async with _site(tmp_path) as site:
        opened = await asyncio.gather(*(asyncio.open_connection("127.0.0.1", site.port) for _ in range(12)))
        for _ in range(5):
            assert (await site.ask("/livez")).status_code == 200
        await until(lambda: sum(not reader.at_eof() for reader, _ in opened) <= 3)
        for _, writer in opened:
            writer.close()


async def test_answers_under_way_are_not_dropped(tmp_path, monkeypatch):
    """Where every connection there may be waits for its answer, it is the new one that is closed."""
    monkeypatch.setattr(server, "_CONNECTIONS", 1)
    answering, go_on = asyncio.Event(), asyncio.Event()

    async def app(_scope, _receive, send):
        answering.set()
        await go_on.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"6")]})
        await send({"type": "http.response.body", "body": b"alive\n"})

    monkeypatch.setattr(server, "make_app", lambda *_, **__: app)
    async with _site(tmp_path) as site:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        first = asyncio.create_task(_asked(reader, writer))
        await answering.wait()
        with pytest.raises(httpx.TransportError):
            await site.ask("/livez")
        go_on.set()
        assert await first == b"HTTP/1.1 200 OK\r\n"
        writer.close()


@pytest.mark.parametrize(
    ("host", "code"),
    [
        *[("localhost", 200), ("LOCALHOST:9464", 200), ("127.0.0.1:1", 200), ("127.9.8.7", 200), ("[::1]:9464", 200)],
        *[("attacker.example", 421), ("attacker.example:9464", 421), ("localhost.attacker.example", 421)],
        *[("10.1.2.3", 421), ("[fe80::1]", 421), ("localhost@attacker.example", 421), ("attacker@localhost", 421)],
        *[("", 421), ("[::1", 421), ("127.0.0.1.attacker.example", 421)],
    ],
)
async def test_without_a_token_the_host_must_be_this_machine(tmp_path, host, code):
    """A page of somebody else's, whose name has come to mean this machine, reads nothing through the browser."""
    async with _site(tmp_path) as site:
        for path in ("/livez", "/metrics", "/none"):
            answer = await site.ask(path, Host=host)
            assert answer.status_code == (404 if code == 200 and path == "/none" else code)
            assert {name: answer.headers[name] for name in HEADERS} == HEADERS


async def test_with_a_token_any_host_will_do(tmp_path, token):
    """Who knows the token is no stranger's page; life is told to whoever asks, as by a node at the pod's address."""
    async with _site(tmp_path, token_file=token) as site:
        assert (await site.ask("/livez", Host="10.1.2.3:9464")).status_code == 200
        shown = {"Authorization": "Bearer s3cret-of-the-site", "Host": "perpetua.example"}
        assert (await site.ask("/status", **shown)).status_code == 200


@pytest.mark.parametrize("drop", [b"", b"G"])
async def test_slow_clients_are_not_waited_for(tmp_path, monkeypatch, drop):
    """A connection on which no whole request comes is closed, whatever comes on it."""
    monkeypatch.setattr(server, "_REQUEST_SECONDS", 0.3)
    async with _site(tmp_path) as site:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                writer.write(drop)
                await asyncio.sleep(0.01)
                if reader.at_eof():
                    break
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), TIMEOUT) == b""
        writer.close()


async def test_an_endless_header_is_refused(tmp_path):
    """More than 16 KiB of it are not kept."""
    async with _site(tmp_path) as site:
        answer = await _raw(site.port, b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000)
    assert answer.startswith(b"HTTP/1.1 400 ")


async def test_what_it_logs_is_of_the_closed_vocabulary(tmp_path, capfd):
    """Nothing of a request is in any line, and nothing goes past the log."""
    async with _site(tmp_path) as site:
        await site.ask("/secret-path?x=0.123", Cookie="secret-cookie")
        await _raw(site.port, b"SECRET REQUEST\r\n\r\n")
    lines = site.events()
    assert {line["event"] for line in lines} == {"web.listening", "web.server"}
    assert {(line.get("kind"), line.get("reason")) for line in lines} == {
        (None, None),
        ("uvicorn.error", "Invalid HTTP request received."),
    }
    assert "ecret" not in site.output.getvalue()
    assert "SECRET" not in site.output.getvalue()
    assert printed(capfd) == ("", "")


async def test_it_leaves_nothing_behind(tmp_path):
    """When it has stopped, its port is free and none of its tasks is left, also with a client that stays."""
    async with _site(tmp_path) as site:
        _, writer = await asyncio.open_connection("127.0.0.1", site.port)
        await asyncio.sleep(0.05)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    listen(WebConfig(port=site.port)).close()
    writer.close()
