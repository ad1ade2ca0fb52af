"""A mechanism that is another program: it reads JSON lines and writes a line for each question."""

import shlex
import subprocess
from types import TracebackType
from typing import Final, Self, TypeVar

import msgspec

from oracle.errors import InputError, SourceError

__all__ = ["Conversation"]

_T = TypeVar("_T")
_SECONDS: Final = 10.0
"""How long a program may take to end once its input has."""


class Conversation:
    """One run of a program, whose standard input and output are held.

    Args:
        option: The option that the command was given by.
        command: The program and its arguments, in a shell's quotes; no shell runs it.

    Raises:
        InputError: It cannot be started.
    """

    def __init__(self, option: str, command: str) -> None:
        self._command = command
        try:
            parts = shlex.split(command)
            self._process = subprocess.Popen(parts, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 -- the user's own command
        except (OSError, ValueError, IndexError) as exc:
            said = exc.strerror if isinstance(exc, OSError) else "it is empty, or a quote is open"
            raise InputError(option, command, f"must be a program and its arguments: {said}") from exc

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._process.kill()
        try:
            self._process.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def tell(self, message: object) -> None:
        """Send one line.

        Raises:
            SourceError: The program has ended.
        """
        assert self._process.stdin is not None  # noqa: S101 -- a pipe
        try:
            self._process.stdin.write(msgspec.json.encode(message) + b"\n")
            self._process.stdin.flush()
        except OSError as exc:
            raise SourceError(f"{self._command}: has closed its input before all was asked") from exc

    def ask(self, question: object, answer: type[_T]) -> _T:
        """Send a line, and read the next one.

        Raises:
            SourceError: The program has ended, or its line is none of this type.
        """
        self.tell(question)
        assert self._process.stdout is not None  # noqa: S101 -- a pipe
        line = self._process.stdout.readline()
        if not line:
            raise SourceError(f"{self._command}: has ended before all was answered")
        try:
            return msgspec.json.decode(line, type=answer)
        except msgspec.MsgspecError as exc:
            raise SourceError(f"{self._command}: {_shown(line)} is no answer: {exc}") from exc


def _shown(line: bytes) -> str:
    text = line.decode("utf-8", "replace").strip()
    return text if len(text) <= 80 else f"{text[:77]}..."  # noqa: PLR2004 -- a line of a terminal
