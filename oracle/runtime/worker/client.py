"""The daemon's side of an engine in a process of its own."""

import os
import subprocess
import sys
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracle import errors
from oracle.accounting import ledger
from oracle.errors import EngineLostError, InputError, PerpetuaError, PlanExhaustedError
from oracle.planning.plan import Plan
from oracle.predictors.base import Answers, PublicFacts, StateArrays
from oracle.runtime.worker.protocol import (
    Answered,
    Ask,
    Begin,
    Export,
    Failed,
    Order,
    Ready,
    Settled,
    State,
    read_word,
)
from oracle.runtime.worker.shared_rows import SharedRows
from oracle.state.blobs import TAG_BYTES, decode_payload, encode_payload

__all__ = ["RemotePredictor", "WorkerProcess"]

_WordT = TypeVar("_WordT")
_NO_TAG: Final = bytes(TAG_BYTES)


class WorkerProcess:
    """The process, and what is said to it and heard from it. It ends with ours, however that ends.

    Args:
        width: D, how many numbers a query's features take.

    Attributes:
        rows: The memory that is shared with it.

    Raises:
        OSError: It cannot be started.
    """

    def __init__(self, width: int) -> None:
        self._wire, theirs = Pipe()
        self._process: subprocess.Popen[bytes] | None = None
        self._memory = -1
        try:
            with theirs:
                self._memory = os.memfd_create("perpetua-rows", os.MFD_CLOEXEC)
                self.rows = SharedRows(self._memory, width)
                self._process = _start(theirs, self._memory)
        except BaseException:
            self.close()
            raise

    @property
    def has_spoken(self) -> bool:
        """Whether `hear` would not wait: it is up, or it has ended."""
        return self._wire.poll()

    def say(self, order: Order) -> None:
        """Give an order.

        Raises:
            EngineLostError: The process has ended.
        """
        try:
            self._wire.send_bytes(msgspec.msgpack.encode(order))
        except OSError as exc:
            raise _lost() from exc

    def hear(self, kind: type[_WordT]) -> _WordT:
        """Wait for the next word.

        Raises:
            PerpetuaError: What the last order failed with, or that the process has ended (`EngineLostError`).
        """
        try:
            word = read_word(self._wire.recv_bytes())
        except (EOFError, OSError) as exc:
            raise _lost() from exc
        if isinstance(word, Failed):
            known = getattr(errors, word.kind, None)
            if isinstance(known, type) and issubclass(known, PerpetuaError) and not issubclass(known, InputError):
                raise known(word.text)
            raise _lost()
        if not isinstance(word, kind):
            raise _lost()
        return word

    def close(self) -> None:
        """End it, and let go of the memory."""
        if self._process is not None:  # first: who still waits for it, in a thread, hears that it has ended
            self._process.kill()
            self._process.wait()
            self._process = None
        self._wire.close()
        if self._memory >= 0:
            self.rows.end()
            os.close(self._memory)
            self._memory = -1


class RemotePredictor:
    """A predictor (see `oracle.predictors.base.Predictor`) that answers in another process.

    Formal guarantees:
        * Plan, state and batches give the same answers as a predictor in this process, bit for bit.
        * The engine does its bookkeeping as soon as the answers have left, and `settle` waits for it: how long it
          takes is no part of how long the next answers take.

    Args:
        plan: The plan.
        process: It has said Hello and no more.
        arrays: What `Predictor.export` returned.

    Raises:
        EngineLostError: The process has ended.
    """

    def __init__(self, plan: Plan, process: WorkerProcess, arrays: StateArrays) -> None:
        self._plan = plan
        self._process = process
        self._owed = False
        process.say(Begin(plan.encode(), encode_payload(_NO_TAG, arrays)))
        self._facts = process.hear(Ready).facts

    def answer(self, features: NDArray[np.float64], present: NDArray[np.bool_]) -> Answers:
        """See `Predictor.answer`."""
        count, rows = len(features), self._process.rows
        if self._facts.round + count > self._plan.rounds:
            msg = f"round {self._plan.rounds}: the plan's last phase ends here; make a new plan and state"
            raise PlanExhaustedError(msg)
        self.settle()  # from then on nobody looks at the rows
        try:
            room = rows.make_room(count)
        except OSError as exc:
            raise _lost() from exc
        rows.features[:count] = features
        rows.present[:count] = present
        self._process.say(Ask(count, room))
        said = self._process.hear(Answered)
        self._owed = True
        self._facts = said.facts
        return Answers(
            labels=rows.labels[:count].copy(),
            first_round=said.first_round,
            phases=np.repeat(*np.array(said.phases, dtype=np.int64).reshape(-1, 2).T),
            tag=np.frombuffer(said.tag, dtype=np.uint64).copy(),
            events=[ledger.decode(event) for event in said.events],
            values=rows.values[:count].copy() if self._plan.answers == "value" else None,
        )

    def settle(self) -> None:
        """See `Predictor.settle`."""
        if self._owed:
            self._process.hear(Settled)
            self._owed = False

    def export(self) -> StateArrays:
        """See `Predictor.export`."""
        self.settle()
        self._process.say(Export())
        return decode_payload(self._process.hear(State).state)[1]

    def facts(self) -> PublicFacts:
        """See `Predictor.facts`."""
        return self._facts


def _start(wire: Connection, memory: int) -> "subprocess.Popen[bytes]":
    numbers = (wire.fileno(), memory)
    line = [sys.executable, "-P", "-m", "oracle.runtime.worker", *map(str, numbers)]
    one_thread = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # NumPy's linear algebra has no work here: no pool for it
    return subprocess.Popen(  # noqa: S603 -- this very interpreter
        line, pass_fds=numbers, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=one_thread
    )


def _lost() -> EngineLostError:
    return EngineLostError("engine: its process has ended; what was committed stands, and a restart goes on from there")
