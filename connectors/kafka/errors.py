"""aiokafka's errors in the words of `oracle.errors`: what a caller does about them, not what the client met."""

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Iterator
from typing import Final

from aiokafka import errors

from connectors.kafka.record_batches import UnpackedBatchError
from oracle.errors import BusError, FencedError, RefusedError, SourceError, StorageError

__all__ = ["NotLetInError", "TooLargeError", "UnprovenError", "translated"]


class NotLetInError(RefusedError):
    """The brokers do not believe that we are who we say, or we do not believe them.

    Attributes:
        table: Whose settings that is about: "kafka.tls" or "kafka.sasl".
    """

    def __init__(self, message: str, table: str = "kafka.sasl") -> None:
        super().__init__(message)
        self.table = table


class TooLargeError(StorageError):
    """A topic takes less than it did when we last asked."""


class UnprovenError(errors.KafkaError):
    """We have nothing to prove who we are with, for the reason that is its cause."""


_FENCED = (errors.ProducerFenced, errors.InvalidProducerEpoch)
_REFUSED = (
    errors.TopicAuthorizationFailedError,
    errors.GroupAuthorizationFailedError,
    errors.ClusterAuthorizationFailedError,
    errors.TransactionalIdAuthorizationFailed,
)
_NOT_LET_IN = (
    errors.AuthenticationFailedError,
    errors.SaslAuthenticationFailed,
    errors.AuthenticationMethodNotSupported,
    errors.UnsupportedSaslMechanismError,
)
_UNWANTED: Final = (*_REFUSED, *_NOT_LET_IN, UnprovenError)
_NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "ALERT")
"""In the names of TLS's own errors: what is said by a server that speaks no TLS, or that does not want us."""

_UNFIT: Final[dict[type, str]] = {
    errors.InvalidTransactionTimeout: "sink.transaction_seconds is above the brokers' transaction.max.timeout.ms",
    errors.InvalidSessionTimeoutError: (
        "source.session_seconds is not between the brokers' group.min.session.timeout.ms and "
        "group.max.session.timeout.ms (by default 6 s and 1800 s)"
    ),
}
"""Errors of a setting that the brokers do not take: nothing but another one helps."""

_WORDS: Final = {
    errors.KafkaConnectionError: "the connection was closed or could not be made",
    errors.InvalidTimestampError: (
        "a record's timestamp differs from the broker's clock by more than the topic's "
        "message.timestamp.before.max.ms or message.timestamp.after.max.ms; check the clocks of both machines"
    ),
}
"""Errors whose names do not say what to look at."""

_TOO_LARGE = (errors.MessageSizeTooLargeError, errors.RecordListTooLargeError)


@contextlib.contextmanager
def translated(what: str) -> Iterator[None]:
    """Run a block of calls to the client; `what` begins the message of whatever goes wrong.

    The client's own texts are left out, but for the names of its error classes: they may quote what was sent.

    Raises:
        FencedError: Another process has taken the partition over, or a transaction took too long.
        RefusedError: The brokers do not let us; nothing but another configuration helps.
        NotLetInError: They do not let us in at all.
        SourceError: The records are gone, or cannot be unpacked.
        TooLargeError: A message is larger than its topic takes.
        BusError: Anything else; it may pass.
    """
    try:
        yield
    except _FENCED as exc:
        raise FencedError(f"{what}: another process has taken over, or a transaction timed out") from exc
    except _UNWANTED as exc:
        raise _refused(what, exc) from exc
    except errors.OffsetOutOfRangeError as exc:
        raise SourceError(f"{what}: the next records were deleted (retention), or the topic was truncated") from exc
    except _TOO_LARGE as exc:
        raise TooLargeError(f"{what}: a message is larger than the topic's max.message.bytes; raise it") from exc
    except UnpackedBatchError as exc:
        raise SourceError(f"{what}: {exc}") from exc
    except TimeoutError as exc:
        raise BusError(f"{what}: no answer in time") from exc
    except (errors.KafkaError, errors.IllegalOperation, errors.ConsumerStoppedError, OSError) as exc:
        raise _clear(what, exc) from exc
    except (asyncio.InvalidStateError, AssertionError) as exc:
        # Races of the client's own: its sender has died; or the brokers, as they start, knew of no broker yet.
        raise BusError(f"{what}: the Kafka client failed") from exc


def _refused(what: str, error: BaseException) -> RefusedError | BusError:
    """Return what it is to us that the brokers do not let us, or not in."""
    if isinstance(error, UnprovenError):
        kind = BusError if isinstance(error.__cause__, BusError) else NotLetInError
        return kind(f"{what}: {error.__cause__}")
    refusal = NotLetInError if isinstance(error, _NOT_LET_IN) else RefusedError
    return refusal(f"{what}: refused by the brokers: {_name(error)}{_about(error)}")


def _clear(what: str, error: Exception) -> RefusedError | BusError:
    """Return what an error of the client is to us; what killed its sender, or its part in the group, is its cause."""
    unfit = _UNFIT.get(type(error)) or _UNFIT.get(type(error.__cause__))
    if unfit is not None:
        return RefusedError(f"{what}: {unfit}")
    if isinstance(error.__cause__, _UNWANTED):
        return _refused(what, error.__cause__)
    reason = _tls_refusal(error) or _tls_refusal(error.__cause__)
    if reason is not None:
        return NotLetInError(f"{what}: kafka.tls: {reason}", "kafka.tls")
    return BusError(f"{what}: {_name(error)}")


def _name(error: BaseException) -> str:
    for kind, words in _WORDS.items():
        if isinstance(error, kind):
            return words
    if isinstance(error, OSError):  # asyncio's own words have the address in them once more
        named = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        return named if error.errno and named else "the connection could not be made"
    return type(error).__name__.removesuffix("Error")


def _about(error: BaseException) -> str:
    """Return which topics an error of access is about, if it says so."""
    named = error.args[0] if error.args and isinstance(error, errors.TopicAuthorizationFailedError) else ()
    names = sorted(map(str, named)) if isinstance(named, set | frozenset | list | tuple) else [str(named)]
    return f" ({', '.join(names)})" if names else ""


def _tls_refusal(error: BaseException | None) -> str | None:
    """Return why TLS will never succeed as it is set up, if this error says so; a lost connection may pass."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the broker's certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and any(word in (error.reason or "") for word in _NOT_TLS):
        return f"the TLS handshake failed: {error.reason}"
    return None
