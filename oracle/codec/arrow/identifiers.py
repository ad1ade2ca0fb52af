"""The column `id` of Arrow messages: what of it is given back with the answers."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute

from oracle.codec.rejections import Reason, Rejection

__all__ = ["given_back_as", "read_identifiers"]


def read_identifiers(table: pa.Table, batches: Sequence[int], longest: int) -> Sequence[pa.Array | None] | Rejection:
    """Return the ids of each message of a table, None for each if it has none.

    They are copied, so that no message's are padded with what stands beside them, the ids of somebody else.

    Args:
        table: Messages, one behind the other; a column `id` is of a type that `given_back_as` names.
        batches: How many chunks of a column each message has.
        longest: Most bytes of an id.
    """
    if table.schema.get_field_index("id") < 0:
        return [None] * len(batches)
    column = table.column("id")
    wanted = given_back_as(column.type) or column.type
    texts = wanted == pa.string() and not pa.types.is_null(column.type)
    if texts and (pa.compute.max(pa.compute.binary_length(column)).as_py() or 0) > longest:
        return Rejection(Reason.BAD_ID, "id", f"at most {longest} bytes of UTF-8")
    chunks, kind = column.chunks, column.type
    identifiers: list[pa.Array | None] = []
    stop = 0
    for count in batches:
        start, stop = stop, stop + count
        whole = pa.chunked_array(chunks[start:stop], kind).combine_chunks()
        identifiers.append(whole if kind == wanted else whole.cast(wanted))
    return identifiers


def given_back_as(kind: pa.DataType) -> pa.DataType | None:
    """Return as what type ids of a type are given back; None of all types that are not named here."""
    if pa.types.is_signed_integer(kind):
        return pa.int64()
    texts = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)
    return pa.string() if texts else None
