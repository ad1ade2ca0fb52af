"""Records into the client's batch builders, without the part of its builder that costs more than the record.

`BatchBuilder.append` asks for serializers and keeps its own count around an inner builder; here the inner one is filled
at once, and the count set behind it. Both names are the client's private ones: its version is pinned, and a test
compares the bytes with what the public way makes.
"""

from collections.abc import Iterable
from typing import Any

from connectors.kafka.large_batches import LargeBatch, Record

__all__ = ["fill"]


def fill(
    builder: Any,  # noqa: ANN401 -- the client has no types
    records: Iterable[Record],
    timestamp: int,
    headers: list[tuple[str, bytes]],
) -> int:
    """Append records with the same headers until there are no more or the batch is full; return how many went in."""
    if isinstance(builder, LargeBatch):
        return builder.fill(records, headers)
    append = builder._builder.append  # noqa: SLF001 -- see above
    first = count = builder.record_count()
    for key, value in records:
        if append(count, timestamp, key, value, headers) is None:
            builder.close()
            break
        count += 1
    builder._relative_offset = count  # noqa: SLF001 -- see above
    return int(count - first)
