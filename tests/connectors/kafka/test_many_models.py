"""Many models in one process on a real broker: each as if it were alone, whatever becomes of the others."""

import json
import shutil
import signal

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public by their documentation
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from tests.connectors.kafka.conftest import unique_name
from tests.support.broker import Broker
from tests.support.collector import TRACEPARENT, attributes, collecting
from tests.support.folders import perpetua
from tests.support.kafka import wait_until
from tests.support.many_models import ManyModels
from tests.support.waiting import TIMEOUT

_WEB = "[web]\nport = 0\n"
_COUNT = 60


@pytest.fixture
def many(broker, request, tmp_path):
    """Three models; what still serves them at the end is killed."""
    made = ManyModels(broker, unique_name(request).replace("_", "-"), tmp_path).create()
    yield made
    made.end()


def _ask(model, count=_COUNT, seed=1):
    """Ask each partition of a model as many queries, others of each; return them by partition."""
    contents = {partition: model.contents(count, seed + partition) for partition in range(model.partitions)}
    for partition, queries in contents.items():
        model.ask(queries, partition=partition)
    return contents


def _more(model, asked, count=_COUNT, seed=100):
    """Ask more; return all that was asked, by partition."""
    new = _ask(model, count, seed)
    return {partition: asked[partition] + new[partition] for partition in asked}


def _is_answered(model, asked):
    return all(len(model.values(partition)) >= len(queries) for partition, queries in asked.items())


def _wait(model, asked):
    wait_until(lambda: _is_answered(model, asked))


def _check(model, asked):
    """The answers are, byte for byte, those of a model that has a process to itself."""
    for partition, queries in asked.items():
        assert model.values(partition) == model.expected_of(partition, queries)


def _stop(process):
    process.send_signal(signal.SIGTERM)
    return process.wait(TIMEOUT)


def test_three_models_answer_as_three_processes_would(many):
    """Of other predictors and partitions; metrics, readiness and status tell them apart."""
    process = many.serve(many.config(top=_WEB))
    asked = {label: _ask(model) for label, model in many.models.items()}
    for label, model in many.models.items():
        _wait(model, asked[label])
    site = many.site()
    wait_until(lambda: site.ask("/readyz").status_code == 200)
    text = site.ask("/metrics").text
    for label, model in many.models.items():
        for partition in range(model.partitions):
            assert f'perpetua_rounds_total{{model="{label}",shard="{partition}"}} {_COUNT}.0' in text
        assert f'perpetua_model_down{{model="{label}"}} 0.0' in text
        status = site.ask(f"/status?model={label}").json()
        assert (status["model"], status["predictor"], len(status["shards"])) == (
            label,
            model.plan.predictor,
            model.partitions,
        )
        assert [one["model"] for one in status["models"]] == list(many.models)
    assert site.ask("/status?model=none").status_code == 404
    assert _stop(process) == 0
    for label, model in many.models.items():
        _check(model, asked[label])
    lines = [line for line in many.log() if line.get("event") == "daemon.serving"]
    assert {line["model"] for line in lines} == set(many.models)


def test_what_is_sent_by_otlp_tells_models_apart(many):
    """Metrics by model and shard; the span of each model's batch, and of a query that its asker samples, name it.

    A batch in which a side is armed anew has no span, so some are asked until each model has one.
    """
    with collecting() as collector:
        table = f'[otlp]\nendpoint = "{collector.endpoint}"\nsample_ratio = 1\ninterval_seconds = 1\n'
        process = many.serve(many.config(top=table))
        for model in many.models.values():
            for number in range(12):
                model.ask(model.contents(1), headers=[("traceparent", TRACEPARENT.encode())])
                wait_until(lambda model=model, count=number + 1: model.count() == count)
        for label in many.models:
            wait_until(lambda label=label: collector.value("perpetua_rounds", model=label, shard="0") == 12)
        assert _stop(process) == 0
        topics = {one["perpetua.model"]: one["messaging.destination.name"] for one in collector.of_asker()}
        assert topics == {label: model.queries for label, model in many.models.items()}
        batches = [span for span in collector.spans if span.name.startswith("process batch")]
        assert {attributes(span.attributes)["perpetua.model"] for span in batches} == set(many.models)


def test_a_broken_state_and_a_missing_topic_stop_no_other_model(many):
    """Each is told in the log, in /readyz and as a metric; mended, it is served without a restart."""
    moved = many.folder / "moved"
    (many.folder / "box-state").rename(moved)
    many.broker.delete_topic(many["learn"].queries)
    process = many.serve(many.config(top=_WEB))
    asked = _ask(many["stump"])
    _wait(many["stump"], asked)
    site = many.site()
    reasons = {(found["model"], found["check"]): found["text"] for found in site.ask("/readyz").json()["not_ready"]}
    assert reasons.keys() == {("box", "model"), ("learn", "restored")}
    assert "box-state: holds no state" in reasons["box", "model"]
    text = site.ask("/metrics").text
    assert 'perpetua_model_down{model="box"} 1.0' in text
    assert 'perpetua_model_down{model="stump"} 0.0' in text
    assert site.ask("/status?model=box").json()["not_ready"][0]["check"] == "model"
    lines = many.log()
    (failed,) = [line for line in lines if line.get("event") == "model.failed"]
    assert failed["model"] == "box"
    missing = [line["error"] for line in lines if line.get("event") == "bus.unavailable" and line["model"] == "learn"]
    assert f"topic {many['learn'].queries}: does not exist" in missing[0]
    moved.rename(many.folder / "box-state")
    many.broker.create_topic(many["learn"].queries, 1, {"compression.type": "uncompressed"})
    others = {label: _ask(many[label]) for label in ("box", "learn")}
    asked = _more(many["stump"], asked)
    for label, contents in {**others, "stump": asked}.items():
        _wait(many[label], contents)
        _check(many[label], contents)
    wait_until(lambda: site.ask("/readyz").status_code == 200)
    restored = [line["model"] for line in many.log() if line.get("event") == "daemon.recovered"]
    assert restored.count("stump") == 2, "one more topic has stopped nothing that was served"
    assert _stop(process) == 0


def test_a_topic_that_is_deleted_or_grows_stops_its_own_model(many):
    """The others answer on, with nothing read again; the process ends as told, and then says which failed."""
    process = many.serve(many.config(top=_WEB))
    asked = {label: _ask(model) for label, model in many.models.items()}
    for label, model in many.models.items():
        _wait(model, asked[label])
    many.broker.delete_topic(many["learn"].queries)
    many.broker.add_partitions(many["box"].queries, 2)
    wait_until(lambda: any(line.get("event") == "model.failed" and line["model"] == "box" for line in many.log()))
    asked["stump"] = _more(many["stump"], asked["stump"])
    _wait(many["stump"], asked["stump"])
    _check(many["stump"], asked["stump"])
    assert _stop(process) == 2
    last = many.log()[-1]["text"]
    assert f"model box: topic {many['box'].queries}: has 2 partitions, but the state has 1 shard" in last


def test_two_processes_share_the_models_and_take_over(many):
    """Partitions of all models are dealt out; what one had when it was killed goes on with the other, once each."""
    config = many.config()
    first = many.serve(config, "first.log")
    asked = {label: _ask(model) for label, model in many.models.items()}
    for label, model in many.models.items():
        _wait(model, asked[label])
    many.serve(config, "second.log")
    served = {"event": "daemon.serving"}
    wait_until(lambda: any(served.items() <= line.items() for line in many.log("second.log")))
    asked = {label: _more(model, asked[label]) for label, model in many.models.items()}
    for label, model in many.models.items():
        _wait(model, asked[label])
    asked = {label: _more(model, asked[label], seed=200) for label, model in many.models.items()}
    first.kill()
    first.wait(TIMEOUT)
    for label, model in many.models.items():
        _wait(model, asked[label])
        _check(model, asked[label])


def test_a_model_is_moved_into_models_and_back(many):
    """The same group, topics and offsets: it goes on where it was, also behind a process that was killed."""
    alone = many.serve(many.config_of("stump"), "alone.log")
    asked = {"stump": _ask(many["stump"])}
    _wait(many["stump"], asked["stump"])
    alone.kill()
    alone.wait(TIMEOUT)
    together = many.serve(many.config(), "many.log")
    asked = {
        "box": _ask(many["box"]),
        "learn": _ask(many["learn"]),
        "stump": _more(many["stump"], asked["stump"]),
    }
    for label, contents in asked.items():
        _wait(many[label], contents)
    together.kill()
    together.wait(TIMEOUT)
    others = many.serve(many.config("box", "learn"), "others.log")
    again = many.serve(many.config_of("stump"), "again.log")
    asked = {label: _more(many[label], contents, seed=200) for label, contents in asked.items()}
    for label, contents in asked.items():
        _wait(many[label], contents)
        _check(many[label], contents)
    assert (_stop(others), _stop(again)) == (0, 0)


def test_a_copy_of_another_models_state_is_not_served(many):
    """Both would draw the same noise. Whichever of the two came first goes on; it may be the copy."""
    many["learn"].plan, many["learn"].first_key = many["box"].plan, many["box"].first_key
    shutil.rmtree(many.folder / "learn-state")
    shutil.copytree(many.folder / "box-state", many.folder / "learn-state")
    many.serve(many.config("box", "learn"))
    wait_until(lambda: any(line.get("event") == "model.failed" for line in many.log()))
    (failed,) = [line for line in many.log() if line.get("event") == "model.failed"]
    other = {"box": "learn", "learn": "box"}[failed["model"]]
    assert f"is a copy of a shard of model {other}: both would draw the same noise" in failed["error"]
    asked = _ask(many[other])
    _wait(many[other], asked)
    _check(many[other], asked)


def test_commands_take_the_model_or_all(many):
    """Topics are made for all; what looks at one place wants a name, and tells which there are."""
    config = many.config()
    for topic in (many["box"].answers, many["stump"].answers):
        many.broker.delete_topic(topic)
    made = perpetua("topics", config, "--create", "--json")
    assert made.returncode == 0, made.stderr
    found = json.loads(made.stdout)["models"]
    assert {label: one["made"] for label, one in found.items()} == {
        "box": [many["box"].answers, f"{many.group}.marks"],
        "stump": [many["stump"].answers],
        "learn": [],
    }
    assert found["box"]["topics"][f"{many.group}.marks"]["partitions"] == 2, "as many as the largest model has"
    process = many.serve(config)
    asked = {label: _ask(model) for label, model in many.models.items()}
    for label, model in many.models.items():
        _wait(model, asked[label])
    query = many["stump"].contents(1)[0].decode()
    answer = perpetua("ask", config, query, "--model", "stump")
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["id"] == json.loads(query)["id"]
    unnamed = perpetua("ask", config, query)
    assert (unnamed.returncode, b"must name one of" in unnamed.stderr) == (2, True)
    assert _stop(process) == 0
    shown = json.loads(perpetua("offsets", "show", config, "--model", "box", "--json").stdout)
    assert (shown["group"], shown["partitions"][0]["offset"]["round"]) == (many.group, _COUNT)
    misspelt = perpetua("offsets", "show", config, "--model", "stmp")
    assert b"must be one of box, stump, learn; did you mean stump?" in misspelt.stderr
    plans = [f"model {label}: plan verified by the accountant" for label in many.models]  # too small for proofs
    lines, problems = _checked(config)
    assert problems == plans
    assert sum(line.startswith("model stump: shard") for line in lines) == 2
    assert lines[-1] == "no model has a copy of another's state"
    shutil.rmtree(many.folder / "learn-state")
    assert _checked(config)[1] == [*plans[:2], "model learn: state folder exists and is private"]
    lines, problems = _checked(config, "--model", "box")
    assert problems == plans[:1]
    assert not any("stump" in line or "learn" in line for line in lines)


def _checked(config, *options):
    """Check; return what was looked at, and of that what is wrong."""
    found = json.loads(perpetua("check", config, "--json", *options).stdout)
    return [one["what"] for one in found], [one["what"] for one in found if one["problem"]]


@pytest.mark.slow
def test_a_topic_that_is_denied_stops_its_own_model(tmp_path):
    """While it serves, and at a start: the brokers' rules are about one topic, and the others answer on."""
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with Broker(tmp_path / "broker", properties=properties) as broker:
        many = ManyModels(broker, "denied", tmp_path).create()
        try:
            config = many.config()
            process = many.serve(config)
            asked = {label: _ask(model) for label, model in many.models.items()}
            for label, model in many.models.items():
                _wait(model, asked[label])
            rule = AclBinding(
                ResourceType.TOPIC,
                many["box"].queries,
                ResourcePatternType.LITERAL,
                "User:ANONYMOUS",
                "*",
                AclOperation.READ,
                AclPermissionType.DENY,
            )
            broker.allow([rule])
            many["stump"].ask(many["stump"].contents(1), partition=0)
            asked["stump"][0] += many["stump"].contents(1)
            asked["learn"] = _more(many["learn"], asked["learn"])
            for label in ("stump", "learn"):
                _wait(many[label], asked[label])
            process.kill()
            process.wait(TIMEOUT)
            again = many.serve(config, "again.log")
            asked = {label: _more(many[label], asked[label], seed=300) for label in ("stump", "learn")}
            for label in ("stump", "learn"):
                _wait(many[label], asked[label])
                _check(many[label], asked[label])
            wait_until(lambda: any(line.get("event") == "model.failed" for line in many.log("again.log")))
            (failed,) = [line for line in many.log("again.log") if line.get("event") == "model.failed"]
            assert failed["model"] == "box"
            assert "TopicAuthorizationFailed" in failed["error"]
            assert _stop(again) == 2
        finally:
            many.end()
