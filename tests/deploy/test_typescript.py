"""The TypeScript client, built as `make typescript` does, against daemons that serve on each bus."""

import contextlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Self

import pytest

from tests.connectors.kafka.conftest import unique_name
from tests.support.acl import RECIPE, rules_of
from tests.support.broker import Broker
from tests.support.certificates import Authority
from tests.support.gateway import gateway
from tests.support.http import TOKEN, HttpModelUnderTest
from tests.support.kafka import KafkaModelUnderTest
from tests.support.mosquitto import Mosquitto, write_passwords
from tests.support.mqtt import MqttModelUnderTest
from tests.support.waiting import TIMEOUT, eventually

_ROOT: Final = Path(__file__).parents[2]
_BUILT: Final = _ROOT / "build" / "typescript"
_QUERY: Final = {"x": [0.5, 0.5]}


class _Program:
    """A program of Node that asks as it is told (typescript.mjs)."""

    def __init__(self, folder: Path, bus: str, *settings: object) -> None:
        shutil.copy(Path(__file__).with_name("typescript.mjs"), folder)
        line = ["node", "typescript.mjs", bus, *map(json.dumps, settings)]
        self._process = subprocess.Popen(line, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._heard: dict[str, Any] = {}
        self.opened = self._outcome("open")

    def send(self, name: str, query: object = _QUERY) -> None:
        """Ask a question by a name."""
        self._say("send", name, query)

    def answer(self, name: str, seconds: float = TIMEOUT) -> dict[str, Any]:
        """Wait for an answer, or an error, and return it."""
        self._say("answer", name, seconds)
        found: dict[str, Any] = self._outcome(name)
        return found

    def ask(self, name: str, query: object = _QUERY, seconds: float = TIMEOUT) -> dict[str, Any]:
        """Ask and wait."""
        self.send(name, query)
        return self.answer(name, seconds)

    def refused(self, name: str, query: object) -> dict[str, Any]:
        """Ask what is not sent, and return the error."""
        self.send(name, query)
        found: dict[str, Any] = self._outcome(name)
        return found

    def written(self, name: str) -> bool | None:
        """Return whether the bus has a question."""
        self._say("written", name)
        found: bool | None = self._outcome(name)["written"]
        return found

    def has_said(self, name: str) -> bool:
        """Return whether something was said before what was waited for last."""
        return name in self._heard

    def close(self) -> int:
        """Let it close its client and end."""
        self._process.communicate(timeout=TIMEOUT)
        return self._process.returncode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        with contextlib.suppress(ValueError):  # its pipes may be closed
            self._process.communicate()

    def _say(self, *words: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()

    def _outcome(self, name: str) -> Any:
        assert self._process.stdout is not None
        while name not in self._heard:
            line = self._process.stdout.readline()
            assert line, "the program has ended"
            said, outcome = json.loads(line)
            self._heard[said] = outcome
        return self._heard.pop(name)


_Run = Callable[..., _Program]


@pytest.fixture(scope="session")
def built() -> Path:
    """The package as it is built, with all that it can use."""
    subprocess.run([_ROOT / "deploy" / "typescript" / "build"], check=True, timeout=600)
    return _BUILT


@pytest.fixture
def run(built: Path, tmp_path: Path) -> Iterator[_Run]:
    """Start programs that have the package and its peers."""
    folder = tmp_path / "node"
    (folder / "node_modules").mkdir(parents=True)
    (folder / "node_modules" / "perpetua-client").symlink_to(built)
    with contextlib.ExitStack() as programs:
        yield lambda bus, *settings: programs.enter_context(_Program(folder, bus, *settings))


@pytest.fixture
def http(tmp_path: Path) -> Iterator[HttpModelUnderTest]:
    """A model over HTTP; what still serves it at the end is killed."""
    made = HttpModelUnderTest(tmp_path).create()
    yield made
    made.end()


@pytest.fixture
def kafka(broker: Broker, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KafkaModelUnderTest]:
    """A model on Kafka; what still serves it at the end is killed."""
    made = KafkaModelUnderTest(broker, unique_name(request), tmp_path).create()
    yield made
    made.end()


@pytest.fixture
def mqtt(tmp_path: Path) -> Iterator[MqttModelUnderTest]:
    """A model on a Mosquitto of the test's own."""
    with Mosquitto(tmp_path / "broker") as running:
        made = MqttModelUnderTest(running, "vfr", tmp_path).create()
        yield made
        made.end()


def _is_told(program: _Program) -> None:
    """Answers of several at once are each the asker's own; rejections and time-outs have their classes."""
    for name in ("a", "b", "c"):
        program.send(name, {"id": name, **_QUERY})
    answers = [program.answer(name) for name in ("c", "a", "b")]
    assert [answer["id"] for answer in answers] == ["c", "a", "b"]
    assert {answer["label"] for answer in answers} <= {0, 1}
    assert len({answer["round"] for answer in answers}) == 3
    assert program.ask("large", {"id": "2^53+1", **_QUERY})["id"] == f"{2**53 + 1}n"
    rejected = program.ask("rejected", {"x": [0.5]})
    assert (rejected["error"], rejected["reason"]) == ("RejectedError", "wrong-dimension")
    assert rejected["families"] == ["PerpetuaError", "RefusedError", "RejectedError"]
    assert program.refused("none", {"x": "NaN"})["error"] == "InputError"


def _waits(program: _Program) -> None:
    """While nobody answers: a time-out is no end of a question."""
    late = program.ask("late", {"id": "late", **_QUERY}, seconds=0.5)
    assert late["error"] == "UnansweredError"
    assert late["families"] == ["BusError", "PerpetuaError", "UnansweredError"]


def test_http(http: HttpModelUnderTest, built: Path, tmp_path: Path):
    """Without any other package; a daemon that is killed has each question once, though it is handed in again."""
    package = tmp_path / "alone" / "node_modules" / "perpetua-client"
    shutil.copytree(built / "dist", package / "dist")
    shutil.copy(built / "package.json", package)
    url = f"http://127.0.0.1:{http.port}"
    daemon = http.serve()
    with _Program(tmp_path / "alone", "http", url, TOKEN) as program:
        assert program.opened is None
        _is_told(program)
        names = [str(number) for number in range(40)]
        for name in names:
            program.send(name, {"id": name, **_QUERY})
        eventually(lambda: any(program.written(name) for name in names))
        daemon.kill()
        daemon.wait(TIMEOUT)
        _waits(program)
        http.serve()
        answers = [program.answer(name) for name in [*names, "late"]]
        assert [answer["id"] for answer in answers] == [*names, "late"]
        assert sorted(answer["round"] for answer in answers) == list(range(4, 45))
        assert program.ask("last")["round"] == 45
        assert program.close() == 0
    with _Program(tmp_path / "alone", "http", url, "nobody's token") as program:
        assert (program.opened["error"], "401" in program.opened["message"]) == ("RefusedError", True)
    http.end()
    with _Program(tmp_path / "alone", "http", url, TOKEN) as program:
        assert program.opened["error"] == "BusError"


@pytest.mark.parametrize("status", [502, 504])
def test_http_behind_a_gateway(built: Path, tmp_path: Path, status: int):
    """Whose word is no refusal: the question is handed in again as the same one."""
    package = tmp_path / "node_modules" / "perpetua-client"
    shutil.copytree(built / "dist", package / "dist")
    shutil.copy(built / "package.json", package)
    with gateway(status) as (url, keys), _Program(tmp_path, "http", url, TOKEN) as program:
        assert program.ask("a").get("label") == 1
        assert program.close() == 0
        assert len(keys) == 2
        assert len(set(keys)) == 1


def test_http_refusals_in_doubt(run: _Run):
    """A refusal behind a try that may have been taken is told as not known, and says so; a first one is a refusal."""
    for status in (None, 502):
        with gateway(status, then=401) as (url, _):
            program = run("http", url, TOKEN)
            doubtful = program.ask("a")
            assert (doubtful["error"], program.written("a")) == ("UnansweredError", None)
            assert "401: no; an earlier try may have been taken" in doubtful["message"]
            assert (program.ask("b")["error"], program.written("b")) == ("RefusedError", False)


def test_http_goes_nowhere_else(run: _Run):
    """The token is not sent to a place that is no answer's; an answer that is no longer kept is told by its class."""
    for where in ("", "@example.org/x", "//example.org/v1/answers/01", "/v1/answers/01/..", "/v1/answers/01?x"):
        with gateway(502, then=202, where=where) as (url, _):
            program = run("http", url, TOKEN)
            told = program.ask("a")
            assert (told["error"], program.written("a")) == ("BusError", True)
            assert "202: it does not answer as a daemon does" in told["message"]
    with gateway(502, then=202, where="/v1/answers/01") as (url, _):
        assert run("http", url, TOKEN).ask("a")["error"] == "NotKeptError"


def test_kafka(kafka: KafkaModelUnderTest, run: _Run):
    """Answers come on a topic; those of questions asked while the daemon is away too; the log has each once."""
    config = kafka.config()
    daemon = kafka.serve(config)
    program = run("kafka", kafka.broker.servers, kafka.queries, kafka.answers)
    assert program.opened is None
    _is_told(program)
    daemon.kill()
    daemon.wait(TIMEOUT)
    _waits(program)
    names = [str(number) for number in range(300)]
    for name in names:
        program.send(name, {"id": name, **_QUERY})
    kafka.serve(config, "again.log")
    answers = [program.answer(name) for name in ["late", *names]]
    assert [answer["id"] for answer in answers] == ["late", *names]
    assert program.close() == 0
    asked = [record.body.get("id") for record in kafka.read(kafka.queries)]
    assert asked == ["a", "b", "c", 2**53 + 1, None, "late", *names]
    missing = run("kafka", kafka.broker.servers, "missing", kafka.answers)
    assert missing.opened["error"] == "RefusedError"
    _run_the_page(kafka)


def test_kafka_loading(kafka: KafkaModelUnderTest, run: _Run, monkeypatch: pytest.MonkeyPatch):
    """A group's coordinator that is still loading is waited for, and the client asks as ever."""
    kafka.serve(kafka.config())
    monkeypatch.setenv("LOADING", "3")
    program = run("kafka", kafka.broker.servers, kafka.queries, kafka.answers)
    assert program.opened is None
    assert program.has_said("loaded")
    assert program.ask("a", {"id": "a", **_QUERY})["id"] == "a"
    assert program.close() == 0


@pytest.mark.slow
def test_kafka_restarts(own_broker: Broker, run: _Run):
    """A broker that is killed while questions are written has each of them once, in the order of asking."""
    own_broker.create_topic("q")
    own_broker.create_topic("r")
    program = run("kafka", own_broker.servers, "q", "r")
    assert program.opened is None
    names = [str(number) for number in range(600)]
    for begin in range(0, 600, 200):
        for name in names[begin : begin + 100]:
            program.send(name, {"id": name})
        own_broker.restart(kill=True)
        for name in names[begin + 100 : begin + 200]:
            program.send(name, {"id": name})
        eventually(lambda end=begin + 199: program.written(names[end]))
    assert all(program.written(name) for name in names)
    model = KafkaModelUnderTest(own_broker, "", Path())
    assert [record.body["id"] for record in model.read("q")] == names


@pytest.mark.slow
def test_kafka_over_tls_with_an_askers_rights(tmp_path: Path, run: _Run):
    """A password and what deploy/kafka/acls.md gives are enough; what is missing is told when the client is opened."""
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    broker = Broker(
        tmp_path / "broker",
        listeners={"USERS": "SASL_SSL"},
        properties={
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(authority.issue("broker")),
            "listener.name.users.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.users.scram-sha-512.sasl.jaas.config": scram,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        },
        scram=["SCRAM-SHA-512=[name=asker-a,password=of-a]"],
    )
    with broker:
        model = KafkaModelUnderTest(broker, "m", tmp_path).create()
        replies = broker.create_topic("m.replies-a")
        names = {"MODEL.queries": model.queries, "MODEL.replies-a": replies}
        broker.allow([rule for rule in rules_of(RECIPE.read_text(), names) if rule.principal == "User:asker-a"])
        model.serve(model.config(sink=f'reply_topics = ["{replies}"]'))
        ssl = {"ca": [authority.certificate.read_text()]}
        sasl = {"mechanism": "scram-sha-512", "username": "asker-a", "password": "of-a"}

        def program(**other: object) -> _Program:
            settings = {"ssl": ssl, "sasl": sasl, "group": "asker-a-", **other}
            return run("kafka", broker.listener("USERS"), model.queries, replies, settings)

        asker = program()
        assert asker.opened is None
        _is_told(asker)
        assert asker.close() == 0
        foreign = {"ca": [stranger.certificate.read_text()]}
        for other in ({"sasl": {**sasl, "password": "guessed"}}, {"ssl": foreign}):
            opened = program(**other).opened
            assert opened["error"] == "RefusedError", opened
        opened = program(group="others-").opened  # kafkajs cannot tell whether that may pass
        assert (opened["error"], "no right to read it" in opened["message"]) == ("BusError", True)
        model.end()


def test_mqtt_over_tls(tmp_path: Path, run: _Run):
    """With a password; the wrong one, and a certificate that is not trusted, are refusals."""
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    certificate = authority.issue("broker")
    write_passwords(tmp_path / "users", me="opensesame-7Qx")
    listener = [f"certfile {certificate}", f"keyfile {certificate}", f"password_file {tmp_path / 'users'}"]
    with Mosquitto(tmp_path / "broker", listener=[*listener, "allow_anonymous false"]) as broker:

        def program(ca: Authority = authority, password: str = "opensesame-7Qx") -> _Program:  # noqa: S107
            settings = {"ca": ca.certificate.read_text(), "username": "me", "password": password}
            return run("mqtt", f"mqtts://{broker.server}", "a/q", "a/r", settings)

        asker = program()
        assert asker.opened is None
        assert "nobody is subscribed" in asker.ask("lost")["message"]
        assert asker.close() == 0
        for refused in (program(stranger), program(password="guessed")):  # noqa: S106
            assert refused.opened["error"] == "RefusedError", refused.opened


def test_mqtt(mqtt: MqttModelUnderTest, run: _Run):
    """The same on a response topic; nobody subscribed is told, and the lost connection of a broker is made again."""
    url = f"mqtt://{mqtt.broker.server}"
    program = run("mqtt", url, mqtt.queries, f"{mqtt.name}/replies/me")
    assert program.opened is None
    lost = program.ask("lost")
    assert (lost["error"], "nobody is subscribed" in lost["message"]) == ("BusError", True)
    assert program.written("lost") is False
    config = mqtt.config()
    daemon = mqtt.serve(config)
    mqtt.wait_for_event("bus.connected")
    _is_told(program)
    daemon.kill()
    daemon.wait(TIMEOUT)
    _waits(program)
    eventually(lambda: program.written("late"))
    mqtt.broker.restart()
    names = [str(number) for number in range(200)]
    for name in names:
        program.send(name, {"id": name, **_QUERY})
    mqtt.serve(config, "again.log")
    answers = [program.answer(name) for name in ["late", *names]]
    assert [answer["id"] for answer in answers] == ["late", *names]
    assert [answer["round"] for answer in answers] == list(range(4, 205))
    assert program.close() == 0


def test_mqtt_in_doubt(mqtt: MqttModelUnderTest, run: _Run):
    """What a broker that died may have had is not published again."""
    mqtt.serve(mqtt.config())
    mqtt.wait_for_event("bus.connected")
    program = run("mqtt", f"mqtt://{mqtt.broker.server}", mqtt.queries, f"{mqtt.name}/replies/me")
    program.ask("before")
    mqtt.broker.pause()
    program.send("in doubt")
    assert program.answer("in doubt", 0.5)["written"] is None
    mqtt.broker.restart(kill=True)
    mqtt.wait_for_event("bus.connected", 2)
    after = program.ask("after")
    assert after.get("round") == 1 or after["error"] == "BusError"  # the daemon may subscribe behind it
    assert program.answer("in doubt", 0.5)["error"] == "UnansweredError"
    assert program.written("in doubt") is None


def _run_the_page(model: KafkaModelUnderTest) -> None:
    """Compile the TypeScript of docs/how-to/ask.md and of the package's own page, and run the former."""
    folder = model.folder / "node"
    pages = [_ROOT / "docs" / "how-to" / "ask.md", _ROOT / "deploy" / "typescript" / "README.md"]
    text = "".join(page.read_text() for page in pages)
    for there, here in {
        "broker-1:9092": model.broker.servers,
        "vfr.queries": model.queries,
        "vfr.replies-me": model.answers,
        "[5.2]": "[0.5, 0.5]",
        "[speed]": "[speed, 0.5]",
    }.items():
        text = text.replace(there, here)
    programs = re.findall(r"```ts\n(.*?)```", text, re.DOTALL)
    assert len(programs) == 4
    for number, program in enumerate(programs):
        (folder / f"page{number}.mts").write_text(program)
    compiler = _BUILT / "node_modules" / "typescript" / "bin" / "tsc"
    options = ["--strict", "--module", "nodenext", "--target", "es2022", "--types", "node"]
    types = ["--typeRoots", str(_BUILT / "node_modules" / "@types")]
    said = ""
    for line in (["node", str(compiler), *options, *types, *map(str, folder.glob("*.mts"))], ["node", "page0.mjs"]):
        said = subprocess.run(line, cwd=folder, check=True, timeout=TIMEOUT, capture_output=True, text=True).stdout
    assert said.count("label") == 3
