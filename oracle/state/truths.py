"""The state of `perpetua truth`: a folder of its own, with one sealed file for each shard.

Layout, version 1: magic and version 8 | nonce 12 | AES-256-GCM of the arrays (`blobs.py`). The first is associated
data; the key is the model's, for this purpose, plan and shard. Its size depends on the plan only.
"""

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from oracle import durable
from oracle.errors import NewerVersionError, StateError, StorageError, WrongKeyError, newer_version
from oracle.state.blobs import TAG_BYTES, decode_payload, encode_payload
from oracle.state.files import replace_durably
from oracle.state.format import derive_key

__all__ = ["TruthFile", "held_truths", "truth_secret"]

_MAGIC: Final = b"PERPTRU"
_VERSION: Final = 1
_HEAD: Final = _MAGIC + bytes([_VERSION])
_NONCE: Final = 12
_SEAL: Final = b"perpetua/truth/1/seal/"
_NOISE: Final = b"perpetua/truth/1/noise/"
_POSITIONS: Final = "positions"


def truth_secret(master_key: bytes, plan_digest: bytes, shard: int) -> bytes:
    """Return the key that a shard's noise on true labels is drawn under, 32 bytes (see `derive_key`)."""
    return derive_key(master_key, _NOISE, plan_digest + shard.to_bytes(4, "little"))


@contextmanager
def held_truths(folder: Path) -> Iterator[Path]:
    """Make the folder if there is none, hold it against other processes, and lend it.

    Raises:
        StateError: Another process holds it.
        StorageError: It cannot be made or locked.
    """
    try:
        durable.make_folder(folder)
        descriptor = durable.hold(folder / "lock")
    except BlockingIOError as exc:
        raise StateError(f"{folder}: another process counts true labels there") from exc
    except OSError as exc:
        raise StorageError(f"{folder}: cannot be used: {exc.strerror}") from exc
    try:
        yield folder
    finally:
        os.close(descriptor)


class TruthFile:
    """One shard's file.

    Args:
        folder: A folder that this process holds.
        master_key: The model's key, 32 bytes.
        plan_digest: Of its plan.
        shard: The shard's number.
    """

    def __init__(self, folder: Path, master_key: bytes, plan_digest: bytes, shard: int) -> None:
        self._path = folder / f"shard-{shard:05d}.truth"
        self._cipher = AESGCM(derive_key(master_key, _SEAL, plan_digest + shard.to_bytes(4, "little")))

    def save(self, arrays: Mapping[str, NDArray[np.generic]], positions: tuple[int, int]) -> None:
        """Replace what is there, durably and all at once.

        Args:
            arrays: Of fixed shapes.
            positions: Behind the last answer and the last true label that are in them.

        Raises:
            StorageError: It could not be written; what was there stands.
        """
        payload = encode_payload(bytes(TAG_BYTES), {**arrays, _POSITIONS: np.array(positions, dtype="<i8")})
        nonce = secrets.token_bytes(_NONCE)
        replace_durably(self._path, _HEAD + nonce + self._cipher.encrypt(nonce, payload, _HEAD))

    def load(self) -> tuple[dict[str, NDArray[Any]], tuple[int, int]] | None:
        """Return what was saved last; None if nothing was.

        Raises:
            StateError: It is damaged, of another key, plan or shard, or of a newer version.
            StorageError: It cannot be read.
        """
        try:
            data = durable.read(self._path)
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise StorageError(f"{self._path}: cannot be read: {exc.strerror}") from exc
        head, nonce = data[: len(_HEAD)], data[len(_HEAD) : len(_HEAD) + _NONCE]
        if head[:-1] != _MAGIC or len(nonce) != _NONCE:
            raise StateError(f"{self._path}: the file is damaged")
        if head[-1] > _VERSION:
            raise NewerVersionError(f"{self._path}: {newer_version(head[-1], _VERSION)}")
        try:
            payload = self._cipher.decrypt(nonce, data[len(_HEAD) + _NONCE :], head)
        except InvalidTag as exc:
            why = "damaged, or of another key, plan or shard than this model's"
            raise WrongKeyError(f"{self._path}: {why}; one folder is for one model") from exc
        arrays = decode_payload(payload)[1]
        first, second = map(int, arrays.pop(_POSITIONS))
        return arrays, (first, second)
