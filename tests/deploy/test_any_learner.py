"""The page about ensembles does what it says: every command is run, and its model files have plans."""

import re

import msgspec
import pytest

from oracle.planning.kinds import KINDS
from oracle.planning.planner import plan_model
from tests.support.pages import ROOT, comparable, read_blocks, run_blocks

_PAGE = ROOT / "docs" / "how-to" / "any-learner.md"
_BLOCKS = read_blocks(_PAGE)


@pytest.mark.slow
def test_every_command_does_what_the_page_shows(tmp_path):
    """From a table of flights to answers, with a carrier that is not declared and a value that is missing."""
    work = tmp_path / "work"
    work.mkdir()
    ran = run_blocks(_BLOCKS, work, {})
    shown = "\n---\n".join(ran.outputs)
    assert ran.code == 0, shown
    assert [comparable(output) for output in ran.outputs] == [comparable(block.output) for block in _BLOCKS]


def test_no_command_escapes_the_test():
    """Every block of the page is run, or is what one prints, or is a model file."""
    text = _PAGE.read_text()
    assert len(re.findall(r"^```sh$", text, re.MULTILINE)) == len(_BLOCKS)
    assert set(re.findall(r"^```(\S+)$", text, re.MULTILINE)) == {"sh", "text", "toml"}


def test_the_other_model_file_has_a_plan():
    """As many rows as it declares are enough."""
    (model,) = re.findall(r"^```toml\n(.*?)^```$", _PAGE.read_text(), re.MULTILINE | re.DOTALL)
    table = msgspec.toml.decode(model)["model"]
    assert plan_model(msgspec.convert(table, KINDS["ensemble"].model)).declared == 199_000
