"""The column `id` of Arrow messages: what of it is given back with the answers."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute

from oracle.service.codec.rejections import Reason, Rejection

__all__ = ["read_identifiers"]


def read_identifiers(
    table: pa.Table, batches: Sequence[int], longest: int
) -> Sequence[pa.StringArray | pa.Int64Array | None] | Rejection:
    """Return the ids of each message of a table, None for each if it has none.

    They are copied, so that no message's are padded with what stands beside them, the ids of somebody else.

    Args:
        table: Messages, one behind the other.
        batches: How many chunks of a column each message has.
        longest: Most bytes of an id.
    """
    if table.schema.get_field_index("id") < 0:
        return [None] * len(batches)
    column = table.column("id")
    wanted = _given_back(column, longest)
    if isinstance(wanted, Rejection):
        return wanted
    chunks, kind = column.chunks, column.type
    identifiers = []
    stop = 0
    for count in batches:
        start, stop = stop, stop + count
        whole = pa.chunked_array(chunks[start:stop], kind).combine_chunks()
        identifiers.append(whole if kind == wanted else whole.cast(wanted))
    return identifiers


def _given_back(column: pa.ChunkedArray, longest: int) -> pa.DataType | Rejection:
    """Return as what type ids are given back, or why they are not."""
    kind = column.type
    if pa.types.is_signed_integer(kind):
        return pa.int64()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        if (pa.compute.max(pa.compute.binary_length(column)).as_py() or 0) > longest:
            return Rejection(Reason.BAD_ID, "id", f"at most {longest} bytes of UTF-8")
        return pa.string()
    return Rejection(Reason.BAD_ID, "id", "a column of strings or signed integers")
