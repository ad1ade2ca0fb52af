"""Arrow streams to tables: one stream, or the frames of many behind one schema, as if they had come as one."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from oracle.codec.arrow.frames import read_frames
from oracle.codec.arrow.plain import check_views

__all__ = ["END", "MALFORMED", "Joined", "read_joined", "read_stream"]

END: Final = b"\xff\xff\xff\xff\0\0\0\0"
"""What a stream ends with."""

MALFORMED: Final = Exception
"""What is raised where bytes are no stream: pyarrow's errors are of many families, and no list of them is complete."""


class Joined(NamedTuple):
    """Many messages, read together.

    Attributes:
        table: Their rows, in order.
        rows: How many rows each has.
        batches: How many chunks of a column each has.
    """

    table: pa.Table
    rows: list[int]
    batches: list[int]


def read_stream(body: bytes, most_bytes: int) -> pa.Table:
    """Read a message that is one stream and nothing behind it: queries of a second one would get no answer.

    Args:
        body: `read_frames` has let it through.
        most_bytes: Of texts that views point to.

    Raises:
        LongTextsError: They are longer.
        ValueError: It is no such stream. pyarrow raises other errors too: see `MALFORMED`.
    """
    with pa.BufferReader(body) as stream, pa.ipc.open_stream(stream) as reader:
        table = reader.read_all()
        table.validate()
        check_views(table, most_bytes)
        table.validate(full=True)
        if stream.tell() != len(body):
            raise ValueError("bytes behind the stream")
    return table


def read_joined(bodies: Sequence[bytes], most_rows: int, most_bytes: int) -> Joined | None:
    """Read many messages as one stream, if each of them would be read alone, to the same rows.

    A plain record batch means the same wherever it stands behind the same schema: it has no metadata of its own
    (`frames.py`). What could shift rows from one message to the next leads to None: dictionaries, views and compressed
    buffers, other bytes of the schema, a column whose length is not that of its batch, or frames of odd lengths.

    Returns:
        None if one of them is rejected, or none of this is certain; then each is to be read alone.
    """
    head = b""
    frames: list[bytes | memoryview] = []
    rows: list[int] = []
    batches: list[int] = []
    try:
        for body in bodies:
            count, chunks, first, last, flat, _, plain = read_frames(body)
            head = head or body[:first]
            if not plain or not flat or first != len(head) or first % 8 or last % 8 or not body.startswith(head):
                return None
            if not first or count > most_rows or len(body) > most_bytes:
                return None
            frames.append(memoryview(body)[first:last])
            rows.append(count)
            batches.append(chunks)
        table = read_stream(b"".join([head, *frames, END]), 0)
    except MALFORMED:
        return None
    whole = table.num_rows == sum(rows) and table.num_columns and table.column(0).num_chunks == sum(batches)
    return Joined(table, rows, batches) if whole else None
