"""Pages whose commands are run: their ```sh blocks, in order, in one shell, beside the ```text blocks of output."""

import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.folders import environment

ROOT: Final = Path(__file__).resolve().parents[2]
_SECONDS: Final = 1700
_LOG: Final = 2000
_MARK: Final = "--- block"
_BLOCK: Final = re.compile(
    r"^(?P<indent> *)```sh\n(?P<commands>.*?)^(?P=indent)```\n"
    r"(?:(?P=indent)```text\n(?P<output>.*?)^(?P=indent)```\n)?",
    re.MULTILINE | re.DOTALL,
)
_CHANGING: Final = (
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"\bseconds=[\d.e-]+"), "seconds=SECONDS"),
    (re.compile(r"(\bperpetua |\bversion=)\d+\.\d+[\w.+]*"), r"\1VERSION"),
    (re.compile(r"^(planning|reading|re-executing|replaying|serving): .*\n", re.MULTILINE), ""),
    (re.compile(r" +$", re.MULTILINE), ""),
)


@dataclass(frozen=True, slots=True)
class Block:
    """Commands of a page.

    Attributes:
        commands: Lines of shell.
        output: What the page shows beneath them; empty if it shows nothing.
    """

    commands: str
    output: str


@dataclass(frozen=True, slots=True)
class Ran:
    """How the commands of pages ended.

    Attributes:
        code: The shell's exit code.
        outputs: What each block printed, as far as it came.
        logs: The ends of the logs in the folder, by path.
    """

    code: int
    outputs: Sequence[str]
    logs: Mapping[str, str]

    @property
    def shown(self) -> str:
        """What to look at when it failed: outputs and logs."""
        return "\n---\n".join([*self.outputs, *(f"{path}:\n{text}" for path, text in self.logs.items())])


def read_blocks(page: Path, section: str = "") -> list[Block]:
    """Return the blocks of a page, or of the section with a heading."""
    text = page.read_text()
    if section:
        text = text[text.index(f"\n## {section}\n") + 1 :]
        text = text.partition("\n## ")[0]
    return [
        Block(textwrap.dedent(found["commands"]), textwrap.dedent(found["output"] or ""))
        for found in _BLOCK.finditer(text)
    ]


def run_blocks(blocks: Sequence[Block], folder: Path, addresses: Mapping[str, str]) -> Ran:
    """Run blocks in one bash that ends at the first command that fails.

    `perpetua` and `python` are this tree's; `make` only looks whether there is such a target.

    Args:
        blocks: What to run.
        folder: An empty folder, where everything is done.
        addresses: What stands for what the page names.
    """
    programs = folder.parent / "programs"
    programs.mkdir()
    _program(programs / "perpetua", f'exec {shlex.quote(sys.executable)} -m oracle.cli "$@"')
    _program(programs / "python", f'exec {shlex.quote(sys.executable)} "$@"')
    for name in ("kafka-console-producer", "kafka-console-consumer"):
        _program(programs / name, f'exec {shlex.quote(sys.executable)} -m tests.support.console "$@"')
    _program(programs / "make", f'exec /usr/bin/make --dry-run --silent -C {shlex.quote(str(ROOT))} "$@" > /dev/null')
    script = "set -e\n" + "".join(f"echo; echo '{_MARK}'\n{block.commands}" for block in blocks)
    for named, real in addresses.items():
        script = script.replace(named, real)
    variables = environment()
    variables |= {"PATH": f"{programs}:{variables['PATH']}", "PYTHONPATH": str(ROOT), "LC_ALL": "C"}
    with (folder.parent / "output").open("w+") as output:
        done = subprocess.run(
            ["/bin/bash", "-c", script],
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=variables,
            check=False,
            timeout=_SECONDS,
        )
        output.seek(0)
        text = output.read()
    for named, real in addresses.items():
        text = text.replace(real, named)
    logs = {
        str(path): path.read_text(errors="replace")[-_LOG:] for path in sorted(folder.rglob("*.log")) if path.is_file()
    }
    return Ran(done.returncode, text.split(f"\n{_MARK}\n")[1:], logs)


def comparable(output: str) -> str:
    """Return output without what differs from run to run: times, versions, progress, spaces at lines' ends."""
    for pattern, instead in _CHANGING:
        output = pattern.sub(instead, output)
    return output.rstrip("\n")


def _program(path: Path, command: str) -> None:
    path.write_text(f"#!/bin/sh\n{command}\n")
    path.chmod(0o755)
