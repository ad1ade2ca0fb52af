"""`perpetua serve` with `[otlp]`: the daemon as a process, a collector that takes what it sends, others that do not."""

import contextlib
import json
import shutil
import socket
import sys

import pytest

from oracle.cli.serve.otlp import export_of
from oracle.config.daemon import load_config
from oracle.errors import InputError
from tests.support.certificates import Authority
from tests.support.collector import TRACEPARENT, UNSAMPLED, attributes, collecting
from tests.support.folders import long_plan, make_state, perpetua, write_config, write_log
from tests.support.http import HttpModelUnderTest
from tests.support.waiting import eventually

_SECRET = "Bearer opens-it-for-tests"  # noqa: S105 -- of a collector that lives as long as a test


@pytest.fixture
def state(tmp_path):
    """A folder with a state and a log of messages."""
    make_state(tmp_path / "state", long_plan())
    write_log(tmp_path, 700)
    return tmp_path


def _serve(folder, *, env=None, **otlp):
    """Serve the log to its end; return the finished process and the log lines."""
    config = write_config(folder, service={"log": "json", "batch_rows": 20}, otlp=otlp)
    done = perpetua("serve", config, **(env or {}))
    shown = [
        line for line in done.stderr.splitlines() if not line.startswith(b"serving: ")
    ]  # progress, where it is slow
    return done, [json.loads(line) for line in shown]  # nobody else prints anything


def _answers(folder):
    return [(folder / name).read_bytes() for name in ("out.jsonl", "ledger.jsonl")]


def test_metrics_and_spans_reach_the_collector(state):
    """At the latest when the daemon ends: as many rounds, rejections and batches as the files show, and where from."""
    headers = state / "headers"
    headers.write_text(f"authorization: {_SECRET}\nx-tenant: a\n")
    headers.chmod(0o600)
    with collecting() as collector:
        done, lines = _serve(state, endpoint=collector.endpoint, headers_file=str(headers), sample_ratio=1)
    assert done.returncode == 0
    assert [line["event"] for line in lines].count("otlp.exporting") == 1
    assert not [line for line in lines if line["event"] == "otlp.client"]
    replies = [json.loads(line) for line in (state / "out.jsonl").read_text().splitlines()]
    rejected = sum("error" in reply for reply in replies)
    assert collector.value("perpetua_rounds", shard="0") == len(replies) - rejected
    assert collector.value("perpetua_rejections", reason="wrong-dimension") == rejected
    assert collector.value("perpetua_batches", shard="0") == 35
    spans = [span for span in collector.spans if span.name.startswith("process batch")]
    assert collector.value("perpetua_answer_seconds", shard="0") == len(spans)
    assert 0 < len(spans) < 35  # in some a side was armed afresh
    (model,) = {attributes(span.attributes)["perpetua.model"] for span in spans}
    assert len({span.name for span in collector.spans}) == 4
    for resource in collector.resources:
        assert resource["service.name"] == "perpetua"
        assert resource["perpetua.model"] == model
        assert resource.keys() == {"service.name", "service.version", "service.instance.id", "perpetua.model"}
    assert {path for path, _ in collector.requests} == {"/v1/metrics", "/v1/traces"}
    assert {(sent["authorization"], sent["x-tenant"]) for _, sent in collector.requests} == {(_SECRET, "a")}


def test_the_environment_of_opentelemetry_counts(state):
    """Its endpoint, headers and name of the service, where the configuration says nothing of them; and its switch."""
    variables = {"OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=b", "OTEL_SERVICE_NAME": "flights"}
    with collecting() as collector:
        variables["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector.endpoint
        _serve(state, env=variables, sample_ratio=0)
        assert {(path, sent["x-tenant"]) for path, sent in collector.requests} == {("/v1/metrics", "b")}
        assert {resource["service.name"] for resource in collector.resources} == {"flights"}
        assert collector.spans == []
        collector.requests.clear()
        done, lines = _serve(state, env=variables | {"OTEL_SDK_DISABLED": "true"})
        assert (done.returncode, collector.requests) == (0, [])
        assert "otlp.exporting" not in {line["event"] for line in lines}


def test_questions_over_http_are_traced_through(tmp_path):
    """By their requests' `traceparent`, where the asker samples; one that is sent again is one question."""
    model = HttpModelUnderTest(tmp_path).create()
    with collecting() as collector, model.client() as client:
        process = model.serve(model.config(extra=f'[otlp]\nendpoint = "{collector.endpoint}"\n'))
        for given, body in ((UNSAMPLED, b'{"x":[0.5,0.5]}'), (TRACEPARENT, b'{"x":[0.2,0.5]}'), ("?" * 60, b"?")):
            for _ in range(2):
                headers = {"Idempotency-Key": given, "traceparent": given, "Content-Type": "application/json"}
                assert client.post("/v1/ask", content=body, headers=headers).status_code in {200, 422}
        eventually(lambda: len(collector.of_asker()) == 1)
        assert model.stop(process) == 0
        (span,) = collector.of_asker()
    assert (span["messaging.system"], span["perpetua.outcome"], span["perpetua.position"]) == ("http", "answered", 2)


@contextlib.contextmanager
def _dead():
    """An address at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@contextlib.contextmanager
def _hanging():
    """A collector that takes requests and never answers."""
    with collecting() as collector:
        collector.hanging.set()
        yield collector.endpoint


@pytest.mark.slow
@pytest.mark.parametrize("away", [_dead, _hanging])
def test_a_collector_that_is_away_changes_no_answer_and_holds_nothing_up(state, tmp_path_factory, away):
    """Answers and ledger are those without OTLP; the end comes within its bound; the log names no foreign text."""
    other = tmp_path_factory.mktemp("without")
    for path in state.iterdir():
        (shutil.copytree if path.is_dir() else shutil.copy2)(path, other / path.name)
    assert perpetua("serve", write_config(other, service={"batch_rows": 20})).returncode == 0
    with away() as endpoint:
        done, lines = _serve(state, endpoint=endpoint, sample_ratio=1, timeout_seconds=60)
    assert done.returncode == 0
    assert _answers(state) == _answers(other)
    told = [line for line in lines if line["event"] == "otlp.client"]
    assert len(told) == (0 if away is _hanging else len(told))
    assert all("127.0.0.1" not in json.dumps(line) for line in told)


def test_tls_and_a_certificate_of_our_own(state):
    """The collector is known by its authority, and asks for a certificate; without the authority nothing is sent."""
    ours, theirs = Authority(state, "ours"), Authority(state, "theirs")
    server, client = theirs.issue("server"), ours.issue("client")
    tls = f'[otlp.tls]\nca_file = "{theirs.certificate}"\ncertificate_file = "{client}"\nkey_file = "{client}"\n'
    with collecting(server, ours.certificate) as collector:
        endpoint = collector.endpoint.replace("http:", "https:")
        config = write_config(state, otlp={"endpoint": endpoint})
        config.write_text(config.read_text() + tls)
        assert perpetua("serve", config).returncode == 0
        assert collector.value("perpetua_batches", shard="0") == 1
        received = len(collector.requests)
        config = write_config(state, otlp={"endpoint": endpoint, "timeout_seconds": 0.5})
        assert perpetua("serve", config).returncode == 0
        assert len(collector.requests) == received


@pytest.mark.parametrize(
    ("otlp", "said"),
    [
        ({"endpoint": "collector:4318"}, "otlp.endpoint: must be http:// or https://, a host"),
        ({"endpoint": "https://"}, "otlp.endpoint: must be http:// or https://, a host"),
        ({"endpoint": "ftp://collector"}, "otlp.endpoint: must be http:// or https://, a host"),
        ({"endpoint": "https://a:b@collector"}, "otlp.endpoint: must have no name, password"),
        ({"endpoint": "https://collector?token=a"}, "otlp.endpoint: must have no name, password"),
        ({"endpoint": "https://collector:99999"}, "otlp.endpoint: must be http:// or https://, a host"),
        ({"endpoint": "http://collector", "headers_file": "h"}, "otlp.headers_file: must be left out, or"),
        ({"interval_seconds": 0.5}, "otlp.interval_seconds = 0.5: input should be greater than or equal to 1"),
        ({"sample_ratio": 1.5}, "otlp.sample_ratio = 1.5: input should be less than or equal to 1"),
        ({"ratio": 1}, "otlp.ratio: unknown setting"),
    ],
)
def test_what_cannot_be_is_refused_by_name(tmp_path, otlp, said):
    """No error shows what may be a secret."""
    with pytest.raises(InputError) as refused:
        load_config(write_config(tmp_path, otlp=otlp))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        ("authorization: x\n", 0o644, "mode 0644 opens it to others"),
        ("no header\n", 0o600, 'must hold headers, one a line, "name: value"'),
        ("a: b\x01\n", 0o600, 'must hold headers, one a line, "name: value"'),
        ("\n", 0o600, 'must hold headers, one a line, "name: value"'),
        (None, 0o600, "cannot be read"),
    ],
)
def test_a_file_of_headers_that_cannot_be_used_is_refused_before_anything_is_answered(state, content, mode, said):
    """Without a word of what stands in it."""
    path = state / "headers"
    if content is not None:
        path.write_text(content)
        path.chmod(mode)
    done = perpetua("serve", write_config(state, otlp={"endpoint": "https://c", "headers_file": str(path)}))
    assert done.returncode in {2, 4}
    text = done.stderr.decode()
    assert said in text
    assert "otlp.headers_file" in text
    assert "Traceback" not in text
    assert not (state / "out.jsonl").exists()


def test_a_missing_authority_is_refused(state):
    """Requests would only fail later."""
    config = write_config(state, otlp={})
    config.write_text(config.read_text() + f'[otlp.tls]\nca_file = "{state / "none.pem"}"\n')
    done = perpetua("serve", config)
    assert done.returncode == 2
    assert b"otlp.tls.ca_file" in done.stderr
    assert b"must be a file that can be read" in done.stderr


def test_check_asks_the_collector(state):
    """It takes an empty export, or it is said that it does not; a file that cannot be used is named."""

    def found(**otlp):
        done = perpetua("check", write_config(state, otlp=otlp), "--json")
        return {one["what"]: one["problem"] for one in json.loads(done.stdout)}.get("otlp: the collector answers", "-")

    with collecting() as collector:
        assert found(endpoint=collector.endpoint) is None
        assert [path for path, _ in collector.requests] == ["/v1/metrics"]
        assert collector.metrics == {}
    with _dead() as endpoint:
        assert found(endpoint=endpoint, timeout_seconds=0.5).endswith("in 0.5 s, or refuses what is sent")
    assert "otlp.headers_file" in found(endpoint="https://c", headers_file=str(state / "none"))


def test_without_opentelemetry_it_says_what_to_install(tmp_path, monkeypatch):
    """The extra is optional, and asked for by name."""
    monkeypatch.setitem(sys.modules, "oracle.telemetry.otlp.sending", None)
    assert export_of(load_config(write_config(tmp_path)), {}) is None
    with pytest.raises(InputError, match=r"otlp: needs OpenTelemetry: pip install 'perpetua\[otel\]'"):
        export_of(load_config(write_config(tmp_path, otlp={})), {})
