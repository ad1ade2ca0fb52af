"""The file of an export is a state's own and unchanged, and takes it to one place."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.errors import NewerVersionError, StateError
from oracle.state.moves import (
    Export,
    ExportedShard,
    Move,
    check_move,
    open_export,
    read_moves,
    record_move,
    sealed,
)

_SECRET = b"secret"
_NAMES = st.text(max_size=20)
_NUMBERS = st.integers(0, 2**63 - 1)
_SHARDS = st.builds(
    ExportedShard,
    position=_NUMBERS,
    round=_NUMBERS,
    mark=st.binary(max_size=40).map(bytes.hex),
    trail=st.lists(st.binary(min_size=16, max_size=16).map(bytes.hex), max_size=3).map(tuple),
)
_EXPORTS = st.builds(
    Export,
    move=_NAMES,
    model=_NAMES,
    cluster=_NAMES,
    topic=_NAMES,
    group=_NAMES,
    shards=st.lists(_SHARDS, max_size=3).map(tuple),
)


@given(export=_EXPORTS)
def test_what_was_sealed_is_read_again(export):
    """However it is laid out, and by nobody else's secret."""
    made = sealed(export, _SECRET)
    data = msgspec.json.encode(made)
    for layout in (data, msgspec.json.format(data, indent=2)):
        assert open_export(layout, _SECRET) == made
    with pytest.raises(StateError, match="its seal is not this state's"):
        open_export(data, b"another")


@given(export=_EXPORTS, changed=_EXPORTS)
def test_nothing_of_it_can_be_changed(export, changed):
    """Each field, and the shards' too, is under the seal."""
    made = sealed(export, _SECRET)
    for name in ("move", "model", "cluster", "topic", "group", "shards"):
        if getattr(export, name) != getattr(changed, name):
            other = msgspec.structs.replace(made, **{name: getattr(changed, name)})
            with pytest.raises(StateError, match="its seal is not this state's"):
                open_export(msgspec.json.encode(other), _SECRET)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b'{"version":1}', b'{"version":"1"}', b"\xff", b'{"a":' * 99]
)
def test_what_is_no_export(data):
    """Anything else is refused by what it is not."""
    with pytest.raises(StateError, match=r"is no file of `perpetua offsets export`, or damaged"):
        open_export(data, _SECRET)


def test_a_newer_version_is_told_before_its_fields_are_looked_at():
    """Its fields may be others."""
    with pytest.raises(NewerVersionError, match="version = 9"):
        open_export(b'{"version":9,"new":1}', _SECRET)


def _move(name="a", position=5):
    return Move(move=name, cluster="c", topic="t", group="g", round=9, left=7, position=position)


def test_a_move_is_recorded_once_and_goes_to_one_place(tmp_path):
    """Again it is let be; elsewhere it is refused, and the record stays."""
    assert tuple(read_moves(tmp_path)) == ()
    check_move(tmp_path, _move())
    for move in (_move(), _move(), _move("b", 3)):
        record_move(tmp_path, move)
    for refuse in (check_move, record_move):
        with pytest.raises(
            StateError, match=r"by this export the state went to topic t, group g, offset 5 \(cluster c"
        ):
            refuse(tmp_path, _move(position=6))
    assert tuple(read_moves(tmp_path)) == (_move(), _move("b", 3))
    (tmp_path / "moves.json").write_bytes(b"{")
    with pytest.raises(StateError, match="damaged"):
        read_moves(tmp_path)
