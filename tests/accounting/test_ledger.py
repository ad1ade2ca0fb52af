import msgspec
import pytest

from oracle.accounting.ledger import (
    LedgerEvent,
    PhaseEnded,
    PhaseStarted,
    PlanEnded,
    ReplayForked,
    ScoreReleased,
    SideRearmed,
    StartChecked,
    decode,
    encode,
)

_LINES: dict[bytes, LedgerEvent] = {
    b'{"kind":"phase-started","round":0,"phase":1,"rounds":9,"epsilon":1.0,"delta":1e-6,"delta_spent":0.1}': (
        PhaseStarted(round=0, phase=1, rounds=9, epsilon=1.0, delta=1e-6, delta_spent=0.1)
    ),
    b'{"kind":"phase-ended","round":9,"phase":1,"rearms":2}': PhaseEnded(round=9, phase=1, rearms=2),
    b'{"kind":"side-rearmed","round":7,"phase":1,"side":2}': SideRearmed(round=7, phase=1, side=2),
    b'{"kind":"plan-ended","round":9}': PlanEnded(round=9),
    b'{"kind":"replay-forked","round":5,"phase":1,"fork":"ab","number":2,"epsilon":1.0,"delta":1e-6,"delta_sum":0.1}': (
        ReplayForked(round=5, phase=1, fork="ab", number=2, epsilon=1.0, delta=1e-6, delta_sum=0.1)
    ),
    b'{"kind":"start-checked","round":0,"model":"m","shard":0,"beyond":7,"least":9,"noise":0.1,"passed":false,'
    b'"epsilon":0.5,"delta":1e-30}': (
        StartChecked(round=0, model="m", shard=0, beyond=7, least=9, noise=0.1, passed=False, epsilon=0.5, delta=1e-30)
    ),
    b'{"kind":"score-released","model":"m","data":"d","trial":"ab","wrong":4,"round":9,"noise":0.1,"epsilon":1.1,'
    b'"epsilon_training":1.0,"epsilon_test":1.1,"delta":1e-6,"delta_sum":0.1}': (
        ScoreReleased(
            model="m",
            data="d",
            trial="ab",
            wrong=4,
            round=9,
            noise=0.1,
            epsilon=1.1,
            epsilon_training=1.0,
            epsilon_test=1.1,
            delta=1e-6,
            delta_sum=0.1,
        )
    ),
}


@pytest.mark.parametrize("line", _LINES)
def test_persisted_vocabulary_stays(line):
    """Every kind that was ever written is read as what it meant, and what is written now looks the same."""
    assert decode(line) == _LINES[line]
    assert msgspec.json.decode(encode(_LINES[line])) == msgspec.json.decode(line)


@pytest.mark.parametrize("line", [b'{"kind":"new","round":1}', b'{"round":1}', b'{"kind":"plan-ended"}', b"", b"[]"])
def test_unknown_events_are_refused(line):
    """A reader never guesses."""
    with pytest.raises(msgspec.MsgspecError):
        decode(line)
