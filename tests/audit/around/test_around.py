"""What is around predictors: checks find what was broken, and nothing where nothing was."""

import math
import sys

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from oracle import durable
from oracle.accounting import budget
from oracle.audit.around import acting
from oracle.audit.around.commands import commanded
from oracle.audit.games.learners import LEARNERS
from oracle.audit.games.plans import TARGETS, small_plan
from oracle.audit.randomness import Randomness
from oracle.audit.structure.checks import run_check, structure_names
from oracle.cli.table_files import TableFile
from oracle.mechanisms.addresses import Addresses
from oracle.mechanisms.keys import PhaseKey
from oracle.mechanisms.partition import Partition
from oracle.mechanisms.persons import AtMost
from oracle.predictors.base import Trainer
from oracle.predictors.ensemble.predictor import Ensemble
from oracle.predictors.rectangles import RectanglesPERP
from oracle.predictors.split import SplitTrainer
from oracle.runtime import fork
from oracle.runtime.marks import CommitMark
from oracle.runtime.shard import Shard
from oracle.state.folder import FolderStore
from oracle.state.forks import read_forks

SEED = bytes(range(32, 48))
_FORKS = "forks have noise of their own, and are paid for"
_EXCHANGED = "no other log is answered behind a snapshot"
_STATES = "sizes of states are public, and no key of before is kept"
_SHARDS = "shards share no row"
_PERSONS = "of a person as few rows are used as is said"
_BOOKS = "what is told of epsilon and delta adds up"
_COMMANDS = "commands show nothing of the rows"
_BOX, _ENSEMBLE = TARGETS[1].name, "ensemble"
_NAMES = [*(one.name for one in TARGETS), *(one.name for one in LEARNERS)]
_KINDS = [name for name in dict.fromkeys(_NAMES) if "three" not in name and name != _BOX]


_LONG = (pytest.mark.long,)
_ALL = (_FORKS, _EXCHANGED, _STATES, _SHARDS, _PERSONS, _BOOKS)


@pytest.mark.parametrize("name", _ALL)
def test_nothing_is_found_where_nothing_is_wrong(name):
    """Of boxes."""
    found = run_check(_BOX, name, SEED)
    assert found.passed, found.says


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(one, marks=_LONG if one == _EXCHANGED else ()) for one in _ALL])
def test_nothing_is_found_of_others(name):
    """Of any predictor."""
    for target in _KINDS:
        found = run_check(target, name, SEED)
        assert found.passed, (target, found.says)


def _same_key(patch):
    patch.setattr(PhaseKey, "fork", lambda self, _salt: self)


def _one_salt(patch):
    real = PhaseKey.fork
    patch.setattr(PhaseKey, "fork", lambda self, salt: real(self, bytes(len(salt))))


def _old_rho(patch):
    patch.setattr(Ensemble, "_level_key", lambda _self: np.zeros(32, dtype=np.uint8))


def _free(patch):
    patch.setattr(fork, "_above", lambda total: total / 2.0)


def _last_fork(patch):
    patch.setattr("oracle.state.status.read_forks", lambda folder: read_forks(folder)[-1:])


def _unchecked(patch):
    real = Shard.check
    patch.setattr(Shard, "check", lambda self, mark: real(self, CommitMark(mark.round, self.mark.tag)))


def _short_hash(patch):
    real = Addresses.hashes
    patch.setattr(
        Addresses, "hashes", lambda self, rows, there: real(self, rows.astype(np.float32).astype(np.float64), there)
    )


def _ahead(patch):
    patch.setattr("oracle.runtime.recovery.check_order", lambda *_: None)


def _long(patch):
    real = RectanglesPERP.export

    def export(self):
        arrays = dict(real(self))
        count = int(arrays["harvest_counts"].max())
        return {**arrays, "harvest_sums": np.zeros(count)}

    patch.setattr(RectanglesPERP, "export", export)


def _old_files(patch):
    patch.setattr(FolderStore, "_erase_older", lambda _self: None)


def _unerased(patch):
    patch.setattr(durable, "_overwrite", lambda *_, **__: None)


def _one_nonce(patch):
    patch.setattr("oracle.state.format.secrets.token_bytes", lambda count=32: bytes(count))


def _kept_key(patch):
    real = RectanglesPERP.export
    patch.setattr(RectanglesPERP, "export", lambda self: {**real(self), "was": _key_of(self)})


def _key_of(predictor):
    return np.frombuffer(predictor._key.subkey(b"noise"), dtype=np.uint8)


def _by_label(patch):
    real = SplitTrainer.add

    def add(self, features, labels):
        order = np.argsort(~np.asarray(labels), kind="stable")
        real(self, features[order], labels[order])

    patch.setattr(SplitTrainer, "add", add)


def _anew(patch):
    real = Partition.orders
    patch.setattr(Partition, "orders", lambda self, _first, blocks: real(self, 0, blocks))


def _one_more(patch):
    real = AtMost.__init__
    patch.setattr(AtMost, "__init__", lambda self, key, most: real(self, key, most + 1))


def _all_persons(patch):
    patch.setattr("oracle.mechanisms.persons._numbers", lambda grouped: np.arange(len(grouped), dtype=np.uint64))


def _whole_delta(patch):
    patch.setattr("oracle.planning.sharding.Fraction", lambda _: 0)  # no delta is ever rounded down


def _as_root(patch):
    def wrong(epsilon, delta, rows):
        return replace(budget.person_bound(epsilon, delta, rows), epsilon=epsilon * math.sqrt(rows))

    patch.setattr("oracle.planning.plan.person_bound", wrong)


def _once(patch):
    real = budget.charges
    patch.setattr("oracle.audit.due.books.charges", lambda *ledgers: [one._replace(use="") for one in real(*ledgers)])


@pytest.mark.parametrize(
    ("name", "target", "fault"),
    [
        *((_FORKS, _BOX, one) for one in (_same_key, _one_salt, _free, _last_fork)),
        (_FORKS, _ENSEMBLE, _old_rho),
        *((_EXCHANGED, _BOX, one) for one in (_unchecked, _short_hash, _ahead)),
        *((_STATES, _BOX, one) for one in (_long, _old_files, _unerased, _one_nonce, _kept_key)),
        *((_SHARDS, _BOX, one) for one in (_by_label, _anew, _whole_delta)),
        *((_PERSONS, _BOX, one) for one in (_one_more, _all_persons)),
        *((_BOOKS, _BOX, one) for one in (_as_root, _once)),
    ],
    ids=lambda one: getattr(one, "__name__", str(one)),
)
def test_what_was_broken_is_found(monkeypatch, name, target, fault):
    """Each check finds what it is there for."""
    fault(monkeypatch)
    found = run_check(target, name, SEED)
    assert not found.passed


def _tell_how_many():
    """Print how many rows were labelled 1, which nobody was charged for."""
    real = Trainer.finish

    def finish(self):
        made = real(self)
        sys.stdout.write(f"{self._ones}\n")
        return made

    Trainer.finish = finish  # type: ignore[method-assign]  # in a process of its own


def _each_batch_by_itself():
    """Choose each person's rows of every batch that is read, and not of the file."""
    real = AtMost.kept

    def kept(self, names, persons):
        names, cuts = list(names), range(0, len(persons), acting._TOGETHER)
        parts = [real(self, iter(names), persons[cut : cut + acting._TOGETHER]) for cut in cuts]
        return np.concatenate(parts)

    AtMost.kept = kept  # type: ignore[method-assign]  # in a process of its own


def test_commands_read_rows_in_batches(tmp_path, monkeypatch):
    """A file of which Arrow makes one batch comes in several, with all rows in their order."""
    path = tmp_path / "rows.csv"
    path.write_text("a,p\n" + "".join(f"{number},x\n" for number in range(5_000)))
    monkeypatch.setattr(TableFile, "batches", TableFile.batches)
    acting.in_batches()
    found = list(TableFile(path, ["a"], {"a": pa.float64()}, {}).batches())
    assert [len(one) for one in found] == [2_003, 2_003, 994]
    assert np.concatenate([one.column("a") for one in found]).tolist() == list(range(5_000))


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "passes"), [(None, True), (_tell_how_many, False), (_each_batch_by_itself, False)])
def test_commands_show_nothing_of_rows(fault, passes):
    """Run for real on rows that differ, commands print and leave the same; not where one tells a number of rows."""
    plan = small_plan(TARGETS[0], 4.0, 0.01)
    found, says = commanded(plan, Randomness(SEED, "test"), *([fault] if fault else []))
    assert found == passes, says


def test_commands_run_once_for_each_predictor():
    """They plan models of their own, so that other targets of a predictor would be the same."""
    targets = [target for target, name in structure_names() if name == _COMMANDS]
    assert len(targets) == len(set(targets)) == len(acting.MODELS)
