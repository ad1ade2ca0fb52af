"""The operator's pages do what they say: every command is run, and prints what the page shows."""

import re
import shutil

import pytest

from tests.support.pages import ROOT, comparable, read_blocks, run_blocks
from tests.support.ports import free_port

_QUICK_START = read_blocks(ROOT / "README.md", "Watch it in 15 lines")
_PAGE = ROOT / "deploy" / "OPERATING.md"
_OPERATING = read_blocks(_PAGE)
_BLOCKS = [*_QUICK_START, *_OPERATING]


@pytest.fixture
def topics_gone(broker):
    """A broker on which the topics that the page makes are deleted in the end; it may have seen no group before."""
    yield broker
    for name in broker.topics() & {"demo2.queries", "demo2.answers"}:
        broker.delete_topic(name)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_command_does_what_the_pages_show(topics_gone, tmp_path):
    """From nothing to a monitored daemon, then through backup, restore and all the rest, on files and a real broker."""
    port = free_port()
    work = tmp_path / "work"
    work.mkdir()
    real = {
        "127.0.0.1:9464": f"127.0.0.1:{port}",
        "port = 9464": f"port = {port}",
        "broker-1:9092": topics_gone.servers,
        "/srv/perpetua": str(work),
    }
    ran = run_blocks(_BLOCKS, work, real)
    assert ran.code == 0, ran.shown
    assert [comparable(output) for output in ran.outputs] == [comparable(block.output) for block in _BLOCKS]
    answers = (work / "demo" / "answers.jsonl").read_bytes().splitlines()
    queries = (work / "demo" / "queries.jsonl").read_bytes().splitlines()
    assert len(answers) == len(queries) == 1154


def test_the_quick_start_has_fifteen_lines():
    """The section is one block of as many lines as it says."""
    (block,) = _QUICK_START
    assert len(block.commands.splitlines()) == 15


def test_no_command_escapes_the_test():
    """Every command of the operator's page stands in a block that is run."""
    text = _PAGE.read_text()
    assert len(re.findall(r"^ *```sh$", text, re.MULTILINE)) == len(_OPERATING)
    assert set(re.findall(r"^ *```(\S+)$", text, re.MULTILINE)) == {"sh", "text"}


def test_a_failing_command_or_another_output_is_noticed(tmp_path):
    """The runner stops at a command that fails, and keeps apart what each block printed."""
    page = tmp_path / "page.md"
    page.write_text("```sh\necho one\n```\n```text\ntwo\n```\n- x\n\n  ```sh\n  false\n  echo never\n  ```\n")
    blocks = read_blocks(page)
    assert [block.commands for block in blocks] == ["echo one\n", "false\necho never\n"]
    (tmp_path / "work").mkdir()
    ran = run_blocks(blocks, tmp_path / "work", {})
    assert ran.code == 1
    assert [comparable(output) for output in ran.outputs] == ["one", ""]
    assert comparable(blocks[0].output) == "two"


def test_only_what_must_differ_is_left_out_of_the_comparison():
    """Times, versions and progress are; numbers and words are not."""
    line = "{} [info     ] daemon.recovered model=demo round={} seconds={} version={}\n"
    first = line.format("2026-11-21T19:30:33Z", 152, "0.028", "0.1.0")
    again = line.format("2027-01-02T03:04:05Z", 152, "1.5e-05", "1.0.0rc1")
    assert comparable(first) == comparable("planning: 11 of 90 steps, about 16 s left\n" + again)
    assert comparable(first) != comparable(line.format("2026-11-21T19:30:33Z", 153, "0.028", "0.1.0"))


def test_what_the_page_needs_is_there():
    """The commands beside `perpetua` that the pages use are on this machine."""
    for program in ("awk", "curl", "grep", "make", "openssl", "sed", "seq"):
        assert shutil.which(program), program
