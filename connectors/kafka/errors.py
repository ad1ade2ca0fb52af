"""aiokafka's errors in the words of `oracle.errors`: what a caller does about them, not what the client met."""

import asyncio
import contextlib
from collections.abc import Iterator

from aiokafka import errors

from oracle.errors import BusError, FencedError, RefusedError, SourceError, StorageError

__all__ = ["translated"]

_FENCED = (errors.ProducerFenced, errors.InvalidProducerEpoch)
_REFUSED = (
    errors.TopicAuthorizationFailedError,
    errors.GroupAuthorizationFailedError,
    errors.ClusterAuthorizationFailedError,
    errors.TransactionalIdAuthorizationFailed,
    errors.AuthenticationFailedError,
    errors.SaslAuthenticationFailed,
    errors.AuthenticationMethodNotSupported,
    errors.UnsupportedSaslMechanismError,
)
_TOO_LARGE = (errors.MessageSizeTooLargeError, errors.RecordListTooLargeError)


@contextlib.contextmanager
def translated(what: str) -> Iterator[None]:
    """Run a block of calls to the client; `what` begins the message of whatever goes wrong.

    The client's own texts are left out, but for the names of its error classes: they may quote what was sent.

    Raises:
        FencedError: Another process has taken the partition over, or a transaction took too long.
        RefusedError: The brokers do not let us; nothing but another configuration helps.
        SourceError: The records are gone.
        StorageError: A message is larger than its topic takes.
        BusError: Anything else; it may pass.
    """
    try:
        yield
    except _FENCED as exc:
        raise FencedError(f"{what}: another process has taken over, or a transaction ran out of time") from exc
    except _REFUSED as exc:
        raise RefusedError(f"{what}: the brokers refuse it: {_name(exc)}") from exc
    except errors.OffsetOutOfRangeError as exc:
        raise SourceError(f"{what}: the records to read next were deleted (retention), or the topic was cut") from exc
    except _TOO_LARGE as exc:
        raise StorageError(f"{what}: a message is larger than the topic's max.message.bytes; raise it") from exc
    except TimeoutError as exc:
        raise BusError(f"{what}: no answer in time") from exc
    except (errors.KafkaError, errors.IllegalOperation, errors.ConsumerStoppedError, OSError) as exc:
        raise BusError(f"{what}: {_name(exc)}") from exc
    except asyncio.InvalidStateError as exc:  # the client's own race when its sender has died
        raise BusError(f"{what}: the client has failed") from exc


def _name(error: BaseException) -> str:
    return type(error).__name__.removesuffix("Error")
