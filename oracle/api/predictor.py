"""`TrainedPredictor`: a predictor in memory, its answers, and its state folder."""

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, NoReturn, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from connectors.base import Deliveries, Delivery
from oracle import durable
from oracle.accounting.ledger import StartChecked
from oracle.api.arrays import BATCH, as_features
from oracle.codec.kinds import codec_of
from oracle.codec.rejections import Rejection
from oracle.config.daemon import StateConfig
from oracle.errors import InputError, PlanExhaustedError, StateError, StorageError
from oracle.hosting.files import open_store
from oracle.planning.distribution.model import DistributionPlan
from oracle.planning.plan import Plan
from oracle.planning.questions import QuestionPlan
from oracle.planning.statistics.model import TablePlan
from oracle.predictors.base import NO_LABEL, Answers, Predictor, PublicFacts
from oracle.predictors.kinds import restore_predictor
from oracle.state.folder import FolderStore, check_mode
from oracle.state.format import Snapshot
from oracle.state.keys import create_key_file
from oracle.state.program import is_programs, say_answering, say_saved
from oracle.state.shard_id import ShardId
from oracle.state.shards import holds_state
from oracle.state.starts import record_start

__all__ = ["Results", "TrainedPredictor", "load", "open_state"]

Results = NDArray[np.int8] | NDArray[np.float64] | NDArray[np.object_]
"""Answers: labels, or numbers, or classes by their names."""


_ANY: Final[Mapping[str, object]] = MappingProxyType({})


class TrainedPredictor:
    """Answers queries; `oracle.train` and `oracle.load` make it. One thread may use it at a time.

    It is stateful: each query takes a round of the plan, and an everlasting predictor re-arms itself from queries, so
    the same query may get another answer later. It cannot be copied or pickled: a copy would answer the same rounds
    again, and no proof covers two runs under one key on different queries. Its rows and its key are in the process's
    memory, which `perpetua serve` closes to others and a notebook does not.

    Formal guarantees:
        * Those of `oracle.train`.
        * The same plan, key, rows and queries in the same order give the same answers, for any batch cut
          (`oracle.predictors.base.Predictor`, "Batch-blind").

    Attributes:
        plan: Its plan.
    """

    def __init__(
        self, plan: Plan, predictor: Predictor, snapshot: Snapshot, held: tuple[Path, FolderStore] | None
    ) -> None:
        self.plan = plan
        self._predictor = predictor
        self._origin = snapshot.origin
        self._generation = snapshot.generation
        self._tag = np.frombuffer(snapshot.tag, dtype="<u8").copy()
        self._held = held
        self._saved_round = snapshot.round
        self._start: StartChecked | None = None
        self._closed = False
        self._whole = True
        self._process = os.getpid()

    @classmethod
    def first(cls, plan: Plan, predictor: Predictor, start: StartChecked | None) -> Self:
        """Return one that has answered nothing; `start` is what was released of its rows before."""
        snapshot = Snapshot.first(plan.digest, predictor.export()).bound(ShardId(0, 1))
        made = cls(plan, predictor, snapshot, None)
        made._generation, made._saved_round, made._start = 0, -1, start
        return made

    @property
    def facts(self) -> PublicFacts:
        """What anyone may know of it: its round and phase, and how often a side was armed again."""
        return self._predictor.facts()

    def answer(self, queries: Any) -> Results:  # noqa: ANN401 -- said below
        """Answer queries in order; each takes a round, and cannot be taken back.

        Args:
            queries: float64[n, D], finite; of an ensemble as in `oracle.train`. Of a table, rows of `plan.layout.row`;
                `ask` takes questions in words.

        Returns:
            int8[n], labels 0 or 1, -1 in rounds that the model rested in; float64[n] where `plan.answers` is "value".
            Of other classes object[n], their names, None in rounds that the model rested in.

        Raises:
            InputError: A shape or a value is wrong; no query was answered.
            DataError: A column holds what it should not; no query was answered.
            PlanExhaustedError: The plan has fewer rounds left; no query was answered.
            StateError: It is closed, was interrupted at work, or belongs to the process this one was forked from.
        """
        self._check_open()
        if isinstance(self.plan, DistributionPlan):
            raise InputError("plan.predictor", self.plan.predictor, "takes questions in words; use `ask`")
        features = as_features(self.plan, "queries", queries)
        self._begin(len(features))
        valued = self.plan.answers == "value"
        labels, values = np.empty(len(features), dtype=np.int8), np.empty(len(features) if valued else 0)
        for begin in range(0, len(features), BATCH):
            answers = self._answered(features[begin : begin + BATCH])
            rested = False if answers.verified is None else ~answers.verified
            labels[begin : begin + BATCH] = np.where(rested, NO_LABEL, answers.labels)
            if answers.values is not None:
                values[begin : begin + BATCH] = answers.values
        self._whole = True
        return values if valued else self._named(labels)

    def _named(self, labels: NDArray[np.int8]) -> Results:
        """Return classes by their names, but for 0 and 1."""
        names = tuple(self.plan.labels)
        return labels if names == (0, 1) else np.array([*names, None], dtype=np.object_)[labels]  # NO_LABEL is the last

    def ask(
        self,
        where: Mapping[str, object] = _ANY,
        *,
        by: Sequence[str] = (),
        above: float | None = None,
        at: object = None,
        quantile: float | Sequence[float] | None = None,
    ) -> dict[str, Any]:
        """Ask about a table or a distribution, as a JSON message would.

        `oracle.codec.json.questions` explains the first three arguments, which are for tables, and
        `oracle.codec.json.distributions` the others.

        Args:
            where: For each attribute the categories (None is "missing") or the range [from, to) that is meant; any
                value will do of the others.
            by: Attributes for each of whose cells it is asked; each takes a round.
            above: The threshold, a share of the rows; for a sparse vector only, which must have it.
            at: The value, or the list of values, of which is asked how many rows have no greater one.
            quantile: The share, or the list of shares, at or below whose value so many rows are.

        Returns:
            What a message's answer would hold, such as {"value": 0.1234, "error": 0.02, "paid": 17, "verified": True,
            "model": "s", "round": 0}.

        Raises:
            InputError: The question is none; or the plan takes none.
            PlanExhaustedError: As of `answer`.
            StateError: As of `answer`.
        """
        self._check_open()
        if not isinstance(self.plan, QuestionPlan):
            raise InputError("plan.predictor", self.plan.predictor, "must take questions; use `answer`")
        given = {"by": by or None, "above": above, "at": at, "quantile": quantile}
        asked = {name: value for name, value in given.items() if value is not None}
        message = _message(self.plan, where, asked)
        codec = codec_of(_admitting(self.plan, len(message)))
        batch = codec.decode(Deliveries.of([Delivery(0, message)]))
        part = batch.parts[0]
        if isinstance(part, Rejection):
            raise InputError(part.field, "...", f"must be {part.bound}")
        self._begin(len(batch.features))
        answers = self._answered(batch.features)
        self._whole = True
        found: dict[str, Any] = msgspec.json.decode(codec.encode(batch, answers).bodies[0])
        del found["id"]
        return found

    def _begin(self, count: int) -> None:
        """Prepare for so many rounds."""
        left = self.plan.rounds - self.facts.round
        if count > left:
            raise PlanExhaustedError(f"queries: {count:,} need a round each, and the plan has {left:,} left")
        if self._held is not None and self.facts.round == self._saved_round and count:
            say_answering(self._held[0], self._generation)
        self._whole = False

    def _answered(self, rows: NDArray[np.float64]) -> Answers:
        answers = self._predictor.answer(rows, np.ones(len(rows), dtype=np.bool_))
        self._tag ^= answers.tag
        self._predictor.settle()
        return answers

    def save(self, folder: Path | str | None = None) -> None:
        """Write the state to its folder, encrypted, in the format of `perpetua init`, and go on.

        Where the process ends between an answer and the next `save` or `close`, the state cannot be gone on with: it
        would answer rounds again, which no proof covers for other queries (`oracle.state.program`).

        Args:
            folder: The folder to make, with its key in the file `key`; needed the first time, and then the same one.

        Raises:
            InputError: No folder is named the first time, or another one later.
            StateError: It holds a state already, can be read by others, or the predictor is closed.
            StorageError: It could not be written; the last saved state stands.
        """
        self._check_open()
        path = None if folder is None else Path(folder).resolve()
        if self._held is None:
            if path is None:
                raise InputError("folder", None, "must name the state folder to make")
            self._held = path, self._make(path)
        elif path is not None and path != self._held[0]:
            raise InputError("folder", str(path), f"must be {self._held[0]}: a second copy would answer rounds twice")
        self._held[1].save(self._snapshot())
        self._generation, self._saved_round = self._generation + 1, self.facts.round
        say_saved(self._held[0])

    def close(self) -> None:
        """Save what was answered since the last `save`, if there is a folder, and release the folder.

        Raises:
            StorageError: It could not be written; the last saved state stands, and the folder stays held.
        """
        if self._held is not None and not self._closed:
            if self._whole and self._process == os.getpid() and self.facts.round != self._saved_round:
                self.save()
            self._held[1].close()
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:  # noqa: ANN401 -- as object's own
        raise TypeError("a trained predictor cannot be copied or pickled: save its state with `save`")

    def _make(self, folder: Path) -> FolderStore:
        if holds_state(folder):
            raise StateError(f"{folder}: holds a state already, and nothing is ever overwritten; name another folder")
        if self._start is not None:
            record_start(folder, self._start)
        try:
            durable.make_folder(folder, parents=True)
        except OSError as exc:
            raise StorageError(f"state folder {folder}: cannot be made: {exc.strerror}") from exc
        check_mode(folder)  # before its key is in it
        store = FolderStore.open(folder, create_key_file(folder / "key"))
        with contextlib.ExitStack() as undo:
            undo.callback(store.close)
            store.write_plan(self.plan.encode())
            undo.pop_all()
        return store

    def _snapshot(self) -> Snapshot:
        self._whole = False
        facts, arrays = self.facts, self._predictor.export()
        self._whole = True
        return Snapshot(
            plan_digest=self.plan.digest,
            generation=self._generation + 1,
            position=0,
            round=facts.round,
            phase=facts.phase,
            rearms=facts.rearms,
            tag=self._tag.tobytes(),
            arrays=arrays,
            origin=self._origin,
            paid=facts.paid,
            rested=facts.rested,
            rest_left=facts.rest_left,
        )

    def _check_open(self) -> None:
        if self._closed:
            raise StateError("the predictor is closed; `oracle.load` opens its state again")
        if not self._whole:
            raise StateError("the predictor was interrupted while it worked; only its last saved state is whole")
        if self._process != os.getpid():
            raise StateError("the predictor belongs to another process, and a copy would answer the same rounds")


def _message(plan: QuestionPlan, where: Mapping[str, object], asked: Mapping[str, object]) -> bytes:
    """Return a question as a message; of a table it has `where` always.

    Raises:
        InputError: One is asked as the other, or an argument is nothing that JSON has.
    """
    table = isinstance(plan, TablePlan)
    if table and (foreign := asked.keys() & {"at", "quantile"}):
        raise InputError(min(foreign), "...", "must be left out: it is for distributions")
    if not table:
        _check_asked(plan, where, asked)
    whole = {"where": where} if table else {}
    try:
        return msgspec.json.encode(whole | dict(asked), enc_hook=_plain)
    except (TypeError, ValueError) as exc:
        if table:
            raise InputError("where", "...", "must be lists of texts, numbers or dates by names of attributes") from exc
        raise InputError(min(asked), "...", "must be a value of the model's feature, or a list of such") from exc


def _check_asked(plan: QuestionPlan, where: object, asked: Mapping[str, object]) -> None:
    """Refuse what a distribution is not asked, and numbers that JSON would make null.

    Raises:
        InputError: There is something.
    """
    if where is not _ANY:
        raise InputError("where", "...", "must be left out: it is for tables; ask(at=...) or ask(quantile=...)")
    if foreign := asked.keys() & {"by", "above"}:
        raise InputError(min(foreign), "...", "must be left out: it is for tables")
    at = asked.get("at")
    values = at if isinstance(at, list | tuple | np.ndarray) else [at]
    if plan.features[0].kind == "number":
        for place, value in enumerate(values):
            if isinstance(value, float | np.floating) and not np.isfinite(value):
                raise InputError("at" if values is not at else f"at[{place}]", "...", "must be a finite float64")


def _admitting(plan: QuestionPlan, size: int) -> QuestionPlan:
    """Return the plan with a limit that a message is within: it bounds what strangers send, and nobody sends this."""
    limits = msgspec.structs.replace(plan.limits, body_bytes=max(plan.limits.body_bytes, size))
    return msgspec.structs.replace(plan, limits=limits)


def _plain(value: object) -> object:
    """Return an array or a number of NumPy as Python's own.

    Raises:
        TypeError: It is something else.
    """
    if not isinstance(value, np.ndarray | np.generic):
        raise TypeError
    found: object = value.tolist()
    return found


def load(folder: Path | str, *, key: Path | str | None = None) -> TrainedPredictor:
    """Go on from a state that `TrainedPredictor.save` wrote; it holds the folder until `close`.

    Once a daemon has opened a state, only daemons may: what it has committed may be ahead of the snapshot. So states of
    `perpetua init` are theirs from the start (`oracle.state.program`).

    Args:
        folder: The state folder of one shard.
        key: Its key file; by default `key` in the folder.

    Raises:
        StateError: It cannot be read, another process holds it, or it is a daemon's.
        StorageError: The disk fails.
    """
    path = Path(folder).resolve()
    store, plan = open_state(path, key)
    with contextlib.ExitStack() as undo:
        undo.callback(store.close)
        if not is_programs(path):
            raise StateError(
                f"{path}: no program has saved this state, or a daemon has opened it: only `serve` may go on"
            )
        snapshot = store.load_latest(plan.digest)
        if snapshot is None:
            raise StateError(f"{path}: it holds no snapshot; make a state with `perpetua init`")
        say_saved(path)
        loaded = TrainedPredictor(plan, restore_predictor(plan, snapshot.arrays), snapshot, (path, store))
        undo.pop_all()
    return loaded


def open_state(folder: Path | str, key: Path | str | None) -> tuple[FolderStore, Plan]:
    """Hold the state folder of one shard, and read its plan; see `load`."""
    table = StateConfig(folder=Path(folder).resolve(), key_file=None if key is None else Path(key).resolve())
    return open_store(table)
