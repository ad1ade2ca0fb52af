"""The tutorial does what it says: every command is run behind the quick start's, and prints what the page shows."""

import re

import pytest

from tests.support.pages import ROOT, comparable, read_blocks, run_blocks
from tests.support.ports import free_port

_PAGE = ROOT / "docs" / "tutorial.md"
_TUTORIAL = read_blocks(_PAGE)
_BLOCKS = [*read_blocks(ROOT / "README.md", "Watch it in 15 lines"), *_TUTORIAL]


@pytest.mark.slow
def test_every_command_does_what_the_page_shows(tmp_path):
    """From the quick start's stopped daemon through a rejection, a kill, and a refusal."""
    port = free_port()
    work = tmp_path / "work"
    work.mkdir()
    ran = run_blocks(_BLOCKS, work, {"127.0.0.1:9464": f"127.0.0.1:{port}", "port = 9464": f"port = {port}"})
    assert ran.code == 0, ran.shown
    assert [comparable(output) for output in ran.outputs] == [comparable(block.output) for block in _BLOCKS]


def test_no_command_escapes_the_test():
    """Every block of the page is one that is run, or what one prints."""
    text = _PAGE.read_text()
    assert len(re.findall(r"^ *```sh$", text, re.MULTILINE)) == len(_TUTORIAL)
    assert set(re.findall(r"^ *```(\S+)$", text, re.MULTILINE)) == {"sh", "text"}


def test_the_readme_fits_on_three_screens():
    """What is more than 150 lines goes to docs/."""
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
