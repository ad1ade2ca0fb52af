"""Reads a Dockerfile and its .dockerignore, as far as the tests need: stages, instructions, and what enters a build."""

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Stage:
    """One stage.

    Attributes:
        base: What it starts from.
        name: Its name, or "".
        steps: Its instructions in order: the word in capitals, and the rest on one line.
    """

    base: str
    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def of(self, word: str) -> list[str]:
        """Return the rests of all instructions with this word."""
        return [rest for found, rest in self.steps if found == word]

    def copies(self) -> list[tuple[list[str], str]]:
        """Return sources and target of each COPY from the build's context."""
        parts = [shlex.split(rest) for rest in self.of("COPY")]
        return [(words[:-1], words[-1]) for words in parts if not words[0].startswith("--from")]


def read_stages(path: Path) -> list[Stage]:
    """Return the stages of a Dockerfile, in order."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    stages: list[Stage] = []
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        word, _, rest = " ".join(line.split()).partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            stages.append(Stage(base, name))
        elif word:
            stages[-1].steps.append((word, rest))
    return stages


def enters_build(path: str, patterns: list[str]) -> bool:
    """Return whether a file enters the build: the last pattern decides that it, or a folder above it, matches."""
    parts = path.split("/")
    heads = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
    included = True
    for pattern in patterns:
        expression = _expression(pattern.removeprefix("!"))
        if any(expression.fullmatch(head) for head in heads):
            included = pattern.startswith("!")
    return included


def _expression(pattern: str) -> re.Pattern[str]:
    """`*` stands for anything within a name, `**/` for any folders or none."""
    escaped = re.escape(pattern).replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*")
    return re.compile(escaped)
