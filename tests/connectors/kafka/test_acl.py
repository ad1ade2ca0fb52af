"""The access rules of deploy/kafka/acls.md, with Kafka's own authorizer: enough for everybody, and no more."""

import json

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public by their documentation
    AclBindingFilter,
    AclOperation,
    ResourceType,
)

from oracle.errors import RefusedError
from tests.connectors.kafka.conftest import unique_name
from tests.support.acl import RECIPE, rules_of
from tests.support.broker import Broker
from tests.support.configs import write_secret
from tests.support.folders import perpetua
from tests.support.kafka import KafkaModelUnderTest
from tests.support.kafka_here import serve_here
from tests.support.shards import bodies
from tests.support.waiting import TIMEOUT, eventually

_USERS = ("perpetua", "operator", "asker-a", "asker-b", "auditor")


class Cluster:
    """A broker with Kafka's authorizer and users with passwords; the plain listener is the operator's."""

    def __init__(self, folder):
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        self.broker = Broker(
            folder / "broker",
            listeners={"USERS": "SASL_PLAINTEXT"},
            properties={
                "listener.name.users.sasl.enabled.mechanisms": "SCRAM-SHA-512",
                "listener.name.users.scram-sha-512.sasl.jaas.config": scram,
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
            },
            scram=[f"SCRAM-SHA-512=[name={user},password=of-{user}]" for user in _USERS],
        )

    def client(self, user):
        """Return the settings of a user's client."""
        return {
            "bootstrap.servers": self.broker.listener("USERS"),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": f"of-{user}",
            "log_level": 0,
        }

    def write(self, user, topic, body, headers=()):
        """Write a record as a user; return the error's code, 0 if there is none."""
        codes = []
        producer = Producer(self.client(user))
        producer.produce(
            topic,
            body,
            headers=list(headers),
            on_delivery=lambda error, _: codes.append(error.code() if error else 0),
        )
        producer.flush(TIMEOUT)
        return codes[0] if codes else None

    def read(self, user, topic, count=1, *, group=None):
        """Read records of a topic as a user; return their values, or the error's code."""
        settings = {
            "group.id": group or f"{user}-readers",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
        consumer = Consumer({**self.client(user), **settings})
        values: list[bytes | None] = []
        try:
            hidden = consumer.list_topics(topic, timeout=TIMEOUT).topics[topic].error
            if hidden:
                return hidden.code()
            consumer.assign([TopicPartition(topic, 0, 0)])
            while len(values) < count:
                message = consumer.poll(TIMEOUT)
                if message is None:
                    return values
                error = message.error()
                if error:
                    return error.code()
                values.append(message.value())
        finally:
            consumer.close()
        return values


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The broker of these tests."""
    made = Cluster(tmp_path_factory.mktemp("acl"))
    with made.broker:
        yield made


@pytest.fixture
def model(cluster, request, tmp_path):
    """A model with reply topics of two askers, and nobody's topic."""
    made = KafkaModelUnderTest(cluster.broker, unique_name(request), tmp_path).create()
    for name in ("reply-a", "reply-b", "outside"):
        cluster.broker.create_topic(f"{made.name}.{name}", 1, {"max.message.bytes": "20000000"})
    yield made
    made.end()


def _allow(cluster, model, leave_out=lambda _binding: False):
    """Add the recipe's rules for this model, but for some."""
    names = {
        "MODEL.queries": model.queries,
        "MODEL.answers": model.answers,
        "MODEL.ledger": f"{model.name}.ledger",
        "MODEL.rejected": f"{model.name}.dead",
        "MODEL.replies-a": f"{model.name}.reply-a",
        "MODEL.replies-b": f"{model.name}.reply-b",
        "perpetua-MODEL": model.group,
        "perpetua-MODEL.marks": model.marks,
        "perpetua-MODEL-": f"{model.group}-",
    }
    bindings = rules_of(RECIPE.read_text(), names)
    cluster.broker.allow([binding for binding in bindings if not leave_out(binding)])
    return bindings


def _config(cluster, model, replies=("reply-a", "reply-b"), user="perpetua"):
    """Return the configuration of a daemon that is this user."""
    allowed = ", ".join(f'"{model.name}.{name}"' for name in replies)
    password = model.folder / "password"
    write_secret(password, f"of-{user}")
    sasl = f'[kafka.sasl]\nmechanism = "SCRAM-SHA-512"\nusername = "{user}"\npassword_file = "{password}"\n'
    path = model.config(sink=f"reply_topics = [{allowed}]", extra=sasl)
    address = cluster.broker.listener("USERS")
    path.write_text(path.read_text().replace(f'"{cluster.broker.servers}"', f'"{address}"'))
    return path


def test_recipe_is_enough_and_keeps_askers_apart(cluster, model):
    """With the recipe's rules the daemon serves, and an asker reads its own answers and no others, and writes none."""
    _allow(cluster, model)
    contents = bodies(2)
    for name, body in zip("ab", contents, strict=True):
        headers = [("reply-topic", f"{model.name}.reply-{name}".encode())]
        assert cluster.write(f"asker-{name}", model.queries, body, headers) == 0
    serve_here(_config(cluster, model), lambda _log: len(model.read(f"{model.name}.reply-b")) >= 1)
    denied = KafkaError.TOPIC_AUTHORIZATION_FAILED
    answers = model.expected(contents)
    for name, other, answer in zip("ab", "ba", answers, strict=True):
        asker = f"asker-{name}"
        assert cluster.read(asker, f"{model.name}.reply-{name}") == [answer]
        for topic in (f"reply-{other}", "answers", "queries", "dead"):
            assert cluster.read(asker, f"{model.name}.{topic}") == denied
        for topic in (f"reply-{other}", f"reply-{name}", "answers", "ledger", "outside"):
            assert cluster.write(asker, f"{model.name}.{topic}", b"{}") == denied
    ledger = f"{model.name}.ledger"
    assert cluster.read("auditor", ledger) == [model.read(ledger)[0].value]
    assert cluster.read("auditor", model.answers) == denied
    for topic in ("outside", "queries"):
        assert cluster.write("perpetua", f"{model.name}.{topic}", b"{}") == denied
    for topic in ("outside", "answers"):
        assert cluster.read("perpetua", f"{model.name}.{topic}", group=model.group) == denied


def test_reply_topic_that_the_daemon_may_not_write_to_is_refused(cluster, model):
    """A topic in the allow-list without a rule for it stops the daemon at its start, and is named."""
    _allow(cluster, model)
    with pytest.raises(RefusedError, match=rf"TopicAuthorizationFailed \({model.name}\.outside\)"):
        serve_here(_config(cluster, model, ("reply-a", "outside")), lambda _log: False)


_PLAN = "plan verified by the accountant"
"""A tiny plan has no proof, and says so."""

_TOPICS = "topics exist and fit the plan"
_RIGHTS = "ACLs allow reading, writing and committing"


def _check(config):
    """Return what `perpetua check` finds: its problems by what it looked at."""
    done = perpetua("check", config, "--json")
    return {finding["what"]: finding["problem"] for finding in json.loads(done.stdout)}


_FIELDS = ("restype", "name", "resource_pattern_type", "principal", "host", "operation", "permission_type")

_RULES = {
    "reading queries": (ResourceType.TOPIC, "queries", "READ"),
    "describing the settings of topics": (ResourceType.TOPIC, "queries", "DESCRIBE_CONFIGS"),
    "writing answers": (ResourceType.TOPIC, "answers", "WRITE"),
    "writing the ledger": (ResourceType.TOPIC, "ledger", "WRITE"),
    "the group": (ResourceType.GROUP, "", "READ"),
    "the transactional ids": (ResourceType.TRANSACTIONAL_ID, "", "WRITE"),
}


@pytest.mark.parametrize("missing", _RULES)
def test_each_rule_of_the_recipe_is_needed(cluster, model, missing):
    """Without any one of the daemon's rules it stops, refused, instead of trying for ever."""
    kind, topic, operation = _RULES[missing]
    left_out = []

    def leave_out(binding):
        same = binding.restype == kind and binding.operation.name == operation
        found = same and binding.principal == "User:perpetua" and (not topic or binding.name.endswith(f".{topic}"))
        left_out.extend([binding] * found)
        return found

    _allow(cluster, model, leave_out)
    assert left_out
    model.ask(bodies(2))
    config = _config(cluster, model)
    problems = _check(config)
    with pytest.raises(RefusedError, match="AuthorizationFailed"):
        serve_here(config, lambda _log: model.count() >= 2)
    name = {"READ": "Read", "WRITE": "Write", "DESCRIBE_CONFIGS": "DescribeConfigs"}[operation]
    assert f"--allow-principal User:perpetua --operation {name} " in problems[_RIGHTS]
    assert f" {model.name}.{topic}" in problems[_RIGHTS] if topic else model.group in problems[_RIGHTS]
    assert "--bootstrap-server 127.0.0.1:" in problems[_RIGHTS]
    if operation == "DESCRIBE_CONFIGS":
        assert "TopicAuthorizationFailed" in problems[_TOPICS]


@pytest.mark.parametrize("operation", [AclOperation.READ, AclOperation.WRITE])
def test_without_a_rule_for_its_marks_it_serves_and_says_so(cluster, model, operation):
    """As after an upgrade: a warning names the topic and what is withheld, and `check` which rule grants it."""
    _allow(
        cluster,
        model,
        lambda binding: (
            binding.name == "perpetua-MODEL.marks" or (binding.name, binding.operation) == (model.marks, operation)
        ),
    )
    model.ask(bodies(2))
    config = _config(cluster, model)
    log = serve_here(config, lambda _log: model.count() >= 2)
    (told,) = [line["error"] for line in log if line["event"] == "marks.unkept"]
    assert f"topic {model.marks}: the brokers deny {operation.name.title()}" in told
    assert f" --operation {operation.name.title()} --topic {model.marks}" in _check(config)[_RIGHTS]


def test_a_reply_topic_forbidden_while_it_runs_costs_its_asker_only(cluster, model):
    """The rule is taken away under a running daemon: everybody else is answered on, exactly once."""
    bindings = _allow(cluster, model)
    contents = bodies(12)
    headers = {name: [("reply-topic", f"{model.name}.reply-{name}".encode())] for name in "ab"}
    taken = [b for b in bindings if b.name == f"{model.name}.reply-b" and b.principal == "User:perpetua"]
    closed: list[bool] = []

    def done(_log):
        answers = [model.read(f"{model.name}.reply-{name}") for name in "ab"]
        if not closed and [len(found) for found in answers] == [2, 2]:
            for binding in taken:
                rule = AclBindingFilter(*(getattr(binding, name) for name in _FIELDS))
                (future,) = cluster.broker.admin.delete_acls([rule]).values()
                assert future.result(timeout=30)
            refused = KafkaError.TOPIC_AUTHORIZATION_FAILED  # what the controller agrees to, the broker does later
            eventually(lambda: cluster.write("perpetua", f"{model.name}.reply-b", b"probe") == refused)
            closed.append(True)
            for number, body in enumerate(contents[4:]):
                model.ask([body], headers=headers["ab"[number % 2]])
        return len(answers[0]) == 6

    for number, body in enumerate(contents[:4]):
        model.ask([body], headers=headers["ab"[number % 2]])
    log = serve_here(_config(cluster, model), done)
    expected = model.expected(contents)
    assert [answer.value for answer in model.read(f"{model.name}.reply-a")] == expected[::2]
    told = [line["error"] for line in log if line["event"] == "answers.undelivered"]
    assert any(f"topic {model.name}.reply-b: the brokers deny Write" in text for text in told)
    events = [line["event"] for line in log]
    assert events.count("daemon.recovered") == 1
    assert "bus.unavailable" not in events


def test_check_tells_a_user_without_any_rule_all_that_it_needs(cluster, model):
    """Where even the topics' settings cannot be seen: each right, with the command that grants it."""
    problem = _check(_config(cluster, model, ("reply-a",)))[_RIGHTS]
    for topic, operation in (("queries", "Read"), ("answers", "Write"), ("ledger", "Write"), ("reply-a", "Write")):
        assert f"{operation} on topic {model.name}.{topic}; grant it: kafka-acls " in problem
        assert f"DescribeConfigs on topic {model.name}.{topic}; grant it: kafka-acls " in problem
    assert f"--transactional-id {model.group}- --resource-pattern-type prefixed" in problem


def test_check_disturbs_nobody(cluster, model):
    """It finds the recipe's rules to be enough while a daemon serves under them, which goes on, and is not fenced."""
    _allow(cluster, model)
    config = _config(cluster, model)
    contents = bodies(4)
    looked: list[dict[str, str | None]] = []

    def done(_log):
        if model.count() == 2 and not looked:
            looked.append(_check(config))
            model.ask(contents[2:])
        return bool(looked) and model.count() == 4

    model.ask(contents[:2])
    log = serve_here(config, done)
    assert {what for what, problem in looked[0].items() if problem} == {_PLAN}
    assert _RIGHTS in looked[0]
    assert [record.value for record in model.read(model.answers)] == model.expected(contents)
    events = [line["event"] for line in log]
    assert events.count("shard.assigned") == 1
    assert not {"shard.fenced", "shard.failed"} & set(events)


def test_only_the_operator_alters_topics(cluster, model):
    """The daemon's user is told which right it lacks, and nothing is changed; the operator has it, and may create."""
    _allow(cluster, model)
    cluster.broker.configure_topic(model.queries, {"compression.type": "producer"})
    cluster.broker.delete_topic(f"{model.name}.reply-b")
    refused = perpetua("topics", _config(cluster, model), "--alter")
    assert refused.returncode == 2
    assert b"the brokers deny AlterConfigs on topic " in refused.stderr
    assert b"kafka-acls --bootstrap-server 127.0.0.1:" in refused.stderr
    config = _config(cluster, model, user="operator")
    shown = json.loads(perpetua("topics", config, "--json").stdout)
    assert (model.queries, "compression.type", "uncompressed") in [tuple(one.values())[:3] for one in shown["differs"]]
    done = perpetua("topics", config, "--create", "--alter")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"created {model.name}.reply-b" in done.stdout.decode()
    assert f"altered {model.queries}: compression.type = uncompressed (was producer)" in done.stdout.decode()
