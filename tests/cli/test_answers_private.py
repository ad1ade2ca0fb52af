"""Answers are for their askers: files of them that others can read are refused."""

import os
import stat
from types import MappingProxyType

import pytest

from connectors.local.checks import check_private
from oracle.errors import InputError
from tests.support.folders import long_plan, make_state, write_config, write_log, write_parquet
from tests.support.shards import bodies

_KINDS = MappingProxyType({"out.jsonl": "jsonl", "out.parquet": "parquet", "out.arrow": "parquet"})


@pytest.fixture(params=_KINDS)
def answered(request, ready, cli):
    """A model that has answered to files, with rejections and a ledger: its folder, configuration and answers."""
    write_parquet(ready / "q.parquet", bodies(20))
    kind = _KINDS[request.param]
    out = ready / request.param
    config = write_config(
        ready,
        source={"kind": kind, "path": str(ready / f"q.{kind}")},
        sink={"kind": kind, "path": str(out), "dead_letter": str(ready / "dead.jsonl")},
    )
    assert cli("serve", config).code == 0
    return ready, config, out


@pytest.mark.parametrize("bits", [0o040, 0o004, 0o020, 0o055])
def test_answers_that_others_can_read(answered, cli, refused, bits):
    """`serve` refuses them by setting, name and mode, `check` finds it, and the command in the message mends it."""
    _, config, out = answered
    closed = out.stat().st_mode & 0o777
    assert closed & 0o077 == 0
    out.chmod(closed | bits)
    told = refused(2, "serve", config)
    mend = f"chmod {closed:o} {out}"
    assert told == f"sink.path = '{out}': mode {closed | bits:04o} exposes answers to others; fix it with: {mend}"
    assert told in cli("check", config).out.replace("\n", " ")
    assert out.stat().st_mode & 0o777 == closed | bits
    out.chmod(closed)
    assert cli("serve", config).code == 0


def test_dead_letters_are_private_and_the_ledger_is_not(answered, cli, refused):
    """Rejections hold what askers wrote; the ledger is for everybody."""
    folder, config, _ = answered
    (folder / "ledger.jsonl").chmod(0o644)
    assert cli("serve", config).code == 0
    (folder / "dead.jsonl").chmod(0o644)
    assert "sink.dead_letter" in refused(2, "serve", config)


def test_answers_of_another_user(answered):
    """Who owns a file can read it."""
    _, _, out = answered
    status = list(out.stat())
    status[stat.ST_UID] += 1
    with pytest.raises(InputError, match=f"belongs to user {status[stat.ST_UID]}"):
        check_private("sink.path", out, os.stat_result(status))


def test_an_empty_file_that_was_made_open(tmp_path, cli, refused):
    """A file that somebody has made beforehand is refused before anything is answered into it."""
    make_state(tmp_path / "state", long_plan())
    write_log(tmp_path, 20)
    out = tmp_path / "out.jsonl"
    out.touch()
    out.chmod(0o664)
    config = write_config(tmp_path)
    assert "mode 0664" in refused(2, "serve", config)
    assert out.read_bytes() == b""
    out.chmod(0o600)
    assert cli("serve", config).code == 0
