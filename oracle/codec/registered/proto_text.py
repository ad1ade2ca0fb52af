"""The text of a .proto file as statements and blocks, as far as its grammar is the same everywhere.

A statement is words up to a semicolon, or up to a block in braces; what is within brackets behind a field, its options,
belongs to it. What words mean is for the caller.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

__all__ = ["Statement", "read_statements"]

_TOKEN: Final = re.compile(
    r"""
    (?P<space> \s+ | //[^\n]* | /\*.*?\*/ )
    | (?P<word> \.?[A-Za-z_][A-Za-z0-9_.]* | [0-9][A-Za-z0-9_.+]* | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' )
    | (?P<sign> [{}\[\]();=<>,:/\-+.] )
    """,
    re.VERBOSE | re.DOTALL,
)


class Statement(NamedTuple):
    """A statement.

    Attributes:
        words: Names, numbers, strings with their quotes, and signs.
        block: What stands behind it in braces; None if nothing does.
    """

    words: tuple[str, ...]
    block: list["Statement"] | None


def read_statements(text: str, deepest: int) -> list[Statement] | None:
    """Return the statements of a file; None if it is none, or has blocks nested deeper than that."""
    words = _words(text.removeprefix("\ufeff"))
    open_blocks: list[tuple[tuple[str, ...], list[Statement]]] = [((), [])]
    pending: list[str] = []
    brackets = 0
    try:
        for word in words:
            brackets += (word == "[") - (word == "]")
            if brackets:  # options may have braces of their own
                pending.append(word)
            elif word == ";":
                open_blocks[-1][1].append(Statement(tuple(pending), None))
                pending.clear()
            elif word == "{":
                open_blocks.append((tuple(pending), []))
                pending.clear()
                if len(open_blocks) > deepest:
                    return None
            elif word == "}":
                if pending:  # within an option's value there are no semicolons
                    open_blocks[-1][1].append(Statement(tuple(pending), None))
                    pending.clear()
                head, block = open_blocks.pop()
                open_blocks[-1][1].append(Statement(head, block))
            else:
                pending.append(word)
    except (ValueError, IndexError):
        return None
    return None if pending or brackets or len(open_blocks) != 1 else open_blocks[0][1]


def _words(text: str) -> Iterator[str]:
    """Yield words and signs.

    Raises:
        ValueError: There is something else.
    """
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError("no .proto file")
        at = found.end()
        if found.lastgroup != "space":
            yield found[0]
