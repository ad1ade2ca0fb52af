"""What a registry said is kept: schemas for ever, unknown ones while their messages may be read again."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.errors import StorageError
from oracle.state.schema_log import KeptSchema, SchemaLog

_ONE = KeptSchema(7, "AVRO", '{"type":"record"}')
_TWO = KeptSchema(8, "PROTOBUF", 'syntax = "proto3";\nmessage Ä {}', references=True)


def test_what_was_kept_is_read_again(tmp_path: Path) -> None:
    """In any number of steps; nothing is made before there is something to keep."""
    log = SchemaLog(tmp_path / "schemas.jsonl")
    assert log.open(0) == ([], frozenset())
    log.keep([], [])
    assert list(tmp_path.iterdir()) == []
    log.keep([_ONE], [])
    log.keep([_TWO], [5, 9])
    log.keep([], [12])
    assert SchemaLog(tmp_path / "schemas.jsonl").open(0) == ([_ONE, _TWO], frozenset({5, 9, 12}))
    assert (tmp_path / "schemas.jsonl").stat().st_mode & 0o777 == 0o600


def test_what_will_not_be_read_again_is_dropped(tmp_path: Path) -> None:
    """Schemas stay; a look at the file drops nothing."""
    log = SchemaLog(tmp_path / "schemas.jsonl")
    log.keep([_ONE], range(1, 1000))
    size = (tmp_path / "schemas.jsonl").stat().st_size
    assert log.open(998) == ([_ONE], frozenset({999}))
    assert (tmp_path / "schemas.jsonl").stat().st_size == size
    assert log.open(998, saved=990) == ([_ONE], frozenset({999}))
    assert (tmp_path / "schemas.jsonl").stat().st_size < size / 10
    assert log.open(990) == ([_ONE], frozenset(range(991, 1000)))


@settings(max_examples=60)
@given(cut=st.integers(0, 200), junk=st.binary(max_size=30))
def test_a_line_that_a_crash_cut_is_passed_over(
    tmp_path_factory: pytest.TempPathFactory, cut: int, junk: bytes
) -> None:
    """What comes behind it stands on a line of its own."""
    path = tmp_path_factory.mktemp("log") / "schemas.jsonl"
    log = SchemaLog(path)
    log.keep([_ONE], [3])
    whole = path.read_bytes()
    log.keep([_TWO], [4])
    torn = path.read_bytes()[: len(whole) + cut]
    path.write_bytes(torn + (b"" if cut > 150 else junk.replace(b"\n", b"")))
    log.keep([], [11])
    schemas, unknown = log.open(0)
    assert _ONE in schemas
    assert {3, 11} <= unknown <= {3, 4, 11}


def test_a_file_that_cannot_be_used_is_a_storage_error(tmp_path: Path) -> None:
    """It is named."""
    (tmp_path / "schemas.jsonl").mkdir()
    log = SchemaLog(tmp_path / "schemas.jsonl")
    with pytest.raises(StorageError, match=r"schemas\.jsonl: cannot be read"):
        log.open(0)
    with pytest.raises(StorageError, match=r"schemas\.jsonl: cannot be written"):
        log.keep([_ONE], [])
