"""Named arrays as bytes whose length depends on their names, types and shapes only.

Every number has a fixed width, and the arrays stand in the order of their names, so equal states give equal bytes,
and states of one shape give bytes of one length whatever they hold (PRIVACY.md, Definition 1).
"""

import math
import struct
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from oracle.errors import CorruptSnapshotError, InputError
from oracle.predictors.base import StateArrays

__all__ = ["TAG_BYTES", "decode_payload", "encode_payload"]

TAG_BYTES = 16
"""Length of the shard's running tag."""

_DTYPES: Mapping[int, np.dtype[np.generic]] = {
    1: np.dtype("?"),
    2: np.dtype("i1"),
    3: np.dtype("<i2"),
    4: np.dtype("<i4"),
    5: np.dtype("<i8"),
    6: np.dtype("u1"),
    7: np.dtype("<u2"),
    8: np.dtype("<u4"),
    9: np.dtype("<u8"),
    10: np.dtype("<f4"),
    11: np.dtype("<f8"),
}
"""Type codes; append-only, for old snapshots stay readable."""

_CODES = {dtype: code for code, dtype in _DTYPES.items()}
_COUNT = struct.Struct("<I")
_ENTRY = struct.Struct("<HBB")  # length of the name, type code, number of dimensions
_DIMENSION = struct.Struct("<Q")
_NAME_LIMIT = 0xFFFF


def encode_payload(tag: bytes, arrays: StateArrays) -> bytes:
    """Encode the running tag and the arrays.

    Args:
        tag: The running tag, 16 bytes.
        arrays: Arrays of booleans, integers or floats, of any shape and byte order.

    Raises:
        InputError: The tag's length, a name or an array's type is not one that the format has.
    """
    if len(tag) != TAG_BYTES:
        raise InputError("snapshot.tag", len(tag), f"must be {TAG_BYTES} bytes long")
    parts = [tag, _COUNT.pack(len(arrays))]
    for name in sorted(arrays):
        parts += _encode_array(name, arrays[name])
    return b"".join(parts)


def decode_payload(data: bytes) -> tuple[bytes, dict[str, NDArray[np.generic]]]:
    """Return the tag and the arrays, which are fresh, writable, and of native byte order.

    The bytes come out of authenticated encryption; still no length is believed before it is compared with what
    is there.

    Raises:
        CorruptSnapshotError: They are not such an encoding.
    """
    reader = _Reader(data)
    try:
        tag = reader.take(TAG_BYTES)
        (count,) = _COUNT.unpack(reader.take(_COUNT.size))
        arrays = dict(_decode_array(reader) for _ in range(count))
    except (KeyError, UnicodeDecodeError, ValueError) as exc:
        raise CorruptSnapshotError("snapshot: the payload cannot be read") from exc
    if reader.left or len(arrays) != count:
        raise CorruptSnapshotError("snapshot: the payload cannot be read")
    return tag, arrays


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._view = memoryview(data)

    @property
    def left(self) -> int:
        return len(self._view)

    def view(self, count: int) -> memoryview:
        if count > len(self._view):
            raise ValueError(count)
        head, self._view = self._view[:count], self._view[count:]
        return head

    def take(self, count: int) -> bytes:
        return bytes(self.view(count))


def _encode_array(name: str, array: NDArray[np.generic]) -> list[bytes]:
    encoded = name.encode()
    if not 0 < len(encoded) <= _NAME_LIMIT:
        raise InputError("snapshot.arrays", name[:64], f"a name must have 1 to {_NAME_LIMIT} bytes")
    little = array.dtype.newbyteorder("<")
    if little not in _CODES:
        raise InputError(f"snapshot.arrays.{name}", str(array.dtype), "must be of a boolean, integer or float type")
    shape = b"".join(_DIMENSION.pack(size) for size in array.shape)
    header = _ENTRY.pack(len(encoded), _CODES[little], array.ndim)
    return [header, encoded, shape, array.astype(little, copy=False).tobytes()]


def _decode_array(reader: _Reader) -> tuple[str, NDArray[np.generic]]:
    name_bytes, code, dimensions = _ENTRY.unpack(reader.take(_ENTRY.size))
    name = reader.take(name_bytes).decode()
    shape = tuple(_DIMENSION.unpack(reader.take(_DIMENSION.size))[0] for _ in range(dimensions))
    dtype = _DTYPES[code]
    data = reader.view(math.prod(shape) * dtype.itemsize)
    array = np.frombuffer(data, dtype=dtype).reshape(shape)
    return name, array.astype(dtype.newbyteorder("="), copy=True)
