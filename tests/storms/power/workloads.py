"""What must last, each as a run that tells what it made durable, and a restart that finds it after a loss of power."""

import asyncio
import dataclasses
import io
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, Final

import numpy as np
from msgspec import UNSET
from msgspec.structs import replace

from connectors.base import Commit, Committed, Sink
from connectors.journal.journal import Journal
from connectors.local.jsonl import JsonlSink
from connectors.local.parquet_sink import ParquetSink
from connectors.local.stdio import StdoutSink
from connectors.mqtt.messages import Outgoing
from connectors.mqtt.outbox import Outbox
from oracle.accounting.ledger import ReplayForked, encode
from oracle.cli import retire
from oracle.cli.init import command as init
from oracle.cli.init.files import make_key, write_state
from oracle.cli.init.shards import Rows, Targets, make_shards
from oracle.planning.boxes.model import BoxModel
from oracle.planning.kinds import decode_plan
from oracle.planning.plan import BoxPlan
from oracle.predictors.base import phase_started
from oracle.receipts.keys import read_public_key, signing_key
from oracle.state.folder import FolderStore, newest_bytes
from oracle.state.forks import read_forks, record_fork
from oracle.state.format import decode
from oracle.state.genesis import read_genesis
from oracle.state.keys import read_key_file
from oracle.state.retired import read_retired
from oracle.state.shards import holds_state, shard_count, shard_folder
from tests.connectors.local.test_parquet import arrow_commits
from tests.connectors.suite import json_commits
from tests.state.suite import DIGEST, KEY, PLAN, assert_same, make_snapshot
from tests.storms.power.disk import Crash
from tests.support.shards import first_snapshot, small_plan

__all__ = ["WORKLOADS", "Workload"]

Said = Callable[[object], None]


class Workload:
    """One thing that must last."""

    name: ClassVar[str]
    folders: ClassVar[Sequence[str]] = ("state",)
    """What is there before."""

    stride: ClassVar[int] = 1
    """Where a process dies: before every one of so many calls, where looking at all would take too long."""

    def run(self, root: Path, said: Said) -> None:
        """Do the work; where it was killed before, this is what the next process does."""
        raise NotImplementedError

    def check(self, root: Path, crash: Crash) -> None:
        """Start again on what a loss of power has left, and go on."""
        raise NotImplementedError


class JournalLasts(Workload):
    """What was acknowledged is there; what was forgotten was forgotten from the beginning."""

    name = "journal"
    stride = 3

    def _journal(self, root: Path) -> Journal:
        journal = Journal(root / "state" / "journal" / "queries", KEY, "power", limit=1 << 20)
        journal.segment_bytes = 600
        return journal

    def run(self, root: Path, said: Said) -> None:
        with closing(self._journal(root)) as journal:
            journal.open()
            done = journal.end
            for number in range(done + 1, done + 18, 2):
                end = journal.append([_body(number), _body(number + 1)])
                said(("there", end))
                if end % 8 == 0:
                    said(("forgotten", end - 2))
                    journal.forget(end - 2)

    def check(self, root: Path, crash: Crash) -> None:
        there = max([0, *(end for kind, end in crash.said if kind == "there")])
        gone = max([0, *(end for kind, end in crash.said if kind == "forgotten")])
        with closing(self._journal(root)) as journal:
            journal.open()
            assert journal.first <= gone
            assert journal.end >= there
            found = journal.reader(max(gone, journal.first)).read(1000)
            assert [one.body for one in found] == [_body(one.position) for one in found]
            assert journal.append([b"more"]) == journal.end


def _body(number: int) -> bytes:
    return b"%d" % number + b"x" * 200


class OutboxLasts(Workload):
    """The last commit that was told is the last one, or a later one is; what is left to publish is queued."""

    name = "outbox"
    stride = 2

    def _outbox(self, root: Path) -> Outbox:
        journal = Journal(root / "state" / "journal" / "answers", KEY, "power", limit=1 << 20)
        journal.segment_bytes = 500
        return Outbox(journal)

    def run(self, root: Path, said: Said) -> None:
        asyncio.run(self._commit(root, said))

    async def _commit(self, root: Path, said: Said) -> None:
        outbox = self._outbox(root)
        with closing(outbox):
            last = outbox.open()
            first = last.position if last else 0
            for position in range(first + 1, first + 6):
                messages = [Outgoing("a", b"%d" % position + b"x" * 150, "t")]
                await outbox.commit(messages, Committed(position, b"tag"))
                said(position)
                if position % 2:
                    while outbox.queue:
                        outbox.published(outbox.queue.popleft())
                    said(("published", position))

    def check(self, root: Path, crash: Crash) -> None:
        told = max([0, *(position for position in crash.said if isinstance(position, int))])
        published = max([0, *(what[1] for what in crash.said if isinstance(what, tuple))])
        outbox = self._outbox(root)
        with closing(outbox):
            last = outbox.open()
            position = 0 if last is None else last.position
            assert position >= told
            queued = {int(delivery.message.body.split(b"x")[0]) for delivery in outbox.queue}
            assert queued >= set(range(published + 1, position + 1))


class SnapshotsLast(Workload):
    """The newest snapshot that was told is there or a later one is; none is half there; the older key is gone."""

    name = "snapshots"
    folders = ()

    def run(self, root: Path, said: Said) -> None:
        with FolderStore.open(root / "state", KEY) as store:
            store.write_plan(PLAN)
            newest = store.load_latest(DIGEST)
            first = 1 if newest is None else newest.generation + 1
            for generation in range(first, first + 3):
                store.save(make_snapshot(generation))
                said((generation, newest_bytes(root / "state")))

    def check(self, root: Path, crash: Crash) -> None:
        told = max([0, *(generation for generation, _ in crash.said)])
        assert (root / "state").exists() or not told
        with FolderStore.open(root / "state", KEY) as store:
            store.write_plan(PLAN)
            newest = store.load_latest(DIGEST)
            if newest is None:
                assert not told
                store.save(make_snapshot(1))
                return
            assert newest.generation >= told
            assert_same(newest, make_snapshot(newest.generation))
        older = [data for generation, data in crash.said if generation < told]
        assert not set(older) & set(crash.data)


class SinkLasts(Workload):
    """What was committed is there, and after another start every file is as if nothing had happened."""

    def make(self, root: Path) -> Sink:
        """Return the sink."""
        raise NotImplementedError

    def commits(self) -> Sequence[Commit]:
        """Return what is committed, in all."""
        return json_commits(3)

    def run(self, root: Path, said: Said) -> None:
        asyncio.run(self._commit(root, said))

    def check(self, root: Path, crash: Crash) -> None:
        asyncio.run(self._commit(root, lambda _what: None, max([0, *crash.said])))
        assert self._content(root) == self._whole()

    async def _commit(self, root: Path, said: Said, told: int = 0) -> None:
        sink = self.make(root)
        try:
            last = await sink.open()
            position = 0 if last is None else last.position
            assert position >= told
            for commit in self.commits():
                if commit.position > position:
                    await sink.commit(commit)
                    said(commit.position)
        finally:
            await sink.close()

    def _content(self, root: Path) -> dict[str, bytes]:
        return {
            str(path.relative_to(root)): path.read_bytes()
            for path in root.rglob("*")
            if path.is_file() and path.suffix in {".jsonl", ".parquet", ".arrow", ".commit"}
        }

    @cache  # noqa: B019 -- there is one of each for ever
    def _whole(self) -> dict[str, bytes]:
        with TemporaryDirectory() as folder:
            self.run(Path(folder), lambda _what: None)
            return self._content(Path(folder))


class JsonlLasts(SinkLasts):
    """See `SinkLasts`."""

    name = "jsonl"
    stride = 3

    def make(self, root: Path) -> Sink:
        return JsonlSink(root / "answers.jsonl", root / "ledger.jsonl", root / "dead.jsonl")


class PartsLast(SinkLasts):
    """See `SinkLasts`."""

    name = "parquet"
    stride = 5

    def make(self, root: Path) -> Sink:
        return ParquetSink(root / "answers.parquet", root / "ledger.jsonl", root / "dead.jsonl")

    def commits(self) -> Sequence[Commit]:
        return list(arrow_commits()[:3])


class ArrowLasts(PartsLast):
    """See `SinkLasts`."""

    name = "arrow"

    def make(self, root: Path) -> Sink:
        return ParquetSink(root / "answers.arrow", root / "ledger.jsonl")


class StdoutLasts(Workload):
    """Lines that have left are known of: as committed, or as in doubt, to be given again before any other."""

    name = "stdout"
    stride = 3

    def run(self, root: Path, said: Said) -> None:
        asyncio.run(self._commit(root, said))

    async def _commit(self, root: Path, said: Said) -> None:
        stream = _Told(said)
        sink = StdoutSink(root / "state" / "stdout", stream=stream, ledger_path=root / "ledger.jsonl")
        try:
            last = await sink.open()
            position = 0 if last is None else last.position
            for commit in json_commits(3):
                if commit.position > position:
                    stream.position = commit.position
                    await sink.commit(commit)
                    said(("committed", commit.position))
        finally:
            await sink.close()

    def check(self, root: Path, crash: Crash) -> None:
        left = max([0, *(position for kind, position in crash.said if kind == "left")])
        told = max([0, *(position for kind, position in crash.said if kind == "committed")])
        asyncio.run(self._open(root, left, told))

    async def _open(self, root: Path, left: int, told: int) -> None:
        sink = StdoutSink(root / "state" / "stdout", stream=io.BytesIO(), ledger_path=root / "ledger.jsonl")
        last = await sink.open()
        await sink.close()
        position = 0 if last is None else last.position
        assert position >= told
        assert max(position, sink.in_doubt.position if sink.in_doubt else 0) >= left


class _Told(io.BytesIO):
    """A stream whose reader has had the lines once they are flushed."""

    def __init__(self, said: Said) -> None:
        super().__init__()
        self._said = said
        self.position = 0

    def flush(self) -> None:
        if self.position:
            self._said(("left", self.position))


class ForksLast(Workload):
    """A fork that was told is recorded, so that no answer of one is ever free."""

    name = "forks"

    def run(self, root: Path, said: Said) -> None:
        for name in ("aa", "bb", "cc"):
            said(record_fork(root / "state", partial(_fork, name)).number)

    def check(self, root: Path, crash: Crash) -> None:
        told = max([0, *crash.said])
        found = len(read_forks(root / "state"))
        assert found >= told
        assert record_fork(root / "state", partial(_fork, "dd")).number == found + 1


def _fork(name: str, number: int) -> ReplayForked:
    return ReplayForked(round=7, phase=2, fork=name, number=number, epsilon=4.0, delta=1e-6, delta_sum=1e-3)


class ReceiptKeyLasts(Workload):
    """The key that somebody was given the public part of is there."""

    name = "receipt key"

    def run(self, root: Path, said: Said) -> None:
        signing_key(root / "receipt")
        said(read_public_key(root / "receipt.pub"))

    def check(self, root: Path, crash: Crash) -> None:
        raw = signing_key(root / "receipt").public_key().public_bytes_raw()
        assert raw == read_public_key(root / "receipt.pub")
        assert not crash.said or raw == crash.said[-1]


class RetiredLasts(Workload):
    """A state is whole, or retired for good and erased by the next call at the latest; told, it is erased."""

    name = "retired"
    stride = 3

    def run(self, root: Path, said: Said) -> None:
        state = root / "state"
        if read_retired(state) is None and not holds_state(state):
            key = make_key(state / "key")
            with FolderStore.open(state, key) as store:
                write_state(store, key, small_plan().encode(), first_snapshot(), None)
            said(("made",))
        secrets = tuple(path.read_bytes() for path in [*state.glob("key"), *state.glob("snapshot-*")])
        retire.run(state)
        said(("retired", *(secret for secret in secrets if secret.strip(b"\0"))))

    def check(self, root: Path, crash: Crash) -> None:
        state = root / "state"
        told = {kind: secrets for kind, *secrets in crash.said}
        if "retired" in told:
            assert read_retired(state) is not None
            assert not set(told["retired"]) & set(crash.data)
            assert not [*state.glob("*snapshot*"), *state.glob("key*")]
            assert (root / "state.receipt-retired.json").exists()
        elif "made" in told and read_retired(state) is None:
            with FolderStore.open(state, read_key_file(state / "key")) as store:
                assert store.load_latest(small_plan().digest) is not None
        self.run(root, lambda _what: None)
        assert not [*state.glob("*snapshot*"), *state.glob("key*")]
        assert read_retired(state) is not None


@cache
def _plan() -> BoxPlan:
    """Return the small plan, with the size that deciding how many shards are trained together needs."""
    plan = small_plan()
    return replace(plan, phases=(replace(plan.phases[0], memory_bytes=1), *plan.phases[1:]))


_NAMED: Final = BoxModel(name="m", predictor="rectangles", epsilon=1.0, examples=1, features=(), data="data")


class StateLasts(Workload):
    """A state that `init` told of is whole, and before that there is none, or a whole one; `init` can go on."""

    name = "init"
    folders = ("kept",)
    stride = 5
    shards = 1

    def run(self, root: Path, said: Said) -> None:
        rows = self._rows(root)
        targets = self._targets(root)
        if holds_state(targets.state):
            said("made")
            return
        init._refuse_existing(targets, self.shards)
        plan = targets.uses.named(_plan(), _NAMED)
        read = Rows(rows, "label", plan.declared * self.shards + 100)
        if self.shards == 1:
            init._make_one(plan, read, targets)
        else:
            make_shards(plan, self.shards, read, targets)
        said("made")

    def _targets(self, root: Path) -> Targets:
        return Targets(root / "deep" / "state", root / "deep" / "state" / "key", self._genesis(root))

    def _genesis(self, root: Path) -> Path:
        return root / "kept" / "genesis"

    def _rows(self, root: Path) -> Path:
        path = root.with_name("rows.csv")
        if not path.exists():
            rows = np.random.default_rng(1).random((_plan().declared * 2 + 100, 2))
            lines = [f"{a},{b},{int(0.1 < a < 0.9 and 0.1 < b < 0.9)}" for a, b in rows.tolist()]
            path.write_text("\n".join(["a,b,label", *lines]) + "\n")
        return path

    def check(self, root: Path, crash: Crash) -> None:
        state = root / "deep" / "state"
        if crash.said:
            assert holds_state(state)
        self.run(root, lambda _what: None)
        key = read_key_file(state / "key")
        assert shard_count(state) == self.shards
        for number in range(self.shards):
            genesis = self._genesis(root)
            first = read_genesis(genesis if self.shards == 1 else genesis / f"shard-{number:04d}.genesis")
            with FolderStore.open(shard_folder(state, number), key) as store:
                plan = decode_plan(store.read_plan() or b"")
                digest, found = plan.digest, store.load_latest(plan.digest)
            assert replace(plan, data=UNSET) == _plan()
            assert_same(found, decode(first.snapshot, key, digest))


class UsesLast(StateLasts):
    """See `StateLasts`; what is made is entered in its data set's ledger, once."""

    name = "init of a named data set"
    stride = 7

    def _targets(self, root: Path) -> Targets:
        return dataclasses.replace(super()._targets(root), ledger=root / "kept" / "data.jsonl")

    def check(self, root: Path, crash: Crash) -> None:
        super().check(root, crash)
        (entered,) = (root / "kept" / "data.jsonl").read_bytes().splitlines()
        plan = decode_plan((root / "deep" / "state" / "plan.json").read_bytes())
        assert entered == encode(phase_started(plan, 1))


class ShardsLast(StateLasts):
    """See `StateLasts`."""

    name = "init --shards"
    stride = 20
    shards = 2


WORKLOADS: Final[dict[str, Workload]] = {
    workload.name: workload
    for workload in (
        JournalLasts(),
        OutboxLasts(),
        SnapshotsLast(),
        JsonlLasts(),
        PartsLast(),
        ArrowLasts(),
        StdoutLasts(),
        ForksLast(),
        ReceiptKeyLasts(),
        RetiredLasts(),
        StateLasts(),
        UsesLast(),
        ShardsLast(),
    )
}
