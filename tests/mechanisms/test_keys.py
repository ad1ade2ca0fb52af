import pytest

from oracle.errors import InputError
from oracle.mechanisms.keys import FORK_BYTES, KEY_BYTES, PhaseKey

_KEY = PhaseKey(bytes(range(KEY_BYTES)))
_SALTS = [bytes([number]) * FORK_BYTES for number in range(4)]


def test_fork_is_a_function_of_key_and_salt():
    """The same salt gives the same key again; another salt, or another phase's key, another one."""
    forks = [_KEY.fork(salt) for salt in _SALTS] + [_KEY.ratchet().fork(_SALTS[0])]
    assert forks[0] == PhaseKey(bytes(range(KEY_BYTES))).fork(_SALTS[0])
    assert len({fork.secret for fork in forks}) == len(forks)


def test_a_fork_of_the_ledger_can_be_made_again():
    """Key and salt give the bytes that they gave when the first fork was recorded."""
    assert _KEY.fork(_SALTS[3]).secret.hex() == "120288f532d190ddd57c2051c03dd778c54fbaf2332dcdd11ecfc2891c7431ee"


def test_fork_is_none_of_the_other_derivations():
    """No subkey, ratchet or fork of one key is another one's, also a phase later."""
    keys = [_KEY, _KEY.fork(_SALTS[0])]
    keys += [key.ratchet() for key in keys]
    secrets = [key.secret for key in keys]
    secrets += [key.subkey(purpose) for key in keys for purpose in (b"noise", b"query hash", b"fork/" + _SALTS[0])]
    assert len(set(secrets)) == len(secrets)


@pytest.mark.parametrize("length", [0, 16, 31, 33])
def test_short_salt_is_refused(length):
    """A salt has its full length, so that no two forks share one."""
    with pytest.raises(InputError, match=f"fork salt length = {length}: must be 32 bytes"):
        _KEY.fork(bytes(length))


def test_keys_are_not_shown():
    """A forked key's `repr` holds no secret."""
    fork = _KEY.fork(_SALTS[0])
    assert fork.secret.hex() not in repr(fork)
    assert repr(fork) == repr(_KEY)


def test_later_keys_follow_from_an_earlier_one():
    """The ratchet takes no entropy: what SECURITY.md says of a leaked backup, and why the same log answers the same."""
    leaked = PhaseKey(_KEY.ratchet().secret)
    assert leaked.ratchet().ratchet() == _KEY.ratchet().ratchet().ratchet()
