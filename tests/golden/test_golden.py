"""What older versions wrote is read, gone on with, and written back; what later versions wrote is refused by name."""

import dataclasses
import hashlib
import json
import shutil
import struct
import zlib
from pathlib import Path
from typing import Final

import pytest

from connectors.local.commitfile import DurableCommitFile
from oracle.accounting.ledger import decode as decode_event
from oracle.accounting.ledger import encode as encode_event
from oracle.errors import NewerVersionError, PerpetuaError, PlanError, StateError
from oracle.planning.kinds import KINDS, decode_plan
from oracle.planning.plan import PLAN_VERSION
from oracle.runtime.shard import Shard
from oracle.state.folder import FolderStore, newest_bytes, peek_folder, read_plan
from oracle.state.format import decode, encode, peek
from oracle.state.genesis import read_genesis, write_genesis
from oracle.state.header import VERSION
from oracle.state.keys import read_key_file
from oracle.state.shards import shard_count
from tests.golden.make import COMMIT, make_golden, nonces, plans, serve, version_folder

FOLDERS: Final = sorted(path for version in range(1, VERSION + 1) for path in version_folder(version).iterdir())
NEWEST: Final = sorted({path.name: path for path in FOLDERS}.values())
"""Of each plan the folder of the newest version that it is written in: 4 of rests, 3 of paid answers, else 2."""
WHAT_TO_DO: Final = "this Perpetua reads versions up to {}; use the Perpetua that wrote it, or a newer one"


def _named(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


@pytest.fixture
def left(request, tmp_path):
    """Return a copy of a golden folder as the kill left it: a private state, and answers up to the commit."""
    folder = tmp_path / "left"
    shutil.copytree(request.param, folder)
    (folder / "state").chmod(0o700)
    for path in (folder / "genesis", folder / "answers.jsonl", *(folder / "state").iterdir()):
        path.chmod(0o600)
    lengths = _record(folder).lengths
    for name, role in (("answers.jsonl", "output"), ("ledger.jsonl", "ledger")):
        content = (request.param / name).read_bytes()
        assert 0 < lengths[role] < len(content) + (role == "ledger")  # events may all lie before
        (folder / name).write_bytes(content[: lengths[role]])
    return folder


def _record(folder):
    record = DurableCommitFile(folder / COMMIT).read()
    assert record is not None
    return record


def _plan(folder):
    return decode_plan((folder / "state" / "plan.json").read_bytes())


def test_every_version_and_kind_is_there():
    """Each format version has a folder; what is written today has every kind and type, in plans of today's version."""
    assert {path.parent for path in FOLDERS} == {version_folder(version) for version in range(1, VERSION + 1)}
    assert {path.name for path in NEWEST} == set(plans())
    assert {(_plan(path).predictor, _plan(path).version) for path in NEWEST} == {(kind, PLAN_VERSION) for kind in KINDS}
    assert {_plan(path).profile for path in NEWEST} >= {"tight", "paper"}
    types = {feature.kind for path in NEWEST for feature in _plan(path).features}
    assert types == {"number", "string", "date", "decimal"}


@pytest.mark.parametrize("left", FOLDERS, ids=_named, indirect=True)
def test_an_old_state_goes_on(left, request):
    """Today's daemon re-executes from the old snapshot to the old commit, and goes on to exactly the old answers."""
    golden = request.node.callspec.params["left"]
    snapshot, committed = peek_folder(left / "state"), _record(left).position
    assert snapshot is not None
    plan = _plan(left)
    assert snapshot.phase > 1 or len(plan.phases) == 1
    assert snapshot.rearms > 0 or plan.predictor in {
        "bisection",
        "classical",
        "statistics",
        "sparse-vector",
        "distribution",
    }  # which arm nothing afresh
    assert committed is not None
    assert snapshot.position < committed
    serve(left, _plan(left))
    for name in ("answers.jsonl", "ledger.jsonl"):
        assert (left / name).read_bytes() == (golden / name).read_bytes()


@pytest.mark.parametrize("left", FOLDERS, ids=_named, indirect=True)
def test_an_old_genesis_goes_on(left, request):
    """From the old genesis file the whole log is answered as it was."""
    golden = request.node.callspec.params["left"]
    genesis = read_genesis(left / "genesis")
    for path in (left / "answers.jsonl", left / "ledger.jsonl", left / COMMIT):
        path.unlink()
    shutil.rmtree(left / "state")
    plan = decode_plan(genesis.plan)
    with FolderStore.open(left / "state", genesis.master_key) as store:
        store.write_plan(genesis.plan)
        store.save(decode(genesis.snapshot, genesis.master_key, plan.digest))
    serve(left, plan)
    for name in ("answers.jsonl", "ledger.jsonl"):
        assert (left / name).read_bytes() == (golden / name).read_bytes()


@pytest.mark.parametrize("left", NEWEST, ids=_named, indirect=True)
def test_every_file_is_written_back_as_it_was(left):
    """Read into the objects of today and written again, each file has the same bytes (a snapshot: by its nonce)."""
    plan_bytes, key = read_plan(left / "state"), read_key_file(left / "state" / "key")
    assert plan_bytes is not None
    plan = decode_plan(plan_bytes)
    assert plan.encode() == plan_bytes
    data = newest_bytes(left / "state")
    assert data is not None
    snapshot = decode(data, key, plan.digest)
    with nonces(int.from_bytes(peek(data).nonce, "little")):
        shard = Shard(plan, snapshot)
        assert encode(dataclasses.replace(shard.snapshot(), generation=snapshot.generation), key) == data
    write_genesis(left / "genesis again", read_genesis(left / "genesis"))
    assert (left / "genesis again").read_bytes() == (left / "genesis").read_bytes()
    record = left / COMMIT
    before = record.read_bytes()
    DurableCommitFile(record).write(_record(left))
    assert record.read_bytes() == before
    for line in (left / "ledger.jsonl").read_bytes().splitlines():
        assert encode_event(decode_event(line)) == line


@pytest.mark.parametrize("golden", NEWEST, ids=_named)
def test_made_again_it_is_the_same(golden, tmp_path):
    """Trained and answered anew under the old plan, all files come out the same: else it is another version."""
    make_golden(tmp_path / "again", _plan(golden))
    made = {path.relative_to(tmp_path / "again") for path in (tmp_path / "again").rglob("*") if path.is_file()}
    assert made == {path.relative_to(golden) for path in golden.rglob("*") if path.is_file()}
    for name in made:
        assert (tmp_path / "again" / name).read_bytes() == (golden / name).read_bytes(), name


def _later_snapshot(folder):
    (path,) = (folder / "state").glob("*.perp")
    data = path.read_bytes()
    prefix = struct.pack("<8sHH", data[:8], VERSION + 1, len(data))
    path.write_bytes(prefix + struct.pack("<I", zlib.crc32(prefix)) + data[16:])
    newest_bytes(folder / "state")


def _later_genesis(folder):
    data = bytearray((folder / "genesis").read_bytes()[:-32])
    struct.pack_into("<H", data, 8, 2)
    (folder / "genesis").write_bytes(bytes(data) + hashlib.sha256(data).digest())
    read_genesis(folder / "genesis")


def _later_plan(folder):
    path = folder / "state" / "plan.json"
    decode_plan(json.dumps({**json.loads(path.read_bytes()), "version": PLAN_VERSION + 1}).encode())


def _later_commit(folder):
    record = folder / COMMIT
    record.write_text(json.dumps({**json.loads(record.read_text()), "version": 2, "checksum": "of another kind"}))
    DurableCommitFile(record).read()


def _later_shards(folder):
    (folder / "state" / "shards.json").write_text('{"version":2,"shards":3}')
    shard_count(folder / "state")


@pytest.mark.parametrize("left", NEWEST[:1], ids=_named, indirect=True)
@pytest.mark.parametrize("make", [_later_snapshot, _later_genesis, _later_plan, _later_commit, _later_shards])
def test_a_later_version_is_refused_by_name(left, make):
    """Whatever file a later version wrote: the message names the version and what to do."""
    kind: type[PerpetuaError] = PlanError if make is _later_plan else NewerVersionError
    with pytest.raises(kind) as caught:
        make(left)
    newest = VERSION if make is _later_snapshot else 1
    assert f"version = {newest + 1}: {WHAT_TO_DO.format(newest)}" in str(caught.value)


@pytest.mark.parametrize("version", [0, -1])
def test_a_plan_that_nobody_wrote_is_refused(version):
    """There is no version before the first."""
    fields = json.loads((NEWEST[0] / "state" / "plan.json").read_bytes())
    with pytest.raises(PlanError, match=rf"version = {version}: no Perpetua wrote"):
        decode_plan(json.dumps({**fields, "version": version}).encode())


@pytest.mark.parametrize("left", NEWEST[:1], ids=_named, indirect=True)
def test_an_old_key_file_of_another_kind_is_refused(left):
    """A key file says its own version; another one is refused, and the first line that is known is named."""
    path = left / "state" / "key"
    path.write_text(path.read_text().replace("perpetua-key 1", "perpetua-key 2"))
    with pytest.raises(StateError, match="'perpetua-key 1'"):
        read_key_file(path)
