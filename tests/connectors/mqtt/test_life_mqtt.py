"""A new model takes the old one's session over on MQTT; the old one is retired once nothing waits in its journal."""

from tests.support.folders import make_state, perpetua
from tests.support.mqtt import MqttModelUnderTest
from tests.support.shards import bodies
from tests.support.waiting import eventually


def _ids(asker):
    return [heard.json["id"] for heard in asker.heard]


def test_the_session_of_the_old_model_goes_to_the_new_one(model: MqttModelUnderTest):
    """Queries that came between the two are answered, once, by the new one; then the old one is retired."""
    asker = model.asker()
    blue = model.config("blue.toml")
    make_state(model.folder / "green", model.plan, secret=b"g" * 32)
    green = model.folder / "green.toml"
    green.write_text(
        blue.read_text().replace(f'folder = "{model.folder / "state"}"', f'folder = "{model.folder / "green"}"')
    )
    first = model.serve(blue, "blue.log")
    model.wait_for_event("bus.connected", log="blue.log")
    contents = bodies(60)
    for body in contents[:20]:
        asker.ask(model.queries, body)
    eventually(lambda: len(asker.heard) >= 20, what=lambda: model.log("blue.log")[-3:])
    assert b"another process holds it" in perpetua("retire", blue).stderr
    assert model.stop(first) == 0
    for body in contents[20:40]:
        asker.ask(model.queries, body)
    eventually(lambda: len(asker.taken) >= 40, what=lambda: "the broker has taken them")
    second = model.serve(green, "green.log")
    for body in contents[40:]:
        asker.ask(model.queries, body)
    eventually(lambda: len(asker.heard) >= 60, what=lambda: model.log("green.log")[-3:])
    ids = _ids(asker)
    assert sorted(ids) == sorted(set(ids))
    retired = perpetua("retire", blue)
    assert retired.returncode == 0, retired.stderr
    assert not [path for path in (model.folder / "state" / "journal").rglob("*") if path.is_file()]
    assert perpetua("serve", blue).returncode == 3
    assert model.stop(second) == 0


def test_what_was_taken_and_not_answered_is_in_the_way(model: MqttModelUnderTest):
    """Nobody else can answer it: retiring waits until it is answered, or its answer has left."""
    asker = model.asker()
    config = model.config(service="drain_seconds = 60\nbatch_rows = 1")
    daemon = model.serve(config)
    model.wait_for_event("bus.connected")
    for body in bodies(15_000):  # more than are answered before a busy machine sees the first five
        asker.ask(model.queries, body)
    eventually(lambda: len(asker.heard) >= 5, what=lambda: model.log()[-3:])
    daemon.kill()
    daemon.wait()
    refused = perpetua("retire", config)
    assert refused.returncode == 3, refused.stderr
    assert b"queries were taken and not answered" in refused.stderr
    assert (model.folder / "state" / "key").exists()
