"""The page on a model's life does what it says, on a real broker."""

import re

import pytest

from tests.support.pages import ROOT, comparable, read_blocks, run_blocks

_PAGE = ROOT / "deploy" / "LIFE.md"
_BLOCKS = read_blocks(_PAGE)


@pytest.fixture
def topics_gone(broker):
    """A broker on which the topics that the page makes are deleted in the end."""
    yield broker
    for name in broker.topics():
        if name.startswith(("loans.", "perpetua-blue", "perpetua-green", "perpetua-amber")):
            broker.delete_topic(name)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_command_does_what_the_page_shows(topics_gone, tmp_path):
    """A model that names its data, another that takes over, another epsilon, the end: each query is answered once."""
    work = tmp_path / "work"
    work.mkdir()
    ran = run_blocks(_BLOCKS, work, {"broker-1:9092": topics_gone.servers, "/srv/perpetua": str(work)})
    shown = "\n---\n".join(ran.outputs)
    logs = "\n".join(path.read_text()[-2000:] for path in sorted(work.glob("*.log")))
    assert ran.code == 0, f"{shown}\n{logs}"
    assert [comparable(output) for output in ran.outputs] == [comparable(block.output) for block in _BLOCKS]
    assert not (work / "blue" / "key").exists()


def test_no_command_escapes_the_test():
    """Every command of the page stands in a block that is run."""
    text = _PAGE.read_text()
    assert len(re.findall(r"^ *```sh$", text, re.MULTILINE)) == len(_BLOCKS)
    assert set(re.findall(r"^ *```(\S+)$", text, re.MULTILINE)) <= {"sh", "text"}
