"""The engine's side of its process: carry out one order after another until nobody is left to give any."""

import contextlib
import signal
from multiprocessing.connection import Connection
from typing import Never

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracle.accounting.ledger import encode
from oracle.errors import PerpetuaError
from oracle.planning.kinds import decode_plan
from oracle.predictors.base import Answers, Predictor
from oracle.predictors.kinds import restore_predictor
from oracle.runtime.memory import settle_memory
from oracle.runtime.worker.protocol import (
    Answered,
    Ask,
    Begin,
    Export,
    Failed,
    Hello,
    Ready,
    Settled,
    State,
    Word,
    read_order,
)
from oracle.runtime.worker.shared_rows import SharedRows
from oracle.runtime.worker.version import build
from oracle.state.blobs import TAG_BYTES, decode_payload, encode_payload

__all__ = ["work"]


def work(wire: int, memory: int) -> None:
    """Be the engine, to the end of the process that gives the orders.

    Args:
        wire: Number of the socket.
        memory: Number of the file that is shared.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a terminal and systemd send them to us too; the daemon decides
    settle_memory()
    with Connection(wire) as connection, contextlib.suppress(EOFError, OSError):  # they say that the daemon is gone
        _say(connection, _failure(connection, memory))


def _failure(connection: Connection, memory: int) -> Failed:
    """Serve; return what that ended with. Nothing else leaves the process: a traceback may hold private data."""
    try:
        _serve(connection, memory)
    except PerpetuaError as exc:
        return Failed(type(exc).__name__, str(exc))
    except (EOFError, OSError):
        raise
    except Exception:  # noqa: BLE001 -- see above
        return Failed()


def _serve(connection: Connection, memory: int) -> Never:
    _say(connection, Hello(build()))
    begin = read_order(connection.recv_bytes())
    if not isinstance(begin, Begin):
        raise TypeError(type(begin))
    plan = decode_plan(begin.plan)
    predictor: Predictor = restore_predictor(plan, decode_payload(begin.state)[1])
    rows = SharedRows(memory, plan.width)
    _say(connection, Ready(predictor.facts()))
    del begin
    while True:
        match read_order(connection.recv_bytes()):
            case Ask(count, room):
                rows.look_at(room)
                _say(connection, _answer(predictor, rows, count))
                predictor.settle()
                _say(connection, Settled())
            case Export():
                _say(connection, State(encode_payload(bytes(TAG_BYTES), predictor.export())))
            case other:
                raise TypeError(type(other))


def _answer(predictor: Predictor, rows: SharedRows, count: int) -> Answered:
    answers: Answers = predictor.answer(rows.features[:count], rows.present[:count])
    rows.labels[:count] = answers.labels
    if answers.values is not None:
        rows.values[:count] = answers.values
    events = [encode(event) for event in answers.events]
    return Answered(answers.first_round, _runs(answers.phases), answers.tag.tobytes(), events, predictor.facts())


def _runs(phases: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return (phase, rows) of each run."""
    starts = np.flatnonzero(np.diff(phases, prepend=-1))
    lengths = np.diff(starts, append=len(phases))
    return list(zip(phases[starts].tolist(), lengths.tolist(), strict=True))


def _say(connection: Connection, word: Word) -> None:
    connection.send_bytes(msgspec.msgpack.encode(word))
