"""The page about MQTT does what it says, on a real Mosquitto."""

import re
import sys

import pytest

from tests.support.mosquitto import mosquitto_binary
from tests.support.pages import ROOT, comparable, read_blocks, run_blocks
from tests.support.ports import free_port

_PAGE = ROOT / "deploy" / "mqtt" / "README.md"


@pytest.mark.slow
def test_every_command_does_what_the_page_shows(tmp_path):
    """From nothing to a broker, a daemon and an asker who is answered; all three end cleanly."""
    assert mosquitto_binary()
    (block,) = read_blocks(_PAGE, "By hand")
    port = str(free_port())
    work = tmp_path / "work"
    work.mkdir()
    real = {
        "1883": port,
        "../.venv/bin/python ../deploy/mqtt/ask.py": f"{sys.executable} {ROOT}/deploy/mqtt/ask.py",
    }
    ran = run_blocks([block], work, real)
    assert ran.code == 0, ran.outputs
    (output,) = ran.outputs
    assert _without_labels(output) == _without_labels(block.output)


def _without_labels(output: str) -> str:
    """Return output without what noise may make otherwise."""
    return re.sub(r'"label":[01]', '"label":L', comparable(output))


def test_no_command_escapes_the_test():
    """No other block of the page shows commands that are run."""
    assert len(re.findall(r"^ *```sh$", _PAGE.read_text(), re.MULTILINE)) == 1
