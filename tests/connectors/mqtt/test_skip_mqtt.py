"""A message on MQTT that stops the daemon is passed over, and nothing else is different."""

import json
import re

import pytest

from tests.support.folders import perpetua
from tests.support.poisoned import FAILING, body
from tests.support.shards import bodies
from tests.support.waiting import eventually

_LAUNCHER = ("-m", "tests.support.poisoned")


@pytest.mark.slow
def test_daemon_goes_on_behind_a_message_that_was_passed_over(model):
    """It is journalled, so each restart meets it again, until an operator passes it over; what was held back comes."""
    config = model.config()
    asker = model.asker(model.answers, f"{model.name}/dead")
    daemon = model.serve(config, launcher=_LAUNCHER)
    model.wait_for_event("bus.connected")
    contents = [*bodies(20), body(FAILING, 0.5), *bodies(20, seed=2)]
    for content in contents:
        asker.ask(model.queries, content)
    assert daemon.wait(60) == 3
    assert model.serve(config, launcher=_LAUNCHER).wait(60) == 3
    found = re.search(r"--position (\d+)", (model.folder / "serve.log").read_text())
    assert found is not None
    checked = perpetua("check", config)
    assert f"the next message ends at {found[1]}".encode() in checked.stdout
    wrong = perpetua("skip", config, "--position", str(int(found[1]) + 1), "--yes")
    assert (wrong.returncode, b"stands at position" in wrong.stderr) == (2, True)
    skipped = perpetua("skip", config, "--position", found[1], "--yes")
    assert skipped.returncode == 0, skipped.stderr
    daemon = model.serve(config, launcher=_LAUNCHER)
    # What was not acknowledged when a daemon ended is published again, the same bytes.
    eventually(
        lambda: len({heard.body for heard in asker.on(model.answers)}) >= len(contents), what=lambda: model.log()[-5:]
    )
    assert perpetua("skip", config, "--position", found[1], "--yes").returncode == 3, "the daemon holds the state"
    values = list(dict.fromkeys(heard.body for heard in asker.on(model.answers)))
    assert json.loads(values.pop(20))["error"] == "skipped"
    expected = model.expected([*contents[:20], b"?", *contents[21:]])
    assert values == [*expected[:20], *expected[21:]]
    eventually(lambda: asker.on(f"{model.name}/dead"))
    assert asker.on(f"{model.name}/dead")[0].json["reason"] == "skipped"
    assert model.stop(daemon) == 0
